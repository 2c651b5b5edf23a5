//! What lies between a sender and the network in a verified case: a wire under the native sender f,
//! the translator T under the guest g.

use uc_core::{Core, Policy, consts};
use uc_net::Nanos;
use uc_sim::Port;
use uc_tcp::Segment;

/// An element that sees every segment of the connection, and may edit it.
pub trait Element {
    /// Passes a segment of the sender to the network.
    fn towards_network(&mut self, now: Nanos, segment: &mut Segment);
    /// Passes a segment of the network to the sender.
    fn towards_guest(&mut self, now: Nanos, segment: &mut Segment);
    /// Returns the element's shadow of the sender; `None` if the element has none.
    fn shadow(&self) -> Option<Shadow> {
        None
    }
}

/// The sender's state as the element computes it from the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Window of the law f, in bytes.
    pub window_bytes: u32,
    /// Phase, a `CA_…` of [`consts`].
    pub phase: u32,
    /// Number of fast retransmits and timeouts so far.
    pub losses: u32,
}

impl Shadow {
    /// Returns whether the sender repairs a loss.
    pub fn repairs(&self) -> bool {
        matches!(self.phase, consts::CA_RECOVERY | consts::CA_LOSS)
    }
}

/// An element that changes nothing: f is native.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire;

impl Element for Wire {
    fn towards_network(&mut self, _: Nanos, _: &mut Segment) {}

    fn towards_guest(&mut self, _: Nanos, _: &mut Segment) {}
}

/// The translator T: the core on the port of a guest.
#[derive(Debug)]
pub struct Translator {
    port: Port,
}

impl Translator {
    /// Creates a translator with this core and policy, before the handshake. `strips_ecn`: vCC
    /// §2.4's concatenation, where ECN is stripped from a guest that negotiates it.
    pub fn new(core: Core, policy: Policy, strips_ecn: bool) -> Translator {
        let guest_ecn = if strips_ecn {
            consts::GUEST_ECN_TRANSLATE
        } else {
            consts::GUEST_ECN_PASS
        };
        let policy = Policy {
            guest_ecn: guest_ecn as u8,
            ..policy
        };
        Translator {
            port: Port::with_core(core, policy),
        }
    }
}

impl Element for Translator {
    fn towards_network(&mut self, now: Nanos, segment: &mut Segment) {
        self.port.from_guest(now, segment);
    }

    fn towards_guest(&mut self, now: Nanos, segment: &mut Segment) {
        self.port.to_guest(now, segment);
    }

    fn shadow(&self) -> Option<Shadow> {
        self.port.flow().map(|flow| Shadow {
            window_bytes: uc_core::COMPILED.window_bytes(flow),
            phase: flow.ca.into(),
            losses: flow.losses,
        })
    }
}
