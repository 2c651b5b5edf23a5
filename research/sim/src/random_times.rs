//! Random times in integers.
//!
//! The sampler is written here for the same reason as those of [`uc_net::random`]: a seed must
//! always give the same numbers, on every platform.

use uc_net::Nanos;
use uc_net::random::Stream;

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
