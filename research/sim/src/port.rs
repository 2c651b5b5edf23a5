//! A tenant port in the simulator: the same C that the kernel runs, between a guest and the wire.
//!
//! The code around the core does what `bpf/port/port.bpf.c` does: parse, find the flow, call the core, ask the flow's
//! group for its share, keep or forget the flow by the core's reason ([`uc_core::slot`]), write the edit, count the
//! reason. A [`Port`] has the flow of one connection. The flows of all connections of a guest have entries in one
//! [`TenantPort`], which also has the guest's hooks.

use std::cell::RefCell;
use std::rc::Rc;

use uc_core::dupack;
use uc_core::slot::{Share, Slot};
use uc_core::{COMPILED, Core, Edit, Flow, Policy, Reason, consts};
use uc_experiment::LawEvent;
use uc_net::{Ecn, Nanos};
use uc_tcp::{Options, Segment, flags};

use crate::dupack::{Dupacks, segment};
use crate::events::{Events, Noted};
use crate::tenant_port::{Place, Seat, Settings, TenantPort};

/// The core on one connection of one guest.
#[derive(Debug)]
pub struct Port {
    slot: Slot,
    /// The port of the guest, which its connections share.
    tenant: Rc<RefCell<TenantPort>>,
    /// Entry of the flow in `tenant`; `None`: the port has no flow.
    place: Option<Place>,
    /// Number of segments by the code of their reason.
    counts: Box<[u64]>,
    events: Events,
    /// Duplicate ACKs to the guest; `None`: the port sends none.
    dupacks: Option<Box<Dupacks>>,
}

impl Port {
    /// Creates a port of the repository's own core without a flow, for a guest with one connection.
    pub fn new(policy: Policy) -> Port {
        Port::with_core(COMPILED, policy)
    }

    /// Creates a port of this core without a flow, for a guest with one connection.
    pub fn with_core(core: Core, policy: Policy) -> Port {
        Port::at(TenantPort::shared(Settings::default()), core, policy, 0)
    }

    /// Creates the part of a guest's port for one connection. `share`: weight of the connection's flow in a sum of
    /// laws' windows; 0: the flow is in no sum.
    pub fn at(tenant: Rc<RefCell<TenantPort>>, core: Core, policy: Policy, share: u8) -> Port {
        Port {
            slot: Slot::with_core(core, policy).sharing(share),
            tenant,
            place: None,
            counts: vec![0; Reason::all().count()].into(),
            events: Events::default(),
            dupacks: None,
        }
    }

    /// Makes the port send its guest duplicate ACKs when the flow falls silent.
    pub fn send_dupacks(&mut self, policy: dupack::Policy) {
        self.dupacks = Some(Box::new(Dupacks::new(policy)));
    }

    /// Returns when duplicate ACKs are due if nothing passes the port until then; `None`: none will be.
    #[inline]
    pub fn dupacks_due(&self) -> Option<Nanos> {
        self.dupacks.as_ref()?.due(self.flow()?)
    }

    /// Returns how many duplicate ACKs the guest is to get now: segments of [`Port::dupack`].
    pub fn take_dupacks(&mut self, now: Nanos) -> u32 {
        let has_place = self.has_place();
        match (&mut self.dupacks, self.slot.flow()) {
            (Some(dupacks), Some(flow)) if has_place => dupacks.take(flow, now),
            _ => 0,
        }
    }

    /// Returns a duplicate ACK for the guest; pass it through the port like one from the network. `None` without a
    /// flow.
    pub fn dupack(&self) -> Option<Segment> {
        self.flow().map(segment)
    }

    /// Passes a segment from the guest to the network; edits it in place.
    pub fn from_guest(&mut self, now: Nanos, segment: &mut Segment) -> Reason {
        self.pass(now, segment, consts::FROM_GUEST, &mut |_| None)
    }

    /// Passes a segment from the network to the guest; edits it in place.
    pub fn to_guest(&mut self, now: Nanos, segment: &mut Segment) -> Reason {
        self.to_guest_of(now, segment, &mut |_| None)
    }

    /// Passes a segment from the network to the guest at a port whose flow may be in a group: calls `share` where the
    /// group sets the flow's window.
    pub fn to_guest_of(&mut self, now: Nanos, segment: &mut Segment, share: Share<'_>) -> Reason {
        self.pass(now, segment, consts::TO_GUEST, share)
    }

    /// Returns the core's state of the connection; `None` before the handshake, after the core gave
    /// the flow up, and after the flow lost its place.
    pub fn flow(&self) -> Option<&Flow> {
        self.slot.flow().filter(|_| self.has_place())
    }

    /// Takes over the flow of another port, whose times are by this port's clock. Takes nothing if the guest has too
    /// many flows.
    pub fn take_over(&mut self, now: Nanos, flow: Flow) {
        let place = self.tenant.borrow_mut().enter(&flow, false, now.0);
        self.place = place.ok();
        if self.has_place() {
            self.slot.take_over(flow);
        }
    }

    fn has_place(&self) -> bool {
        self.place
            .is_some_and(|place| self.tenant.borrow().has(place))
    }

    /// Returns the window of the flow's law in bytes; `None` without a flow.
    pub fn window_bytes(&self) -> Option<u32> {
        self.slot.window_bytes().filter(|_| self.has_place())
    }

    /// Returns the flow's estimate of marked bytes in 1/2^30; `None` without a flow, or if its law
    /// keeps none.
    pub fn alpha_q30(&self) -> Option<u32> {
        self.slot.alpha_q30().filter(|_| self.has_place())
    }

    /// Iterates over all reasons with the number of segments of each.
    pub fn counts(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::all().zip(self.counts.iter().copied())
    }

    /// Returns the law's events since they were last taken; events of the same kind are one entry.
    pub fn take_events(&mut self) -> impl Iterator<Item = LawEvent> + '_ {
        self.events.take()
    }

    fn pass(
        &mut self,
        now: Nanos,
        segment: &mut Segment,
        direction: u32,
        share: Share<'_>,
    ) -> Reason {
        let tenant = &mut *self.tenant.borrow_mut();
        if self.place.is_some_and(|place| !tenant.has(place)) {
            self.place = None;
            self.slot.forget();
        }
        let before = self.slot.flow().map(Noted::of);
        let mut parsed = parse(segment, direction);
        tenant.look(&mut parsed, self.slot.flow(), now.0);
        let place = &mut self.place;
        let mut seat = Seat { tenant, place };
        let (reason, edit) = self.slot.pass_in(&parsed, now.0, share, &mut seat);
        if let (Some(place), Some(flow)) = (self.place, self.slot.flow()) {
            tenant.keep(place, flow);
        }
        if let (Some(before), Some(flow)) = (before, self.slot.flow()) {
            self.events.note(now, before, flow, reason);
        }
        write(segment, &edit);
        let counted = reason.counted(&parsed, &edit).code() as usize;
        if let Some(count) = self.counts.get_mut(counted) {
            *count += 1;
        }
        reason
    }
}

/// Converts a segment to the core's form, as `bpf/packet.h` does: from a SYN or SYN-ACK it reads the offers, from any
/// other segment to the guest the SACK blocks.
pub(crate) fn parse(segment: &Segment, direction: u32) -> uc_core::Segment {
    let mut parsed = uc_core::Segment {
        seq: segment.seq,
        ack: segment.ack,
        payload_bytes: u32::from(segment.payload_bytes),
        wire_payload_bytes: segment.payload_bytes,
        window: segment.window,
        flags: segment.flags,
        ecn: segment.ecn.bits(),
        direction: direction as u8,
        ..uc_core::Segment::default()
    };
    if segment.has(flags::SYN) {
        parse_options(segment, &mut parsed);
    } else if direction == consts::TO_GUEST {
        uc_core::set_sack(&mut parsed, segment.options.sack.as_slice());
    }
    parsed
}

fn parse_options(segment: &Segment, parsed: &mut uc_core::Segment) {
    let options = &segment.options;
    parsed.mss_bytes = options.mss_bytes;
    parsed.wscale = options.wscale.unwrap_or(0);
    let offered = [
        (options.mss_bytes > 0, consts::OPT_MSS),
        (options.wscale.is_some(), consts::OPT_WSCALE),
        (options.sack_permitted, consts::OPT_SACK),
        (options.timestamps.is_some(), consts::OPT_TIMESTAMPS),
    ];
    for (is_offered, bit) in offered {
        if is_offered {
            parsed.options |= bit as u8;
        }
    }
}

fn write(segment: &mut Segment, edit: &Edit) {
    segment.window = edit.window;
    segment.flags = edit.flags;
    segment.ecn = Ecn::from_bits(edit.ecn);
    if segment.has(flags::SYN) {
        write_offers(&mut segment.options, edit);
    }
}

fn write_offers(options: &mut Options, edit: &Edit) {
    let is_removed = |bit| u32::from(edit.removed) & bit != 0;
    options.sack_permitted &= !is_removed(consts::OPT_SACK);
    if is_removed(consts::OPT_WSCALE) {
        options.wscale = None;
    }
    if is_removed(consts::OPT_TIMESTAMPS) {
        options.timestamps = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_experiment::LawEventKind;
    use uc_tcp::flags::{ACK, CWR, ECE, SYN};

    fn policy() -> Policy {
        Policy::new(consts::LAW_ECN, consts::PROFILE_RFC)
    }

    fn segment(seq: u32, ack: u32, flags: u8, payload_bytes: u16) -> Segment {
        Segment {
            seq,
            ack,
            window: 65_535,
            payload_bytes,
            flags,
            ecn: Ecn::NotEct,
            options: Options {
                mss_bytes: if flags & SYN > 0 { 1_000 } else { 0 },
                ..Options::default()
            },
        }
    }

    fn count(port: &Port, reason: Reason) -> u64 {
        let mut counts = port.counts();
        counts.find(|&(of, _)| of == reason).map_or(0, |(_, n)| n)
    }

    #[test]
    fn a_guest_without_ecn_gets_ecn_on_the_wire_and_a_smaller_window() {
        let mut port = Port::new(policy());
        let mut syn = segment(100, 0, SYN, 0);
        assert_eq!(port.from_guest(Nanos(1), &mut syn), Reason::TRANSLATED);
        assert_eq!(syn.flags, SYN | ECE | CWR);
        let mut answer = segment(500, 101, SYN | ACK | ECE, 0);
        assert_eq!(port.to_guest(Nanos(2), &mut answer), Reason::TRANSLATED);
        assert_eq!((answer.flags, answer.window), (SYN | ACK, 10_000));
        let mut data = segment(101, 501, ACK, 1_000);
        port.from_guest(Nanos(3), &mut data);
        assert_eq!(data.ecn, Ecn::Ect0);
        let mut echo = segment(501, 1_101, ACK | ECE, 0);
        port.to_guest(Nanos(4), &mut echo);
        // Half of ten segments, by the mark; nothing is in flight.
        assert_eq!((echo.flags, echo.window), (ACK, 5_000));
        assert_eq!(port.flow().map(|flow| flow.cuts), Some(1));
        let events: Vec<LawEvent> = port.take_events().collect();
        let cut = LawEvent {
            at_ns: 4,
            kind: LawEventKind::Cut,
            times: 1,
            before_bytes: 10_000,
            after_bytes: 5_000,
            ssthresh_bytes: Some(5_000),
        };
        assert_eq!(events, [cut]);
        assert_eq!(port.take_events().count(), 0, "they were taken");
        assert_eq!(count(&port, Reason::TRANSLATED), 4);
    }

    #[test]
    fn data_that_the_guard_drops_is_one_event_until_it_is_taken() {
        let mut port = Port::new(Policy {
            guard_segments: 1,
            ..policy()
        });
        port.from_guest(Nanos(1), &mut segment(100, 0, SYN, 0));
        port.to_guest(Nanos(2), &mut segment(500, 101, SYN | ACK | ECE, 0));
        port.from_guest(Nanos(3), &mut segment(101, 501, ACK, 1_000));
        for at in 4..7 {
            let mut beyond = segment(20_101, 501, ACK, 1_000);
            let reason = port.from_guest(Nanos(at), &mut beyond);
            assert_eq!(reason, Reason::BEYOND_EDGE);
        }
        let events: Vec<LawEvent> = port.take_events().collect();
        let told = events
            .iter()
            .map(|event| (event.kind, event.at_ns, event.times));
        assert_eq!(told.collect::<Vec<_>>(), [(LawEventKind::Guarded, 4, 3)]);
    }

    #[test]
    fn the_port_forgets_a_flow_whose_peer_refuses_ecn() {
        let mut port = Port::new(policy());
        port.from_guest(Nanos(1), &mut segment(100, 0, SYN, 0));
        let mut answer = segment(500, 101, SYN | ACK, 0);
        assert_eq!(
            port.to_guest(Nanos(2), &mut answer),
            Reason::PEER_REFUSED_ECN
        );
        assert!(port.flow().is_none());
        let mut data = segment(101, 501, ACK, 1_000);
        let before = data;
        assert_eq!(port.from_guest(Nanos(3), &mut data), Reason::NO_HANDSHAKE);
        assert_eq!(data, before);
        assert_eq!(count(&port, Reason::NO_HANDSHAKE), 1);
    }

    #[test]
    fn a_guest_that_negotiates_ecn_passes_unchanged() {
        let mut port = Port::new(policy());
        let mut syn = segment(100, 0, SYN | ECE | CWR, 0);
        let before = syn;
        assert_eq!(
            port.from_guest(Nanos(1), &mut syn),
            Reason::GUEST_SPEAKS_ECN
        );
        assert_eq!(syn, before);
        assert!(port.flow().is_none());
    }
}
