//! Send times of segments, for the congestion controls that use the round-trip time of every ACK.
//! The retransmission timer times one segment at a time (RFC 6298 §3), which is too seldom for
//! them.

use std::collections::VecDeque;

use uc_net::Nanos;

/// Maximum number of segments with a send time; further ones aren't timed.
const MOST_SEGMENTS: usize = 1 << 16;

/// The send times of the segments in flight, by the end of each segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendTimes {
    segments: VecDeque<(u64, Nanos)>,
    /// End of the data that was retransmitted.
    resent_end: u64,
}

impl SendTimes {
    /// Records new data up to `end`, sent at `now`.
    pub(crate) fn sent(&mut self, end: u64, now: Nanos) {
        if self.segments.len() < MOST_SEGMENTS {
            self.segments.push_back((end, now));
        }
    }

    pub(crate) fn sent_again(&mut self, end: u64) {
        self.resent_end = self.resent_end.max(end);
    }

    /// Returns when the segment that contains `una` was sent; `None` if it was retransmitted since.
    pub(crate) fn oldest(&self, una: u64) -> Option<Nanos> {
        let first = self.segments.front().filter(|_| una >= self.resent_end);
        first.map(|&(_, sent_at)| sent_at)
    }

    /// Returns the round-trip time of an ACK that moves SND.UNA from `una` to `ack`: that of the
    /// last segment it covers, which a delayed ACK does not lengthen. `None` by Karn's rule if it
    /// covers retransmitted data, since the ACK may have waited for the retransmission.
    pub(crate) fn take(&mut self, una: u64, ack: u64, now: Nanos) -> Option<Nanos> {
        let mut last = None;
        while let Some(&(_, sent_at)) = self.segments.front().filter(|(end, _)| *end <= ack) {
            self.segments.pop_front();
            last = Some(sent_at);
        }
        let sent_at = last.filter(|_| una >= self.resent_end)?;
        Some(now.since(sent_at))
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_SEGMENTS, SendTimes};
    use uc_net::Nanos;

    const fn ms(milliseconds: u64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    #[test]
    fn an_ack_of_several_segments_is_timed_by_the_last() {
        let mut times = SendTimes::default();
        for (end, at) in [(1000, 0), (2000, 3), (3000, 5)] {
            times.sent(end, ms(at));
        }
        assert_eq!(times.take(0, 2000, ms(20)), Some(ms(17)));
        assert_eq!(times.take(2000, 2500, ms(21)), None, "part of a segment");
        assert_eq!(times.take(2500, 3000, ms(25)), Some(ms(20)));
        assert_eq!(times.take(3000, 3000, ms(26)), None);
    }

    #[test]
    fn acks_that_cover_retransmitted_data_are_not_timed() {
        let mut times = SendTimes::default();
        for end in [1000, 2000, 3000, 4000] {
            times.sent(end, ms(0));
        }
        times.sent_again(1000);
        assert_eq!(times.take(0, 3000, ms(40)), None);
        assert_eq!(times.take(3000, 4000, ms(41)), Some(ms(41)));
    }

    #[test]
    fn segments_beyond_the_limit_are_not_timed() {
        let mut times = SendTimes::default();
        let most = MOST_SEGMENTS as u64;
        for end in 1..=most + 10 {
            times.sent(end, ms(0));
        }
        assert_eq!(times.segments.len(), MOST_SEGMENTS);
        assert_eq!(times.take(0, most, ms(1)), Some(ms(1)));
        assert_eq!(times.take(most, most + 10, ms(1)), None);
    }
}
