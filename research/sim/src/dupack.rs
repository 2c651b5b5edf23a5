//! The duplicate ACKs that a port sends its guest, by the core's decision (`core/dupack.h`).

use uc_core::Flow;
use uc_core::dupack::{self, Policy, Rounds};
use uc_net::{Ecn, Nanos};
use uc_tcp::{Options, Segment};

/// The policy of a port, and what it has done for its flow.
#[derive(Clone, Debug)]
pub struct Dupacks {
    policy: Policy,
    rounds: Rounds,
}

impl Dupacks {
    /// Creates the state of a flow that has had none.
    pub fn new(policy: Policy) -> Dupacks {
        Dupacks {
            policy,
            rounds: Rounds::default(),
        }
    }

    /// Returns when the next ones are due.
    pub fn due(&self, flow: &Flow) -> Option<Nanos> {
        self.rounds.due_ns(&self.policy, flow).map(Nanos)
    }

    /// Returns how many are to be sent now.
    pub fn take(&mut self, flow: &Flow, now: Nanos) -> u32 {
        self.rounds.take(&self.policy, flow, now.0)
    }
}

/// Returns a duplicate ACK of the flow's peer, before it passes the port.
pub fn segment(flow: &Flow) -> Segment {
    let ack = dupack::segment(flow);
    Segment {
        seq: ack.seq,
        ack: ack.ack,
        window: ack.window,
        payload_bytes: 0,
        flags: ack.flags,
        ecn: Ecn::NotEct,
        options: Options::default(),
    }
}
