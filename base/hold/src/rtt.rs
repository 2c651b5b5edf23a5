//! A flow's round-trip time and retransmission timeout, by RFC 6298.
//!
//! The host measures at its port, so delays within the guest are not included. One segment is timed
//! at a time; a retransmission by guest or host discards the measurement (Karn's rule). The minimum
//! RTO applies to the term 4 · RTTVAR, as in Linux: on a steady path the timeout would otherwise
//! fall to the round-trip time.

use crate::seq::before;

/// The timeout, in ns, before the first sample (RFC 6298 (2.1)).
const INITIAL_NS: u64 = 1_000_000_000;
/// Upper bound of the retransmission timeout (RFC 6298 (2.5)), in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;
/// Maximum number of times that the timeout doubles.
const BACKOFF_MAX: u32 = 16;

/// The estimate of one flow's round-trip time, and its retransmission timeout (RFC 6298).
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// SRTT × 8 and RTTVAR × 4 in ns; 0 before the first sample.
    srtt_x8_ns: u64,
    rttvar_x4_ns: u64,
    shortest_ns: u64,
    least_timeout_ns: u64,
    /// The segment being timed: its end, and when it was sent.
    timed: Option<(u32, u64)>,
    backoff: u32,
}

impl Rtt {
    pub(crate) fn new(least_timeout_ns: u64) -> Rtt {
        Rtt {
            srtt_x8_ns: 0,
            rttvar_x4_ns: 0,
            shortest_ns: u64::MAX,
            least_timeout_ns,
            timed: None,
            backoff: 0,
        }
    }

    /// Times new data that ends at `end`, unless other data is being timed.
    pub(crate) fn start(&mut self, end: u32, now_ns: u64) {
        self.timed.get_or_insert((end, now_ns));
    }

    /// Cancels the round-trip time sample under way, because a segment was retransmitted (Karn's
    /// rule).
    pub(crate) fn stop(&mut self) {
        self.timed = None;
    }

    /// Handles an ACK of new data, and takes a sample if the ACK covers the data that is timed.
    pub(crate) fn acked(&mut self, ack: u32, now_ns: u64) {
        if let Some((end, at_ns)) = self.timed
            && !before(ack, end)
        {
            self.timed = None;
            self.sample(now_ns.saturating_sub(at_ns).max(1));
        }
    }

    fn sample(&mut self, rtt_ns: u64) {
        if self.srtt_x8_ns == 0 {
            self.srtt_x8_ns = rtt_ns * 8; // (2.2)
            self.rttvar_x4_ns = rtt_ns * 2;
        } else {
            // (2.3): RTTVAR first, from the old SRTT
            let error_ns = (self.srtt_x8_ns / 8).abs_diff(rtt_ns);
            self.rttvar_x4_ns = self.rttvar_x4_ns - self.rttvar_x4_ns / 4 + error_ns;
            self.srtt_x8_ns = self.srtt_x8_ns - self.srtt_x8_ns / 8 + rtt_ns;
        }
        self.shortest_ns = self.shortest_ns.min(rtt_ns);
        self.backoff = 0;
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt_ns(&self) -> Option<u64> {
        (self.srtt_x8_ns > 0).then_some(self.srtt_x8_ns / 8)
    }

    /// Returns whether an ACK that comes `after_ns` after a retransmission is too early to be its
    /// answer: sooner than half of the shortest round trip.
    pub(crate) fn is_too_early(&self, after_ns: u64) -> bool {
        self.srtt_x8_ns > 0 && after_ns < self.shortest_ns / 2
    }

    /// Returns for how long a duplicate ACK may be due to reordering: a quarter of the shortest
    /// round trip (RFC 8985 §6.2 step 4); `None` before the first sample.
    pub(crate) fn reordering_ns(&self) -> Option<u64> {
        (self.srtt_x8_ns > 0).then_some(self.shortest_ns / 4)
    }

    /// Doubles the retransmission timeout (RFC 6298 (5.5)).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// Undoes the doubling, after a spurious timeout.
    pub(crate) fn confirm(&mut self) {
        self.backoff = 0;
    }

    /// Returns the retransmission timeout in nanoseconds.
    pub(crate) fn timeout_ns(&self) -> u64 {
        let base_ns = match self.srtt_ns() {
            None => INITIAL_NS.max(self.least_timeout_ns),
            Some(srtt_ns) => srtt_ns + self.rttvar_x4_ns.max(self.least_timeout_ns),
        };
        (base_ns << self.backoff).min(LONGEST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::Rtt;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_is_srtt_plus_the_variation_or_its_minimum() {
        let mut rtt = Rtt::new(10 * MS);
        assert_eq!(rtt.timeout_ns(), 1_000 * MS);
        rtt.start(100, 0);
        rtt.acked(100, 8 * MS);
        assert_eq!(rtt.timeout_ns(), 24 * MS, "8 ms and 4 · 4 ms");
        for round in 1..100 {
            rtt.start(100 + round, 0);
            rtt.acked(100 + round, 8 * MS);
        }
        assert_eq!(rtt.timeout_ns(), 18 * MS, "8 ms and the minimum");
    }

    #[test]
    fn a_retransmission_makes_no_sample_and_backoff_lasts_until_one() {
        let mut rtt = Rtt::new(10 * MS);
        rtt.start(100, 0);
        rtt.stop();
        rtt.back_off();
        rtt.acked(100, 5 * MS);
        assert_eq!(rtt.srtt_ns(), None);
        assert_eq!(rtt.timeout_ns(), 2_000 * MS);
        rtt.start(200, 6 * MS);
        rtt.acked(200, 7 * MS);
        assert_eq!(rtt.srtt_ns(), Some(MS));
        assert_eq!(rtt.timeout_ns(), 11 * MS);
    }

    #[test]
    fn the_first_of_several_segments_is_timed() {
        let mut rtt = Rtt::new(MS);
        rtt.start(100, 0);
        rtt.start(200, 5);
        rtt.acked(99, 6);
        assert_eq!(rtt.srtt_ns(), None);
        rtt.acked(200, 40);
        assert_eq!(rtt.srtt_ns(), Some(40));
        assert!(rtt.is_too_early(19) && !rtt.is_too_early(20));
    }
}
