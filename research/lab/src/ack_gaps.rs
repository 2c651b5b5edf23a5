//! Gaps between the ACKs of one flow, as the emulated network delivers them to the guest.

use std::ops::Range;

use uc_experiment::ACK_GAP_BIN;
use uc_net::Nanos;

/// The gaps between the ACKs of one flow, by the times at which they were delivered.
#[derive(Debug, Default)]
pub struct AckGaps {
    last: Option<Nanos>,
    /// Gaps of at least 100 ms: the time at which each ended, and its length.
    long: Vec<(Nanos, Nanos)>,
    /// Time of the first ACK.
    first: Nanos,
    /// Number of shorter gaps that ended in each interval of 100 ms, counted from `first`.
    short: Vec<u32>,
}

impl AckGaps {
    /// Adds an ACK that is delivered now.
    pub fn acknowledged(&mut self, now: Nanos) {
        let Some(last) = self.last.replace(now) else {
            self.first = now;
            return;
        };
        let gap = now.since(last);
        if gap.0 >= ACK_GAP_BIN.0 {
            self.long.push((now, gap));
            return;
        }
        let place = (now.since(self.first).0 / ACK_GAP_BIN.0) as usize;
        if self.short.len() <= place {
            self.short.resize(place + 1, 0);
        }
        self.short[place] += 1;
    }

    /// Returns the number of gaps in [100·i, 100·(i + 1)) ms that ended within `measured_ns`, for each i up to the
    /// longest. For gaps below 100 ms, both ends of `measured_ns` are rounded down to a multiple of 100 ms after the
    /// first ACK.
    pub fn bins(&self, measured_ns: &Range<u64>) -> Vec<u32> {
        let place = |at_ns: u64| (at_ns.saturating_sub(self.first.0) / ACK_GAP_BIN.0) as usize;
        let measured = place(measured_ns.start)..place(measured_ns.end);
        let short = self.short.iter().take(measured.end).skip(measured.start);
        let mut bins = vec![short.sum()];
        for (_, gap) in self
            .long
            .iter()
            .filter(|(end, _)| measured_ns.contains(&end.0))
        {
            let bin = (gap.0 / ACK_GAP_BIN.0) as usize;
            if bins.len() <= bin {
                bins.resize(bin + 1, 0);
            }
            bins[bin] += 1;
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::AckGaps;
    use uc_net::Nanos;

    fn gaps(at_ms: &[u64]) -> AckGaps {
        let mut gaps = AckGaps::default();
        for at in at_ms {
            gaps.acknowledged(Nanos::from_millis(*at));
        }
        gaps
    }

    #[test]
    fn gaps_are_counted_in_bins_of_a_tenth_of_a_second() {
        let gaps = gaps(&[1_000, 1_050, 1_149, 1_249, 1_458, 2_158, 2_159]);
        assert_eq!(gaps.bins(&(0..u64::MAX)), [3, 1, 1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn gaps_that_end_outside_of_the_measured_part_do_not_count() {
        let gaps = gaps(&[1_000, 1_050, 1_260, 1_270, 1_480]);
        assert_eq!(gaps.bins(&(1_200_000_000..1_400_000_000)), [1, 0, 1]);
        assert_eq!(gaps.bins(&(1_700_000_000..1_800_000_000)), [0]);
    }

    #[test]
    fn a_flow_without_acks_has_no_gaps() {
        assert_eq!(AckGaps::default().bins(&(0..1_000_000_000)), [0]);
    }
}
