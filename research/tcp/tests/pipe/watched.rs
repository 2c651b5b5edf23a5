//! Rules for every end, seen from outside: the order of new data, both windows, the promised edge.

use uc_net::Ecn;
use uc_tcp::{Info, Segment, flags};

/// The state of one end as seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The highest sequence number sent, the highest ACK and right edge received.
    pub sent_end: Option<u32>,
    pub acked: u32,
    pub edge: Option<u32>,
    wscale: u8,
    peer_wscale: Option<u8>,
    /// Payload ranges that arrived at this end, disjoint and sorted, from the first byte on.
    arrived: Vec<(u64, u64)>,
    irs: Option<u32>,
    pub segments: u64,
    pub fresh_bytes: u64,
    /// The right edge that this end advertised last.
    promised: Option<u32>,
    /// The window that this end advertised last.
    pub window: u32,
    /// Window probes; a probe's byte counts as sent only once it is acknowledged.
    probes: u32,
    pub ect_again: u64,
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Watched {
    pub fn arrived(&mut self, segment: &Segment) {
        let syn = segment.has(flags::SYN);
        if syn {
            self.irs.get_or_insert(segment.seq);
            self.peer_wscale = self.peer_wscale.or(segment.options.wscale);
        }
        if segment.has(flags::ACK) {
            let scale = if syn {
                0
            } else {
                self.peer_wscale.unwrap_or(0)
            };
            let edge = segment.ack.wrapping_add(u32::from(segment.window) << scale);
            if self.edge.is_none_or(|known| after(edge, known)) {
                self.edge = Some(edge);
            }
            if self.sent_end.is_some_and(|end| !after(segment.ack, end)) {
                self.acked = segment.ack;
            }
        }
        if let (Some(irs), true) = (self.irs, segment.payload_bytes > 0) {
            let from = u64::from(segment.seq.wrapping_sub(irs.wrapping_add(1)));
            if from < 1 << 31 {
                self.cover(from, from + u64::from(segment.payload_bytes));
            }
        }
    }

    fn cover(&mut self, mut from: u64, mut to: u64) {
        self.arrived.retain(|&(a, b)| {
            let apart = b < from || a > to;
            if !apart {
                from = from.min(a);
                to = to.max(b);
            }
            apart
        });
        let place = self.arrived.partition_point(|&(a, _)| a < from);
        self.arrived.insert(place, (from, to));
    }

    pub fn whole_bytes(&self) -> u64 {
        self.arrived
            .first()
            .map_or(0, |&(from, to)| if from == 0 { to } else { 0 })
    }

    /// Checks that the right edge never moves to the left (RFC 9293 §3.8.6) by as much as the
    /// window's granularity (RFC 7323 §2.4).
    fn promises(&mut self, segment: &Segment, label: &str) {
        if segment.has(flags::SYN) {
            self.wscale = segment.options.wscale.unwrap_or(0);
        }
        let known = self.peer_wscale.is_some();
        let scale = if segment.has(flags::SYN) || !known {
            0
        } else {
            self.wscale
        };
        self.window = u32::from(segment.window) << scale;
        let edge = segment.ack.wrapping_add(self.window);
        let grain = 1 << scale;
        if let Some(promised) = self.promised {
            assert!(
                after(edge.wrapping_add(grain), promised),
                "the edge moves back by {}: {segment:?}, {label}",
                promised.wrapping_sub(edge)
            );
        }
        if segment.has(flags::ACK) && self.promised.is_none_or(|promised| after(edge, promised)) {
            self.promised = Some(edge);
        }
    }

    pub fn sends(&mut self, segment: &Segment, info: &Info, label: &str) {
        self.segments += 1;
        self.promises(segment, label);
        let bytes = u32::from(segment.payload_bytes);
        let end = segment.seq.wrapping_add(segment.sequence_bytes());
        assert!(
            bytes <= info.smss_bytes,
            "larger than a segment: {segment:?}, {label}"
        );
        let fresh = self.sent_end.is_none_or(|known| after(end, known));
        if segment.sequence_bytes() == 0 || !fresh {
            self.ect_again += u64::from(bytes > 0 && segment.ecn != Ecn::NotEct);
            return;
        }
        if bytes == 1 && !segment.has(flags::PSH | flags::FIN) {
            self.probes += 1;
            return;
        }
        if let (Some(known), true) = (self.sent_end, bytes > 0) {
            let beyond = segment.seq.wrapping_sub(known);
            let follows = beyond <= self.probes;
            assert!(follows, "new data leave no gap: {segment:?}, {label}");
            self.probes = 0;
            self.fresh_bytes += u64::from(beyond);
        }
        self.sent_end = Some(end);
        self.fresh_bytes += u64::from(bytes);
        let Some(edge) = self.edge else { return };
        let last = segment.seq.wrapping_add(bytes);
        assert!(
            bytes == 0 || !after(last, edge),
            "beyond the peer's window by {}: {segment:?}, {info:?}, {label}",
            last.wrapping_sub(edge)
        );
        if !info.in_recovery && bytes > 0 {
            // limited transmit and F-RTO: two segments more
            let most = info.cwnd_bytes + 2 * info.smss_bytes;
            assert!(
                info.in_loss || info.flight_bytes <= most.max(info.smss_bytes),
                "beyond the congestion window: {segment:?}, {info:?}, {label}"
            );
        }
    }
}
