//! What lies between a sender and the network in a verified case: a wire under the native sender f,
//! the translator T under the guest g.

use uc_core::{Core, Flow, Policy, consts};
use uc_net::Nanos;
use uc_sim::Port;
use uc_tcp::Segment;

use crate::layout::{self, Fault};
use crate::plan::Handover;

/// An element that sees every segment of the connection, and may edit it.
pub trait Element {
    /// Passes a segment of the sender to the network.
    fn towards_network(&mut self, now: Nanos, segment: &mut Segment);
    /// Passes a segment of the network to the sender.
    fn towards_guest(&mut self, now: Nanos, segment: &mut Segment);
    /// Returns the sender's state as the element computes it; `None` if the element computes none.
    fn shadow(&self) -> Option<Shadow> {
        None
    }
}

/// The sender's state as the element computes it from the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Window of the law f, in bytes.
    pub window_bytes: u32,
    /// Phase of the sender's congestion control: a `CA_…` of [`consts`].
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
pub struct Translator<'a> {
    port: Port,
    core: Core,
    policy: Policy,
    /// How far the clock of the port's host is ahead of the case's, in units of 128 µs.
    clock: u32,
    /// Number of segments that the translator has seen.
    segments: u32,
    /// Handovers to other hosts that are still to come.
    handovers: &'a [Handover],
    /// A fault that is planted in the layouts through which the flow moves.
    fault: Fault,
}

impl<'a> Translator<'a> {
    /// Creates a translator with this core and policy, before the handshake. `strips_ecn`: vCC
    /// §2.4's concatenation, where ECN is stripped from a guest that negotiates it.
    pub fn new(core: Core, policy: Policy, strips_ecn: bool) -> Translator<'a> {
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
            core,
            policy,
            clock: 0,
            segments: 0,
            handovers: &[],
            fault: Fault::None,
        }
    }

    /// Lets the flow move to other hosts, through layouts with this fault.
    #[must_use]
    pub fn moving(self, handovers: &'a [Handover], fault: Fault) -> Translator<'a> {
        Translator {
            handovers,
            fault,
            ..self
        }
    }

    /// Returns a time by the clock of the port's host.
    fn here(&self, now: Nanos) -> Nanos {
        Nanos(now.0 + u64::from(self.clock) * u64::from(consts::REBASE_NS))
    }

    /// Counts a segment, moves the flow if a handover is due, and returns the time by the clock of the port's host.
    fn arrive(&mut self, now: Nanos) -> Nanos {
        if let [next, later @ ..] = self.handovers
            && self.segments >= next.segment
            && self.hand_over(now, next)
        {
            self.handovers = later;
        }
        self.segments += 1;
        self.here(now)
    }

    /// Moves the flow to a new port. Returns false, without a move, while the flow is not established.
    fn hand_over(&mut self, now: Nanos, next: &Handover) -> bool {
        let is_established = |flow: &&Flow| u32::from(flow.stage) == consts::TRANSLATING;
        let Some(flow) = self.port.flow().filter(is_established) else {
            return false;
        };
        let layout = layout::draw(next.layout, self.fault);
        let crossed = layout::cross(flow, &layout, self.here(now).0);
        let units = i64::from(next.clock) - i64::from(self.clock);
        self.clock = next.clock;
        self.port = Port::with_core(self.core, self.policy);
        // what a host does not take over passes untranslated there
        if let Some(mut flow) = crossed {
            flow.rebase(units);
            assert!(flow.is_sound(), "a flow that moves is not sound: {flow:?}");
            self.port.take_over(self.here(now), flow);
        }
        true
    }
}

impl Element for Translator<'_> {
    fn towards_network(&mut self, now: Nanos, segment: &mut Segment) {
        let here = self.arrive(now);
        self.port.from_guest(here, segment);
    }

    fn towards_guest(&mut self, now: Nanos, segment: &mut Segment) {
        let here = self.arrive(now);
        self.port.to_guest(here, segment);
    }

    fn shadow(&self) -> Option<Shadow> {
        self.port.flow().map(|flow| Shadow {
            window_bytes: uc_core::COMPILED.window_bytes(flow),
            phase: flow.ca.into(),
            losses: flow.losses,
        })
    }
}
