//! Processing of an arriving segment, in the order of RFC 9293 §3.10.7.4.

use uc_net::{Ecn, Nanos};

use crate::acks::Ack;
use crate::coalescing::Coalescer;
use crate::connection::Connection;
use crate::outlet::Outlet;
use crate::receiver::Due;
use crate::segment::{Segment, flags};
use crate::seq;

impl Connection {
    /// Processes a segment that arrives in state SYN-RECEIVED.
    pub(crate) fn receive_last_ack(
        &mut self,
        now: Nanos,
        segment: &Segment,
        out: &mut impl Outlet,
    ) {
        let again =
            segment.has(flags::SYN) && self.receiver.place(segment.seq) + 1 == self.receiver.nxt;
        if again && !segment.has(flags::ACK) {
            // the SYN-ACK was lost or is late: it times nothing (RFC 6298 §3), and the window
            // starts with one segment (RFC 5681 §3.1)
            self.syn_lost = true;
            self.send_syn(now, out);
            return;
        }
        if !segment.has(flags::RST) && segment.has(flags::ACK) {
            if segment.ack != self.sender.nxt as u32 {
                out.send(crate::handshake::reset_for(segment));
                return;
            }
            self.establish(now);
        }
        self.receive_established(now, segment, out);
    }

    /// Processes a segment in ESTABLISHED, in the order of RFC 9293 §3.10.7.4.
    pub(crate) fn receive_established(
        &mut self,
        now: Nanos,
        segment: &Segment,
        out: &mut impl Outlet,
    ) {
        let place = self.receiver.place(segment.seq);
        let bytes = segment.sequence_bytes();
        if !self.passes(place, segment) {
            self.count_needless(place, segment);
            self.receiver
                .note_duplicate(place, place + u64::from(segment.payload_bytes));
            // an unacceptable segment is answered with an ACK, a reset never
            let is_dropped = bytes > 0 || self.config.drops_old_acks;
            if is_dropped && !segment.has(flags::RST) {
                self.emit_ack(now, out);
            }
            if segment.has(flags::RST) || is_dropped {
                return;
            }
        }
        if segment.has(flags::RST | flags::SYN) {
            self.receive_reset(now, place, segment, out);
            return;
        }
        if !segment.has(flags::ACK) {
            return;
        }
        if let Some((ts_val, _)) = segment.options.timestamps.filter(|_| self.timestamps) {
            self.receiver.take_timestamp(place, ts_val);
        }
        if !self.take_ack(now, place, segment) {
            self.emit_ack(now, out);
            return;
        }
        if bytes > 0 {
            self.receive_data(now, place, segment, out);
        }
        self.flush(now, out);
    }

    /// Processes a segment that arrived at a host that merges segments: merges it with those that wait, or passes these
    /// on first.
    #[inline(never)]
    pub(crate) fn coalesce(&mut self, now: Nanos, segment: &Segment, out: &mut impl Outlet) {
        let merges = Coalescer::may_merge(segment);
        let merged = merges && self.coalescer.as_mut().is_some_and(|it| it.merge(segment));
        if !merged {
            self.release(now, out);
            let Some(coalescer) = self.coalescer.as_mut().filter(|_| merges) else {
                self.receive_established(now, segment, out);
                return;
            };
            coalescer.hold(now, segment);
        }
        if self
            .coalescer
            .as_ref()
            .is_some_and(|it| it.is_complete(segment))
        {
            self.release(now, out);
        }
    }

    /// Passes the merged segments that wait, if there are any, on to TCP as one segment.
    pub(crate) fn release(&mut self, now: Nanos, out: &mut impl Outlet) {
        let Some(merged) = self.coalescer.as_mut().and_then(|it| it.take()) else {
            return;
        };
        self.receiver.wire_bytes = u32::from(merged.wire_bytes);
        self.receive_established(now, &merged.segment, out);
        self.receiver.wire_bytes = u32::MAX;
    }

    #[inline]
    fn count_needless(&mut self, place: u64, segment: &Segment) {
        let is_needless = self.receiver.has_all(place, segment.payload_bytes);
        self.sender.totals.needless_received += u64::from(is_needless);
    }

    /// Returns whether the segment touches the receive window and its timestamp shows no old duplicate (RFC 7323 §5.3).
    /// The caller uses an ACK without payload even if this returns false: being overtaken doesn't make it wrong.
    #[inline]
    fn passes(&self, place: u64, segment: &Segment) -> bool {
        if let Some((ts_val, _)) = segment.options.timestamps.filter(|_| self.timestamps)
            && self.receiver.is_stale(ts_val)
            && !segment.has(flags::RST)
        {
            return false;
        }
        // A reset lies in the window or it does not count (RFC 5961 §3.2), unlike an ACK of a peer
        // that has filled the window.
        let bytes = segment.sequence_bytes() + u32::from(segment.has(flags::RST));
        self.receiver.is_acceptable(place, u64::from(bytes))
    }

    fn is_in_window(&self, place: u64) -> bool {
        self.receiver.is_acceptable(place, 1)
    }

    /// Processes RST and SYN by RFC 5961 §3 and §4: a reset at exactly RCV.NXT takes effect. A reset elsewhere and any
    /// SYN are answered with an ACK, so that an honest peer can respond with an exact reset. With `reset_in_window` a
    /// reset, and with `syn_in_window` a SYN, takes effect anywhere in the window, as in RFC 793.
    fn receive_reset(&mut self, now: Nanos, place: u64, segment: &Segment, out: &mut impl Outlet) {
        if segment.has(flags::RST) {
            if place == self.receiver.nxt || self.config.reset_in_window {
                self.close();
            } else {
                self.emit_ack(now, out);
            }
        } else if self.config.syn_in_window && self.is_in_window(place) {
            self.abort(out);
        } else {
            self.emit_ack(now, out);
        }
    }

    #[inline]
    fn take_ack(&mut self, now: Nanos, place: u64, segment: &Segment) -> bool {
        let echoed = segment.options.timestamps.filter(|_| self.timestamps);
        let ack = Ack {
            now,
            seq: place,
            overtaken: place < self.receiver.nxt && segment.sequence_bytes() == 0,
            ack: seq::unwrap(self.sender.una, segment.ack),
            window_bytes: u32::from(segment.window) << self.peer_wscale,
            carries: segment.sequence_bytes() > 0,
            ece: segment.has(flags::ECE),
            sack: &segment.options.sack,
            echoed_ms: echoed.map(|(_, ts_ecr)| ts_ecr),
        };
        self.sender.on_ack(&ack)
    }

    fn receive_data(&mut self, now: Nanos, place: u64, segment: &Segment, out: &mut impl Outlet) {
        if self.sender.ecn {
            if self.receiver.must_acknowledge_first(segment) {
                self.emit_ack(now, out);
            }
            self.sender.totals.ce_received += u64::from(segment.ecn == Ecn::Ce);
            self.receiver.take_mark(segment);
        }
        self.count_needless(place, segment);
        let delivered = self.receiver.take_data(now, place, segment);
        self.sender.totals.delivered_bytes += u64::from(delivered);
        if self.receiver.due == Due::Alone && !self.receiver.sack_on_data {
            self.emit_ack(now, out);
        }
    }
}
