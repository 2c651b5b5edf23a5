//! Duplicate ACKs that `uc dupack` sent for a flow.

use std::fmt;

use serde::Serialize;
use uc_hold::dupack::Status;
use uc_port::FlowView;

/// The duplicate ACKs that this host sent for a flow.
#[derive(Clone, Debug, Serialize)]
pub struct DupackBy {
    /// Number of duplicate ACKs that this host sent the guest.
    pub duplicate_acks: u64,
    /// Number of rounds in which duplicate ACKs were sent.
    pub rounds: u64,
}

/// Returns the duplicate ACKs that the host sent for the flow. `None`: it sent none, or no `uc dupack` runs.
pub fn of(flow: &FlowView) -> Option<DupackBy> {
    let flow = (flow.ifindex, flow.guest, flow.remote);
    let counts = Status::ask_about(&Some(flow)).ok()?.done.flow?;
    (counts.rounds > 0).then_some(DupackBy {
        duplicate_acks: counts.duplicate_acks,
        rounds: counts.rounds,
    })
}

impl fmt::Display for DupackBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "duplicate ACKs: the host sent the guest {} in {} rounds, each after a silence that the path does not \
             explain",
            self.duplicate_acks, self.rounds
        )
    }
}
