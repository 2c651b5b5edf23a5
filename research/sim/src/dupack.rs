//! The duplicate ACKs that a port sends its guest, by the core's decision (`core/dupack.h`).

use uc_core::Flow;
use uc_core::dupack::{self, Policy, Rounds};
use uc_net::{Ecn, Nanos};
use uc_tcp::{Options, Segment};

/// A port's policy for duplicate ACKs, and the state of those to its flow's guest.
#[derive(Clone, Debug)]
pub struct Dupacks {
    policy: Policy,
    rounds: Rounds,
}

impl Dupacks {
    /// Creates the state of a flow whose guest was sent no duplicate ACK yet.
    pub fn new(policy: Policy) -> Dupacks {
        Dupacks {
            policy,
            rounds: Rounds::default(),
        }
    }

    /// Returns when the next duplicate ACKs are due; `None`: none are.
    pub fn due(&self, flow: &Flow) -> Option<Nanos> {
        self.rounds.due_ns(&self.policy, flow).map(Nanos)
    }

    /// Returns how many duplicate ACKs to send now, and counts them as sent.
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
