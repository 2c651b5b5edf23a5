//! The round-trip time of every data packet, from its transmission to its ACK.
//!
//! A packet of which any byte was retransmitted is not timed (Karn's rule, RFC 6298 §3). Packets
//! wait in a ring as long as a window; nothing is allocated once it has that length.

use std::collections::VecDeque;

use uc_net::Nanos;

/// A packet that waits for its ACK.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    /// Sequence number after the packet's last byte.
    end: u32,
    payload_bytes: u16,
    /// Whether any byte of the packet was retransmitted.
    again: bool,
}

/// The packets of one sender that wait for their ACKs.
#[derive(Clone, Debug, Default)]
pub struct PacketTimes {
    waiting: VecDeque<Sent>,
    /// Sequence number after all data ever sent; `None` before the first data.
    highest: Option<u32>,
}

fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl PacketTimes {
    /// Records data sent at `now`. If `is_timed` is false, it records only the sequence range, to recognise
    /// retransmissions.
    #[inline(always)]
    pub fn sent(&mut self, now: Nanos, seq: u32, payload_bytes: u16, is_timed: bool) {
        let end = seq.wrapping_add(u32::from(payload_bytes));
        let highest = self.highest.unwrap_or(seq);
        if is_after(highest, seq) {
            self.sent_again(seq, end);
        } else if is_timed {
            self.waiting.push_back(Sent {
                at: now,
                end,
                payload_bytes,
                again: false,
            });
        }
        if !is_after(highest, end) {
            self.highest = Some(end);
        }
    }

    /// Marks every waiting packet that overlaps with these bytes as retransmitted. Packets wait in
    /// the order of their sequence numbers.
    #[cold]
    fn sent_again(&mut self, seq: u32, end: u32) {
        let first = self
            .waiting
            .partition_point(|sent| !is_after(sent.end, seq));
        for sent in self.waiting.range_mut(first..) {
            let start = sent.end.wrapping_sub(u32::from(sent.payload_bytes));
            if !is_after(end, start) {
                break;
            }
            sent.again = true;
        }
    }

    /// Processes an ACK that arrives at `now`: calls `tell` with the round-trip time of every packet that it
    /// acknowledges in full and of which nothing was retransmitted.
    #[inline(always)]
    pub fn acknowledged(&mut self, now: Nanos, ack: u32, mut tell: impl FnMut(Nanos)) {
        while let Some(sent) = self.waiting.front()
            && !is_after(sent.end, ack)
        {
            if !sent.again {
                tell(now.since(sent.at));
            }
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(times: &mut PacketTimes, now: u64, ack: u32) -> Vec<u64> {
        let mut heard = Vec::new();
        times.acknowledged(Nanos(now), ack, |rtt| heard.push(rtt.0));
        heard
    }

    #[test]
    fn every_packet_that_an_ack_covers_is_timed_once() {
        let mut times = PacketTimes::default();
        let start = u32::MAX - 1_500;
        for number in 0..4u32 {
            let seq = start.wrapping_add(1_000 * number);
            times.sent(Nanos(10 * u64::from(number)), seq, 1_000, true);
        }
        assert_eq!(heard(&mut times, 100, start.wrapping_add(2_000)), [100, 90]);
        assert_eq!(
            heard(&mut times, 110, start.wrapping_add(2_000)),
            [0_u64; 0]
        );
        assert_eq!(heard(&mut times, 120, start.wrapping_add(4_000)), [100, 90]);
    }

    #[test]
    fn retransmitted_packets_and_packets_sent_before_timing_began_are_not_timed() {
        let mut times = PacketTimes::default();
        times.sent(Nanos(0), 0, 1_000, false);
        for number in 1..5 {
            times.sent(Nanos(0), 1_000 * number, 1_000, true);
        }
        times.sent(Nanos(50), 0, 1_000, true);
        times.sent(Nanos(50), 2_000, 1_000, true);
        times.sent(Nanos(60), 5_000, 1_000, true);
        // Of bytes 1,000 to 5,000 the packet at 2,000 was retransmitted.
        assert_eq!(heard(&mut times, 100, 6_000), [100, 100, 100, 40]);
    }
}
