//! One flow: its connection, and what is held of it.

use crate::connection::{Arrived, Connection, Sent};
use crate::memory::Desk;
use crate::pace::{Pacer, Passing, Path};
use crate::repair::Repair;
use crate::rtt::Rtt;
use crate::segment::flags::{ACK, RST, SYN};
use crate::seq::{beyond, later};
use crate::{AckEdit, Packet, Segment, Settings};

/// The times under which a hold registers a flow, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// When the hold calls [`Flow::act`]; `None`: nothing is due.
    pub(crate) due_ns: Option<u64>,
    /// When the handshake began; `None`: it is over.
    pub(crate) opening_ns: Option<u64>,
}

/// The state of one connection, and then of later connections between the same addresses and ports.
#[derive(Clone, Debug)]
pub(crate) struct Flow<P> {
    settings: Settings,
    connection: Connection,
    rtt: Rtt,
    pacer: Option<Pacer<P>>,
    repair: Option<Repair<P>>,
    /// The furthest right edge of the windows that the guest gets; `None`: it has got none yet.
    edge: Option<u32>,
    /// The times at which the hold has registered the flow.
    pub(crate) registered: Times,
}

impl<P: Packet> Flow<P> {
    pub(crate) fn new(settings: Settings, now_ns: u64) -> Flow<P> {
        Flow {
            settings,
            connection: Connection::new(now_ns),
            rtt: Rtt::new(least_timeout_ns(&settings)),
            pacer: settings.pace.then(Pacer::new),
            repair: settings.buffer.map(|_| Repair::new()),
            edge: None,
            registered: Times::default(),
        }
    }

    /// Returns the times under which the flow is to be registered.
    pub(crate) fn times(&self) -> Times {
        let is_open = self.connection.is_open();
        Times {
            due_ns: self.due_ns(),
            opening_ns: (!is_open).then_some(self.connection.begun_ns),
        }
    }

    /// Returns the time in ns at which something is due; `None`: nothing is due.
    fn due_ns(&self) -> Option<u64> {
        let pace = self.pacer.as_ref().and_then(Pacer::due_ns);
        let repair = self.repair.as_ref().and_then(Repair::due_ns);
        match (pace, repair) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns whether nothing is due, and no segment has passed for `for_ns`.
    pub(crate) fn is_idle(&self, now_ns: u64, for_ns: u64) -> bool {
        let is_silent = now_ns.saturating_sub(self.connection.seen_ns) >= for_ns;
        is_silent && self.due_ns().is_none()
    }

    /// Returns whether the connection is over and nothing is held.
    pub(crate) fn is_over(&self) -> bool {
        let is_empty = self.repair.as_ref().is_none_or(Repair::is_empty);
        self.connection.is_finished() && self.due_ns().is_none() && is_empty
    }

    /// Handles a segment that the guest sends.
    pub(crate) fn sent(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        copy: impl FnOnce() -> P,
        desk: &mut Desk<'_, P>,
    ) {
        if segment.has(SYN) {
            self.handshake(now_ns, segment, desk);
            return;
        }
        let sent = self.connection.sent(segment, now_ns);
        if sent == Sent::Nothing {
            return;
        }
        let nxt = self.connection.nxt;
        if sent == Sent::Again {
            self.rtt.stop();
        } else {
            self.rtt.start(segment.end(), now_ns);
        }
        if let Some(pacer) = &mut self.pacer {
            if sent == Sent::Again {
                pacer.sent_again(nxt, desk);
            }
            pacer.sent(nxt);
        }
        if let Some(repair) = &mut self.repair {
            let (connection, rtt) = (&self.connection, &self.rtt);
            if sent == Sent::Again {
                repair.sent_again(now_ns, connection, rtt, segment, desk);
            }
            repair.sent(now_ns, (connection, rtt), segment, copy, desk);
        }
    }

    /// Begins a connection at a guest's SYN or SYN-ACK, unless that is a retransmission.
    fn handshake(&mut self, now_ns: u64, syn: &Segment, desk: &mut Desk<'_, P>) {
        if !self.connection.begins_another(syn) {
            self.rtt.stop();
            return;
        }
        self.let_go(desk);
        self.connection.begin(syn, now_ns);
        *self = Flow {
            connection: self.connection.clone(),
            registered: self.registered,
            ..Flow::new(self.settings, now_ns)
        };
        self.rtt.start(syn.end(), now_ns);
    }

    /// Handles a packet that arrives for the guest.
    pub(crate) fn arrived(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        packet: P,
        desk: &mut Desk<'_, P>,
    ) {
        if segment.has(SYN) && !segment.has(ACK) {
            self.connection.asked(segment);
        }
        let was_covered = self.covers_first();
        let arrived = self.connection.arrived(segment, now_ns);
        match arrived {
            Arrived::Other if segment.has(RST) && self.connection.is_reset_by(segment) => {
                self.let_go(desk);
            }
            Arrived::Other | Arrived::Duplicate => {}
            Arrived::Opened | Arrived::Acked(_) => self.rtt.acked(segment.ack, now_ns),
        }
        if arrived == Arrived::Opened {
            self.edge = Some(segment.ack.wrapping_add(segment.window.into()));
            if let Some(pacer) = &mut self.pacer {
                pacer.opened(segment, self.connection.scale);
            }
        }
        if matches!(arrived, Arrived::Other | Arrived::Opened) {
            desk.send_to_guest(packet, None, false);
            return;
        }
        if self.repairs(now_ns, segment, arrived, desk) {
            return;
        }
        let path = self.path();
        // what the host repairs, the guest need not know
        let is_repaired = self.connection.flight_bytes() == 0 || was_covered && self.covers_first();
        let without_sack =
            self.repairs_alone() && is_repaired && segment.sack_blocks().next().is_some();
        let before = self.edge;
        let window = self.window(segment);
        let is_lowered = window != segment.window;
        if is_lowered && before == self.edge && arrived == Arrived::Acked(0) && is_bare(segment) {
            // to the guest it would be a duplicate
            desk.counts.dupacks_hidden += 1;
            return;
        }
        let Some(pacer) = &mut self.pacer else {
            let ack = segment.ack;
            let lowered = is_lowered.then_some(AckEdit { ack, window });
            desk.send_to_guest(packet, lowered, without_sack);
            return;
        };
        let passing = Passing {
            packet,
            window,
            without_sack,
        };
        pacer.arrived(now_ns, &path, segment, passing, desk);
    }

    /// Returns the window that the guest gets with this ACK: the ACK's own, unless the host repairs a loss
    /// and has less room. The right edge does not move back for that.
    fn window(&mut self, segment: &Segment) -> u16 {
        let (una, scale) = (self.connection.una, self.connection.scale);
        let repair = self.repair.as_ref();
        let room_bytes = repair.and_then(|repair| repair.room_bytes(&self.connection));
        let mut window = segment.window;
        if let Some(bytes) = room_bytes {
            let end = una.wrapping_add(bytes);
            let end = self.edge.map_or(end, |edge| later(edge, end));
            let units = beyond(end, segment.ack).div_ceil(1 << scale);
            window = u16::try_from(units).map_or(window, |most| window.min(most));
        }
        let edge = segment.ack.wrapping_add(u32::from(window) << scale);
        self.edge = Some(self.edge.map_or(edge, |before| later(before, edge)));
        window
    }

    /// Passes an ACK to the repair. Returns whether the ACK is hidden from the guest.
    fn repairs(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        arrived: Arrived,
        desk: &mut Desk<'_, P>,
    ) -> bool {
        let Some(repair) = &mut self.repair else {
            return false;
        };
        let (connection, rtt) = (&self.connection, &mut self.rtt);
        match arrived {
            Arrived::Other | Arrived::Opened => false,
            Arrived::Duplicate => repair.duplicate(now_ns, connection, rtt, segment, desk),
            Arrived::Acked(acked) => {
                repair.acked(now_ns, connection, rtt, (acked, segment), desk);
                false
            }
        }
    }

    /// Releases and retransmits the packets that are due.
    pub(crate) fn act(&mut self, now_ns: u64, desk: &mut Desk<'_, P>) {
        let path = self.path();
        if let Some(pacer) = &mut self.pacer {
            pacer.release(now_ns, &path, desk);
        }
        if let Some(repair) = &mut self.repair {
            repair.expire(now_ns, &self.connection, &mut self.rtt, desk);
        }
    }

    /// Drops the copies of this connection's data, and keeps no copies of later data.
    pub(crate) fn keep_nothing(&mut self, desk: &mut Desk<'_, P>) {
        if let Some(mut repair) = self.repair.take() {
            repair.clear(desk);
        }
    }

    /// Returns whether the connection is open and its data is kept.
    pub(crate) fn keeps_data(&self) -> bool {
        self.connection.is_open() && self.repair.is_some()
    }

    /// Releases the ACKs that wait, and drops all copies.
    pub(crate) fn let_go(&mut self, desk: &mut Desk<'_, P>) {
        if let Some(pacer) = &mut self.pacer {
            pacer.let_go(desk);
        }
        if let Some(repair) = &mut self.repair {
            repair.clear(desk);
        }
    }

    /// Returns whether the host can retransmit the first segment in flight.
    fn covers_first(&self) -> bool {
        let repair = self.repair.as_ref();
        repair.is_some_and(|repair| repair.covers(self.connection.una))
    }

    /// Returns whether the host repairs the flow's losses, and has not left the repair under way to the guest.
    fn repairs_alone(&self) -> bool {
        self.repair.as_ref().is_some_and(|repair| !repair.is_left())
    }

    fn path(&self) -> Path {
        Path {
            nxt: self.connection.nxt,
            peer_nxt: self.connection.peer_nxt,
            mss_bytes: self.connection.mss_bytes,
            scale: self.connection.scale,
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
        }
    }
}

/// Returns whether the segment has neither data nor FIN.
fn is_bare(segment: &Segment) -> bool {
    segment.end() == segment.seq
}

/// Returns the minimum RTO; without `buffer` no timer uses it.
fn least_timeout_ns(settings: &Settings) -> u64 {
    settings
        .buffer
        .map_or(1, |buffer| buffer.least_timeout_ns.max(1))
}
