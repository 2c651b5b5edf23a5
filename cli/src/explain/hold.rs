//! The packets of a flow that `uc hold` holds.

use std::fmt;

use serde::Serialize;
use uc_hold::{HeldFlow, Status};
use uc_port::FlowView;

/// Functions of `uc hold` that apply to a flow.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct HoldBy(HeldFlow);

/// Returns the functions of `uc hold` that apply to the flow. `None`: none applies, or no `uc hold` of an agent runs.
pub fn of(flow: &FlowView) -> Option<HoldBy> {
    let flow = (flow.ifindex, flow.guest, flow.remote);
    Status::ask_about(&Some(flow)).ok()?.done.flow.map(HoldBy)
}

impl fmt::Display for HoldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldFlow {
            paced,
            kept,
            retransmits,
        } = self.0;
        f.write_str("held packets: ")?;
        if paced {
            f.write_str("the host spreads ACKs to the guest over a round trip")?;
        }
        let and = if paced { ", and " } else { "the host " };
        match (kept, paced) {
            (true, _) => write!(
                f,
                "{and}keeps the guest's data, of which it retransmitted {retransmits} segments"
            ),
            (false, false) => {
                f.write_str("none of the guest's data, since no law translates the flow")
            }
            (false, true) => Ok(()),
        }
    }
}
