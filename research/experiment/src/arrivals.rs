//! Random arrivals, in integers: a seed gives the same numbers on every platform and backend.

use uc_net::random::Stream;

use crate::application::{Application, Sizes};
use crate::case::Guests;
use crate::network::Network;
use crate::schema::Experiment;
use crate::units::{Bytes, Nanos};

/// Random start times of flows without a spread of their own lie within the time of this many packets of
/// that size.
const START_PACKETS: u64 = 100;
const PACKET_BITS: u64 = 1514 * 8;

/// The random streams of one flow's arrivals: times, sizes and receivers, so that a different
/// distribution of sizes leaves the rest unchanged.
#[derive(Clone, Debug)]
pub struct Arrivals {
    times: Stream,
    sizes: Stream,
    receivers: Stream,
}

impl Arrivals {
    /// Creates the streams of the flow `name`, such as `short[3]`, in a run with this seed.
    pub fn new(seed: u64, name: &str) -> Arrivals {
        let stream = |of| Stream::new(seed, &format!("{name}/{of}"));
        Arrivals {
            times: stream("arrivals"),
            sizes: stream("sizes"),
            receivers: stream("receivers"),
        }
    }

    /// Draws the time from one arrival to the next, or from the flow's start to the first.
    pub fn gap(&mut self, mean: Nanos) -> Nanos {
        exponential(&mut self.times, mean)
    }

    /// Draws the payload of a transfer.
    pub fn size(&mut self, sizes: &Sizes) -> Bytes {
        sizes.quantile(self.sizes.bits32())
    }

    /// Draws one of so many receivers.
    pub fn receiver(&mut self, count: usize) -> usize {
        self.receivers.below(count as u64) as usize
    }
}

impl Guests {
    /// Returns the mean time between two arrivals at each flow of application `web`, and the sizes of the
    /// transfers; `None` for another application.
    pub fn web(&self, network: &Network) -> Option<(Nanos, &Sizes)> {
        let Application::Web { sizes, .. } = &self.application else {
            return None;
        };
        let gap_ns = 1e9 / self.arrivals_per_s(network)?;
        Some((Nanos(gap_ns.round().max(1.0) as u64), sizes))
    }
}

impl Experiment {
    /// Returns the longest random delay of a flow's start in the simulator, and of application `web`
    /// everywhere. Without a spread of the group it is the longer of a round trip and the time of a hundred
    /// packets at the bottleneck, but at most the first tenth of the group's time, which on a slow network
    /// would otherwise be over before anything began. Flows that began closer together would keep arriving
    /// at the queue in the order of their numbers, and runs with different seeds would differ only in the
    /// flows' roles.
    pub fn start_spread(&self, group: &Guests) -> Nanos {
        if group.start_spread.0 > 0 {
            return group.start_spread;
        }
        let rate_bps = self.network.rate.0.max(1);
        let packets_ns =
            u128::from(START_PACKETS * PACKET_BITS) * 1_000_000_000 / u128::from(rate_bps);
        let packets = Nanos(u64::try_from(packets_ns).unwrap_or(u64::MAX));
        let end_ns = group.stop.unwrap_or(self.duration).0;
        let tenth = Nanos(end_ns.saturating_sub(group.start.0) / 10);
        Nanos(self.network.round_trip().max(packets).min(tenth).0.max(1))
    }
}

/// The constant ln 2 · 2³².
const LN_2_Q32: u128 = 2_977_044_472;

/// Computes −ln(u) · 2³² for `u` in 1/2⁶⁴ of one; 0 counts as 1.
fn minus_ln_q32(u: u64) -> u64 {
    // u = m · 2^−(zeros + 1) with 1 ≤ m < 2, so −log2 u = zeros + 1 − log2 m.
    let u = u.max(1);
    let zeros = u.leading_zeros();
    let mut mantissa_q63 = u << zeros;
    // Squaring m doubles log2 m: if the square reaches 2, the next bit of log2 m is 1.
    let mut log2_q32 = 0u64;
    for _ in 0..32 {
        let square_q62 = (u128::from(mantissa_q63) * u128::from(mantissa_q63)) >> 64;
        let reached = square_q62 >> 63;
        log2_q32 = log2_q32 << 1 | reached as u64;
        mantissa_q63 = (square_q62 << (1 - reached)) as u64;
    }
    let bits_q32 = ((u64::from(zeros) + 1) << 32) - log2_q32;
    ((u128::from(bits_q32) * LN_2_Q32) >> 32) as u64
}

/// Draws an exponentially distributed time with this mean: the gap between two arrivals of a
/// Poisson process.
pub fn exponential(random: &mut Stream, mean: Nanos) -> Nanos {
    let u = u64::from(random.bits32()) << 32 | u64::from(random.bits32());
    let scaled = (u128::from(mean.0) * u128::from(minus_ln_q32(u))) >> 32;
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_logarithm_agrees_with_the_real_one() {
        for u in [
            1,
            2,
            3,
            1 << 31,
            12_345_678_901_234,
            1 << 63,
            u64::MAX / 3,
            u64::MAX,
        ] {
            let exact = -((u as f64) / 2f64.powi(64)).ln();
            let found = minus_ln_q32(u) as f64 / 2f64.powi(32);
            assert!((found - exact).abs() < 1e-8, "{u}: {found} and {exact}");
        }
    }

    #[test]
    fn exponential_times_have_the_expected_mean_and_tail() {
        let seed = 9;
        let mut random = Stream::new(seed, "arrivals");
        let mean = Nanos::from_micros(100);
        let draws: Vec<u64> = (0..100_000)
            .map(|_| exponential(&mut random, mean).0)
            .collect();
        // Standard deviation of the mean: 100 us / √100,000 = 316 ns; within six of them.
        let found = draws.iter().sum::<u64>() / 100_000;
        assert!((98_100..101_900).contains(&found), "seed {seed}: {found}");
        // P(X > 3 means) = e⁻³: 4,979 expected, standard deviation 69.
        let beyond = draws.iter().filter(|&&time| time > 300_000).count();
        assert!((4_560..5_400).contains(&beyond), "seed {seed}: {beyond}");
    }

    #[test]
    fn first_times_of_a_stream_equal_the_recorded_ones() {
        let mut random = Stream::new(1, "arrivals");
        let draws = [(); 3].map(|()| exponential(&mut random, Nanos::from_millis(1)).0);
        // A change of these numbers makes earlier runs unrepeatable.
        assert_eq!(draws, [2_040_154, 1_693_268, 1_044_866]);
    }
}
