//! ACKs towards the guest, spread over a round trip.
//!
//! A guest sends new data as soon as an ACK arrives. So several ACKs at once, or one ACK for many
//! segments, make it send a burst. The pacer lets ACKs through at 6/5 of the guest's window in each
//! round trip. At one window in each round trip, an error of the estimate would throttle the guest.
//! Linux paces its own senders at 6/5, too, and at 2 in slow start. Here slow start needs no other
//! factor: the window is what the guest has in flight, so window and rate grow with each ACK that is
//! released.
//!
//! Invariants: ACKs keep their order, and so does data. Data is never held, so it may overtake ACKs.
//! No ACK number and no right window edge exceeds the peer's. No edge moves back by a unit of the
//! window scale or more. No ACK waits longer than [`SPREAD_MAX_NS`] once the ACK before it has been
//! released.

use std::collections::VecDeque;

use crate::memory::{Desk, shrink};
use crate::segment::flags::FIN;
use crate::seq::{after, before, beyond};
use crate::{AckEdit, Packet, Segment};

/// Longest time in ns that counts as a round trip over which ACKs are spread: the delay must not let
/// a guest's retransmission timer expire (200 ms and more, RFC 6298).
const SPREAD_MAX_NS: u64 = 50_000_000;
/// Maximum number of segments that one ACK may acknowledge (RFC 5681 §4.2). An ACK for more is
/// divided.
const SEGMENTS_AN_ACK: u32 = 2;
/// Divisor that bounds the smallest part of a divided ACK: 1/512 of what the ACK still acknowledges. An ACK
/// of the largest window, one gigabyte, becomes a few thousand parts.
const PARTS: u32 = 512;
/// Minimum time in ns between two parts of a divided ACK, so that the parts of a vast window do not leave all at once.
const PART_MIN_NS: u64 = 1_000;

/// The fields of a flow's state that the pacer reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// End of all that the guest has sent.
    pub(crate) nxt: u32,
    /// End of all that the peer has sent.
    pub(crate) peer_nxt: u32,
    /// The guest's segment size; 0: not known.
    pub(crate) mss_bytes: u32,
    /// Scale of the peer's window field: the number of bits by which it is shifted.
    pub(crate) scale: u8,
    /// Smoothed round-trip time in ns; 0: not known, so nothing is held.
    pub(crate) srtt_ns: u64,
}

impl Path {
    fn step_bytes(&self) -> u32 {
        SEGMENTS_AN_ACK * self.mss_bytes
    }
}

/// A packet that goes on to the guest, and the changes in its header.
#[derive(Debug)]
pub(crate) struct Passing<P> {
    pub(crate) packet: P,
    /// The window field that the guest gets.
    pub(crate) window: u16,
    /// Whether the packet's SACK blocks are removed.
    pub(crate) without_sack: bool,
}

/// An ACK that is held until its time comes.
#[derive(Clone, Debug)]
struct Waiting<P> {
    ack: AckEdit,
    /// Whether `ack` is the packet's own ACK number and window.
    is_own: bool,
    /// Whether the ACK may be divided. SACK blocks that the guest gets belong to the whole ACK. One whose
    /// window was lowered lets out no burst, and parts of it would round the edge down.
    is_divisible: bool,
    without_sack: bool,
    packet: P,
    bytes: usize,
}

/// Spreads the ACKs to one flow's guest over the round-trip time.
#[derive(Clone, Debug)]
pub(crate) struct Pacer<P> {
    queue: VecDeque<Waiting<P>>,
    /// The ACK number and window that the guest got last.
    released: Option<AckEdit>,
    /// No ACK of new data is released before this time, in ns.
    free_ns: u64,
    /// Maximum that was in flight in this round, and in the one before. Data is in flight until the
    /// guest gets its ACK.
    flight_bytes: u32,
    flight_before_bytes: u32,
    round_end: u32,
    /// ACKs up to this number are not divided: a guest that repairs a loss itself would take a part
    /// for a partial acknowledgment and retransmit (RFC 6582 §3.2 step 5).
    whole_until: Option<u32>,
}

impl<P: Packet> Pacer<P> {
    pub(crate) fn new() -> Pacer<P> {
        Pacer {
            queue: VecDeque::new(),
            released: None,
            free_ns: 0,
            flight_bytes: 0,
            flight_before_bytes: 0,
            round_end: 0,
            whole_until: None,
        }
    }

    /// Returns the time in ns at which the next held ACK is due; `None`: no ACK is held.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.queue.front().map(|_| self.free_ns)
    }

    /// Records the SYN-ACK that opens the connection; the window field of a SYN-ACK is not scaled.
    pub(crate) fn opened(&mut self, syn_ack: &Segment, scale: u8) {
        self.take_over(AckEdit {
            ack: syn_ack.ack,
            window: syn_ack.window >> scale,
        });
    }

    /// Records that the guest has sent data up to `nxt`.
    pub(crate) fn sent(&mut self, nxt: u32) {
        if let Some(released) = self.released {
            let flight = nxt.wrapping_sub(released.ack);
            self.flight_bytes = self.flight_bytes.max(flight);
        }
    }

    /// Records that the guest retransmits. All held ACKs are sent, and no ACK is divided until the data in
    /// flight is acknowledged.
    pub(crate) fn sent_again(&mut self, nxt: u32, desk: &mut Desk<'_, P>) {
        self.flush(desk);
        self.whole_until = Some(nxt);
    }

    /// Takes a packet of an open connection that is to go to the guest, with or without data.
    pub(crate) fn arrived(
        &mut self,
        now_ns: u64,
        path: &Path,
        segment: &Segment,
        passing: Passing<P>,
        desk: &mut Desk<'_, P>,
    ) {
        let ack = AckEdit {
            ack: segment.ack,
            window: passing.window,
        };
        let without_sack = passing.without_sack;
        let is_own = passing.window == segment.window;
        let has_sack = !without_sack && segment.sack_blocks().next().is_some();
        let waiting = Waiting {
            ack,
            is_own,
            is_divisible: is_own && !has_sack,
            without_sack,
            bytes: passing.packet.bytes(),
            packet: passing.packet,
        };
        if segment.payload_bytes > 0 || segment.has(FIN) {
            self.data(now_ns, path, waiting, desk);
        } else {
            self.hold(now_ns, waiting, desk);
        }
        self.release(now_ns, path, desk);
        desk.counts.acks_paced += u64::from(!self.queue.is_empty());
    }

    /// Sends data on at once. If its ACK is too early, it carries the last one released, and an ACK of its own follows.
    /// The ACKs that wait become one: behind the data they would be old segments, which a receiver drops (RFC 9293
    /// §3.10.7.4).
    fn data(&mut self, now_ns: u64, path: &Path, mut data: Waiting<P>, desk: &mut Desk<'_, P>) {
        let without_sack = data.without_sack;
        let mut ack = data.ack;
        let edit = (!data.is_own).then_some(ack);
        let Some(released) = self.released else {
            self.take_over(ack);
            desk.send_to_guest(data.packet, edit, without_sack);
            return;
        };
        let newly = beyond(ack.ack, released.ack);
        let is_early = newly > path.step_bytes() || (newly > 0 && now_ns < self.free_ns);
        if self.queue.is_empty() && !is_early {
            self.charge(now_ns.max(self.free_ns), newly, path);
            self.advance(ack, path.nxt);
            desk.send_to_guest(data.packet, edit, without_sack);
            return;
        }
        let bare = data.packet.bare_ack(path.peer_nxt);
        let lowered = (newly > 0).then_some(released);
        if lowered.is_none() {
            self.take_over(ack);
        }
        desk.send_to_guest(data.packet, lowered.or(edit), without_sack);
        if let Some(last) = self
            .drop_queue(desk)
            .filter(|last| after(last.ack, ack.ack))
        {
            ack = last;
        }
        data = Waiting {
            ack,
            is_own: data.is_own && ack == data.ack,
            is_divisible: data.is_own,
            without_sack: false,
            bytes: bare.bytes(),
            packet: bare,
        };
        self.hold(now_ns, data, desk);
    }

    /// Holds an ACK. If there is no memory for it, sends all held ACKs, and this ACK last.
    fn hold(&mut self, now_ns: u64, waiting: Waiting<P>, desk: &mut Desk<'_, P>) {
        if self.queue.is_empty() {
            self.free_ns = self.free_ns.max(now_ns);
        }
        let fits = desk.memory.take(waiting.bytes);
        self.queue.push_back(waiting);
        if !fits {
            desk.counts.packets_unheld += 1;
            // the queue must give back only memory that it has taken
            if let Some(last) = self.queue.back_mut() {
                last.bytes = 0;
            }
            self.flush(desk);
        }
    }

    /// Releases the ACKs that are due.
    pub(crate) fn release(&mut self, now_ns: u64, path: &Path, desk: &mut Desk<'_, P>) {
        while let Some(front) = self.queue.front() {
            let newly = self
                .released
                .map_or(0, |released| beyond(front.ack.ack, released.ack));
            if newly > 0 && path.srtt_ns > 0 && now_ns < self.free_ns {
                return;
            }
            match self.part(front, newly, path) {
                Some(part) => {
                    let (packet, without_sack) = (front.packet.clone(), front.without_sack);
                    desk.counts.acks_added += 1;
                    desk.send_to_guest(packet, Some(part), without_sack);
                    let (before_ns, bytes) =
                        (self.free_ns, newly - beyond(front.ack.ack, part.ack));
                    self.charge(before_ns, bytes, path);
                    self.free_ns = self.free_ns.max(before_ns + PART_MIN_NS);
                    self.advance(part, path.nxt);
                }
                None => {
                    self.charge(self.free_ns, newly, path);
                    self.pop(desk);
                    self.begin_round(path.nxt);
                }
            }
        }
    }

    /// Returns the first part of an ACK for many segments; `None` if the ACK stays whole.
    fn part(&self, front: &Waiting<P>, newly: u32, path: &Path) -> Option<AckEdit> {
        let released = self.released?;
        let step = path.step_bytes().max(newly / PARTS);
        let is_whole = self.whole_until.is_some();
        if path.mss_bytes == 0
            || newly <= step
            || is_whole
            || !front.is_divisible
            || path.srtt_ns == 0
        {
            return None;
        }
        // Right edges move in proportion, too; otherwise the last part would open a growing window
        // all at once.
        let edge = |of: AckEdit| of.ack.wrapping_add(u32::from(of.window) << path.scale);
        let (from, to) = (edge(released), edge(front.ack));
        if after(from, to) {
            return None;
        }
        let moved = u64::from(to.wrapping_sub(from)) * u64::from(step) / u64::from(newly);
        let ack = released.ack.wrapping_add(step);
        let window = from.wrapping_add(moved as u32).wrapping_sub(ack) >> path.scale;
        let window = u16::try_from(window).ok()?;
        Some(AckEdit { ack, window })
    }

    /// Sends all held ACKs, in order, and divides none: what comes next may be far ahead.
    pub(crate) fn let_go(&mut self, desk: &mut Desk<'_, P>) {
        self.flush(desk);
        self.released = None;
    }

    /// Sends all held ACKs, in the order of their arrival.
    fn flush(&mut self, desk: &mut Desk<'_, P>) {
        while !self.queue.is_empty() {
            self.pop(desk);
        }
    }

    fn pop(&mut self, desk: &mut Desk<'_, P>) {
        if let Some(front) = self.queue.pop_front() {
            desk.memory.give_back(front.bytes);
            shrink(&mut self.queue);
            let ack = (!front.is_own).then_some(front.ack);
            self.take_over(front.ack);
            desk.send_to_guest(front.packet, ack, front.without_sack);
        }
    }

    /// Drops all waiting ACKs. Returns the last one; `None`: none was waiting.
    fn drop_queue(&mut self, desk: &mut Desk<'_, P>) -> Option<AckEdit> {
        let mut last = None;
        for waiting in self.queue.drain(..) {
            desk.memory.give_back(waiting.bytes);
            last = Some(waiting.ack);
        }
        shrink(&mut self.queue);
        last
    }

    /// Delays the next ACK of new data. Counted from `from_ns`, the delay is to the time for a whole window as `bytes`
    /// are to the window.
    fn charge(&mut self, from_ns: u64, bytes: u32, path: &Path) {
        let window = self.flight_bytes.max(self.flight_before_bytes);
        let window = u64::from(window.max(path.step_bytes()).max(1));
        let spread_ns = path.srtt_ns.min(SPREAD_MAX_NS) * 5 / 6;
        self.free_ns = from_ns + u64::from(bytes) * spread_ns / window;
    }

    fn advance(&mut self, ack: AckEdit, nxt: u32) {
        self.take_over(ack);
        self.begin_round(nxt);
    }

    /// Records the ACK that the guest has got, unless it has got a later one.
    fn take_over(&mut self, ack: AckEdit) {
        match self.released {
            Some(released) if before(ack.ack, released.ack) => {}
            Some(_) => self.released = Some(ack),
            None => {
                self.released = Some(ack);
                self.round_end = ack.ack;
            }
        }
        if self
            .whole_until
            .is_some_and(|until| !before(ack.ack, until))
        {
            self.whole_until = None;
        }
    }

    /// Begins a round when all data that was in flight at the beginning of the last one is
    /// acknowledged.
    fn begin_round(&mut self, nxt: u32) {
        if let Some(released) = self.released
            && !before(released.ack, self.round_end)
        {
            self.flight_before_bytes = self.flight_bytes;
            self.flight_bytes = nxt.wrapping_sub(released.ack);
            self.round_end = nxt;
        }
    }
}
