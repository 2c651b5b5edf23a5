//! Retransmission of a guest's data by its host: what a sender does after a timeout or three
//! duplicate ACKs, with the host's own timeout.
//!
//! * A timeout (RFC 6298) retransmits the first segment, doubles the timeout, and begins slow start
//!   from one segment, up to the data that was in flight (RFC 5681 §3.1).
//! * The third duplicate ACK retransmits the first segment; so do SACK blocks of more than two segments
//!   (RFC 6675 §5), and one duplicate ACK after a quarter of the shortest round trip (RFC 8985 §6.2),
//!   since a short tail does not cause three. A partial ACK retransmits the next segment (RFC 6582).
//!   With SACK, each ACK retransmits at most half of what it reports as delivered: the window is being
//!   halved (RFC 6937).
//!
//! Duplicate ACKs of data that is kept are hidden from the guest. If the guest retransmits the first
//! segment itself, the host leaves the repair to it, lets duplicate ACKs pass, and only its timer goes
//! on.
//!
//! The law decides the window: a retransmission of the host passes the port's program, which reduces the guest's window
//! as if the guest had retransmitted. In two repairs the guest gets less ([`Repair::room_bytes`]), since a sender has
//! no room for new data then: after a timeout, when slow start is for what was lost, and in a repair that began before
//! the third duplicate ACK. To the law, such a repair looks like that of a timeout, or like none yet. After a timeout
//! the law would allow two segments of new data, by which a sender finds out whether the timeout was spurious (RFC 5682
//! §2.1 step 2b); but that sender sends them instead of what was lost, and the host retransmits.

use crate::connection::Connection;
use crate::kept::{Fate, Kept};
use crate::memory::Desk;
use crate::rtt::Rtt;
use crate::seq::{after, before, later};
use crate::{Packet, Segment};

/// The third duplicate ACK indicates a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// Maximum number of timeouts in a row without an ACK of new data; then the host gives up.
const TIMEOUTS_MAX: u32 = 8;
/// Maximum time, in ns, without a segment of either end; then the host gives up.
const SILENCE_NS: u64 = 60_000_000_000;

/// The kind of loss recovery that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No repair, or one that was left to the guest.
    Open,
    /// The host retransmits because of duplicate ACKs.
    Fast,
    /// The host retransmits because its timeout expired.
    Loss,
}

/// The copies of one flow, and their retransmission.
#[derive(Clone, Debug)]
pub(crate) struct Repair<P> {
    kept: Kept<P>,
    phase: Phase,
    /// The repair is over when this sequence number is acknowledged; before that, duplicate ACKs begin
    /// no other repair.
    recover: Option<u32>,
    /// End of the data that this repair has retransmitted, as a sequence number.
    resent_to: u32,
    /// Time of the timer's retransmission, in ns; `None` once new data is acknowledged.
    resent_ns: Option<u64>,
    /// Congestion window and slow-start threshold of a repair after a timeout.
    window_bytes: u32,
    threshold_bytes: u32,
    /// Bytes that a repair after duplicate ACKs may still retransmit.
    credit_bytes: u32,
    duplicates: u32,
    /// Timeouts since the last ACK of new data.
    timeouts: u32,
    /// Time until which duplicate ACKs may come from reordering instead of loss; `None`: there are none.
    reordering_until_ns: Option<u64>,
    deadline_ns: Option<u64>,
    /// Whether this repair began before the third duplicate ACK.
    is_early: bool,
    /// Whether a partial ACK of this repair has restarted the timer (RFC 6582 §3.2 step 5).
    has_restarted: bool,
}

impl<P: Packet> Repair<P> {
    pub(crate) fn new() -> Repair<P> {
        Repair {
            kept: Kept::new(),
            phase: Phase::Open,
            recover: None,
            resent_to: 0,
            resent_ns: None,
            window_bytes: 0,
            threshold_bytes: 0,
            credit_bytes: 0,
            duplicates: 0,
            timeouts: 0,
            reordering_until_ns: None,
            deadline_ns: None,
            is_early: false,
            has_restarted: false,
        }
    }

    /// Returns the time in ns at which the next timer fires; `None`: no timer runs.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let timers = [self.deadline_ns, self.reordering_until_ns];
        timers.into_iter().flatten().min()
    }

    /// Returns whether no segment of the guest is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns whether a copy of the first segment in flight is kept.
    pub(crate) fn covers(&self, una: u32) -> bool {
        self.kept.covers(una)
    }

    /// Returns whether the repair that is under way was left to the guest.
    pub(crate) fn is_left(&self) -> bool {
        self.phase == Phase::Open && self.recover.is_some()
    }

    /// Returns how many bytes the guest may have in flight while the host repairs; `None`: its window
    /// decides.
    pub(crate) fn room_bytes(&self, connection: &Connection) -> Option<u32> {
        let flight_bytes = connection.flight_bytes();
        match self.phase {
            Phase::Loss => Some(flight_bytes.max(self.window_bytes)),
            Phase::Fast if self.is_early => Some(flight_bytes),
            Phase::Fast | Phase::Open => None,
        }
    }

    /// Drops all copies, and ends a repair that is under way.
    pub(crate) fn clear(&mut self, desk: &mut Desk<'_, P>) {
        self.kept.clear(desk.memory);
        *self = Repair::new();
    }

    /// Keeps a segment of the guest, unless the peer has it.
    pub(crate) fn sent(
        &mut self,
        now_ns: u64,
        (connection, rtt): (&Connection, &Rtt),
        segment: &Segment,
        copy: impl FnOnce() -> P,
        desk: &mut Desk<'_, P>,
    ) {
        if !after(segment.end(), connection.una) {
            return;
        }
        match self.kept.keep(segment, copy, desk.memory) {
            Fate::Kept => desk.counts.packets_kept += 1,
            Fate::Known => {}
            Fate::NoRoom => desk.counts.packets_unheld += 1,
        }
        if self.deadline_ns.is_none() {
            self.deadline_ns = Some(now_ns + rtt.timeout_ns());
        }
    }

    /// Records a retransmission of the guest. If it is the first segment in flight, the repair is left
    /// to the guest.
    pub(crate) fn sent_again(
        &mut self,
        now_ns: u64,
        connection: &Connection,
        rtt: &Rtt,
        segment: &Segment,
        desk: &mut Desk<'_, P>,
    ) {
        if after(segment.seq, connection.una) || !after(segment.end(), connection.una) {
            return;
        }
        desk.counts.yields += u64::from(self.phase != Phase::Open);
        self.phase = Phase::Open;
        self.recover = Some(connection.nxt);
        self.duplicates = 0;
        self.reordering_until_ns = None;
        self.deadline_ns = Some(now_ns + rtt.timeout_ns());
    }

    /// Takes an ACK that is not a duplicate and newly acknowledges `acked` bytes.
    pub(crate) fn acked(
        &mut self,
        now_ns: u64,
        connection: &Connection,
        rtt: &mut Rtt,
        (acked, segment): (u32, &Segment),
        desk: &mut Desk<'_, P>,
    ) {
        self.kept.acked(connection.una, desk.memory);
        let newly = self.kept.sack(segment.sack_blocks());
        if acked == 0 {
            return;
        }
        self.duplicates = 0;
        self.timeouts = 0;
        self.reordering_until_ns = None;
        self.resent_to = later(self.resent_to, connection.una);
        let was_fast = self.phase == Phase::Fast;
        let too_early = |at_ns| rtt.is_too_early(now_ns.saturating_sub(at_ns));
        if self.resent_ns.take().is_some_and(too_early) {
            // the timeout was spurious: nothing was lost
            rtt.confirm();
            self.phase = Phase::Open;
            self.recover = None;
        }
        if self
            .recover
            .is_some_and(|until| !before(connection.una, until))
        {
            self.phase = Phase::Open;
            self.recover = None;
        }
        let keeps_timer = was_fast && self.phase == Phase::Fast && self.has_restarted;
        if connection.flight_bytes() == 0 {
            self.deadline_ns = None;
        } else if !keeps_timer {
            self.deadline_ns = Some(now_ns + rtt.timeout_ns());
            self.has_restarted = true;
        }
        match self.phase {
            Phase::Open => {}
            Phase::Fast => {
                self.earn(acked + newly);
                if self.resent_to == connection.una {
                    self.resend_first(connection, rtt, desk);
                }
                self.resend_reported(rtt, desk);
            }
            Phase::Loss => {
                self.grow(acked, connection.mss_bytes);
                self.resend_in_window(connection, rtt, desk);
            }
        }
    }

    /// Takes a duplicate ACK. Returns whether it is hidden from the guest.
    pub(crate) fn duplicate(
        &mut self,
        now_ns: u64,
        connection: &Connection,
        rtt: &mut Rtt,
        segment: &Segment,
        desk: &mut Desk<'_, P>,
    ) -> bool {
        let newly = self.kept.sack(segment.sack_blocks());
        if !self.kept.covers(connection.una) || self.is_left() {
            return false;
        }
        desk.counts.dupacks_hidden += 1;
        self.duplicates += 1;
        match self.phase {
            Phase::Open => {
                let sacked = self.kept.sacked_bytes();
                let is_lost = self.duplicates >= DUPLICATES
                    || sacked > (DUPLICATES - 1) * connection.mss_bytes;
                if is_lost {
                    self.begin_fast(now_ns, connection, rtt, desk);
                } else if let Some(window_ns) = rtt.reordering_ns() {
                    self.reordering_until_ns.get_or_insert(now_ns + window_ns);
                }
            }
            Phase::Fast => {
                self.earn(newly);
                self.resend_reported(rtt, desk);
            }
            Phase::Loss => self.resend_in_window(connection, rtt, desk),
        }
        true
    }

    fn begin_fast(
        &mut self,
        now_ns: u64,
        connection: &Connection,
        rtt: &mut Rtt,
        desk: &mut Desk<'_, P>,
    ) {
        self.phase = Phase::Fast;
        self.is_early = self.duplicates < DUPLICATES;
        self.recover = Some(connection.nxt);
        self.reordering_until_ns = None;
        self.credit_bytes = 0;
        self.has_restarted = false;
        self.deadline_ns = Some(now_ns + rtt.timeout_ns());
        self.resend_first(connection, rtt, desk);
    }

    /// Handles the flow's timers that have expired.
    pub(crate) fn expire(
        &mut self,
        now_ns: u64,
        connection: &Connection,
        rtt: &mut Rtt,
        desk: &mut Desk<'_, P>,
    ) {
        if self
            .reordering_until_ns
            .is_some_and(|at_ns| now_ns >= at_ns)
        {
            self.reordering_until_ns = None;
            if self.kept.covers(connection.una) {
                self.begin_fast(now_ns, connection, rtt, desk);
            }
        }
        if self.deadline_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        self.deadline_ns = None;
        self.reordering_until_ns = None;
        if connection.flight_bytes() == 0 || !self.kept.covers(connection.una) {
            return;
        }
        let is_silent = now_ns.saturating_sub(connection.seen_ns) >= SILENCE_NS;
        if self.timeouts >= TIMEOUTS_MAX || is_silent {
            self.clear(desk);
            return;
        }
        self.timeouts += 1;
        desk.counts.timeouts += 1;
        let mss = connection.mss_bytes;
        // RFC 5681 §3.1: a segment that times out again does not lower the threshold again
        let is_again = self.phase == Phase::Loss && self.resent_ns.is_some();
        if !is_again {
            self.threshold_bytes = (connection.flight_bytes() / 2).max(2 * mss);
        }
        self.window_bytes = mss;
        self.phase = Phase::Loss;
        self.recover = Some(connection.nxt);
        self.duplicates = 0;
        self.resent_ns = Some(now_ns);
        self.kept.forget_reneged();
        rtt.back_off();
        self.resend_first(connection, rtt, desk);
        self.deadline_ns = Some(now_ns + rtt.timeout_ns());
    }

    /// Allows half of the delivered bytes to be retransmitted.
    fn earn(&mut self, delivered: u32) {
        self.credit_bytes = self.credit_bytes.saturating_add(delivered / 2);
    }

    /// Enlarges the window after a timeout (RFC 5681 §3.1, equations (2) and (3)).
    fn grow(&mut self, acked: u32, mss: u32) {
        let window = self.window_bytes;
        let by = if window < self.threshold_bytes {
            acked.min(mss)
        } else {
            (mss.saturating_mul(mss) / window.max(1)).max(1)
        };
        self.window_bytes = window.saturating_add(by);
    }

    fn resend_first(&mut self, connection: &Connection, rtt: &mut Rtt, desk: &mut Desk<'_, P>) {
        if self.kept.covers(connection.una) {
            self.resent_to = connection.una;
            self.resend(connection.nxt, u32::MAX, rtt, desk);
        }
    }

    /// Retransmits, after a timeout, as much data as the window allows.
    fn resend_in_window(&mut self, connection: &Connection, rtt: &mut Rtt, desk: &mut Desk<'_, P>) {
        let Some(until) = self.recover else { return };
        let mut flight = self.kept.missing_bytes(connection.una, self.resent_to);
        loop {
            let room = self.window_bytes.saturating_sub(flight);
            let resent = self.resend(until, room, rtt, desk);
            if resent == 0 {
                return;
            }
            flight += resent;
        }
    }

    /// Retransmits, after duplicate ACKs, the data before reported blocks, as far as the credit allows.
    fn resend_reported(&mut self, rtt: &mut Rtt, desk: &mut Desk<'_, P>) {
        let Some(until) = self.kept.sacked_end() else {
            return;
        };
        loop {
            let resent = self.resend(until, self.credit_bytes, rtt, desk);
            if resent == 0 {
                return;
            }
            self.credit_bytes -= resent;
        }
    }

    /// Retransmits the next missing segment before `until`, if it has at most `room` bytes. Returns its
    /// length in bytes; 0: nothing was sent.
    fn resend(&mut self, until: u32, room: u32, rtt: &mut Rtt, desk: &mut Desk<'_, P>) -> u32 {
        let hole = self.kept.hole(self.resent_to, until);
        let Some(entry) = hole.filter(|entry| entry.bytes() <= room) else {
            return 0;
        };
        let bytes = entry.bytes();
        self.resent_to = entry.end;
        rtt.stop();
        desk.send_to_network(entry.packet.clone());
        bytes
    }
}
