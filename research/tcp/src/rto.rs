//! The retransmission timeout, RFC 6298.

use uc_net::Nanos;

use crate::config::{Config, RtoMin, RttSample};

/// Timeout for data after a SYN that was retransmitted (RFC 6298 (5.7)).
const AFTER_LOST_SYN: Nanos = Nanos::from_secs(3);
/// Maximum number of doublings: beyond it the timeout has reached any sensible maximum.
const MOST_BACKOFF: u32 = 32;

/// The round-trip time estimator and the retransmission timeout.
#[derive(Clone, Debug)]
pub(crate) struct Rto {
    /// SRTT × 8 and RTTVAR × 4, so that (2.3) loses no fraction; zero before the first sample.
    srtt_x8_ns: u64,
    rttvar_x4_ns: u64,
    /// Timeout within its bounds, without backoff.
    base_ns: u64,
    /// Timeout with the backoff of (5.5).
    current_ns: u64,
    backoff: u32,
    min_ns: u64,
    /// Minimum of the variation's term: the minimum RTO under [`RtoMin::Variation`], else the clock
    /// granularity (2.3).
    variation_min_ns: u64,
    max_ns: u64,
    /// The use of the next samples.
    sample: RttSample,
}

impl Rto {
    pub(crate) fn new(config: &Config) -> Rto {
        let initial_ns = config.rto_initial.0.min(config.rto_max.0); // (2.1)
        let (min_ns, variation_min_ns) = match config.rto_min_of {
            RtoMin::Sum => (config.rto_min.0, 0),
            RtoMin::Variation => (0, config.rto_min.0),
        };
        Rto {
            srtt_x8_ns: 0,
            rttvar_x4_ns: 0,
            base_ns: initial_ns,
            current_ns: initial_ns,
            backoff: 0,
            min_ns: min_ns.min(config.rto_max.0),
            variation_min_ns: variation_min_ns.max(config.rto_granularity.0),
            max_ns: config.rto_max.0,
            sample: RttSample::Measured,
        }
    }

    /// Sets the use of the following samples.
    pub(crate) fn judge(&mut self, sample: RttSample) {
        self.sample = sample;
    }

    /// Takes a round-trip time that Karn's rule allows (RFC 6298 §3).
    pub(crate) fn sample(&mut self, rtt: Nanos) {
        let rtt = match self.sample {
            RttSample::Measured => Some(rtt),
            RttSample::Smoothed => self.srtt(),
            RttSample::Ignored => None,
        };
        let Some(rtt) = rtt else {
            self.confirm();
            return;
        };
        let rtt_ns = rtt.0.max(1);
        if self.srtt_x8_ns == 0 {
            self.srtt_x8_ns = rtt_ns * 8; // (2.2)
            self.rttvar_x4_ns = rtt_ns * 2;
        } else {
            // (2.3): RTTVAR first, by the SRTT of before
            let error_ns = (self.srtt_x8_ns / 8).abs_diff(rtt_ns);
            self.rttvar_x4_ns = self.rttvar_x4_ns - self.rttvar_x4_ns / 4 + error_ns;
            self.srtt_x8_ns = self.srtt_x8_ns - self.srtt_x8_ns / 8 + rtt_ns;
        }
        let rto_ns = self.srtt_x8_ns / 8 + self.rttvar_x4_ns.max(self.variation_min_ns);
        self.base_ns = rto_ns.clamp(self.min_ns, self.max_ns); // (2.4), (2.5)
        self.confirm();
    }

    /// Ends the backoff: data sent after the last timeout was acknowledged.
    pub(crate) fn confirm(&mut self) {
        self.backoff = 0;
        self.current_ns = self.base_ns;
    }

    /// Doubles the retransmission timeout (RFC 6298 (5.5)).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
        let doubled_ns = self.base_ns.saturating_mul(1 << self.backoff);
        self.current_ns = doubled_ns.min(self.max_ns);
    }

    /// Raises the timeout of data after a handshake whose SYN was lost (5.7).
    pub(crate) fn after_lost_syn(&mut self) {
        if self.srtt_x8_ns == 0 {
            self.base_ns = self.base_ns.max(AFTER_LOST_SYN.0).min(self.max_ns);
        }
        self.confirm();
    }

    /// Returns the number of successive doublings.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the retransmission timeout, including its backoff.
    pub(crate) fn current(&self) -> Nanos {
        Nanos(self.current_ns)
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Nanos> {
        (self.srtt_x8_ns > 0).then_some(Nanos(self.srtt_x8_ns / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::Rto;
    use crate::config::{Config, RtoMin, RttSample};
    use uc_net::Nanos;

    fn estimator() -> Rto {
        Rto::new(&Config {
            rto_min: Nanos::ZERO,
            rto_granularity: Nanos::from_millis(1),
            rto_max: Nanos::from_secs(60),
            ..Config::default()
        })
    }

    #[test]
    fn the_first_sample_sets_srtt_and_half_of_it_as_variation() {
        let mut rto = estimator();
        assert_eq!(rto.current(), Nanos::from_secs(1));
        rto.sample(Nanos::from_millis(100));
        assert_eq!(rto.srtt(), Some(Nanos::from_millis(100)));
        assert_eq!(rto.current(), Nanos::from_millis(300));
    }

    #[test]
    fn equation_2_3_moves_srtt_by_an_eighth_and_the_variation_by_a_quarter() {
        let mut rto = estimator();
        rto.sample(Nanos::from_millis(100));
        rto.sample(Nanos::from_millis(180));
        // RTTVAR = 3/4 · 50 + 1/4 · 80 = 57.5; SRTT = 7/8 · 100 + 1/8 · 180 = 110
        assert_eq!(rto.srtt(), Some(Nanos::from_millis(110)));
        assert_eq!(rto.current(), Nanos::from_millis(340));
    }

    #[test]
    fn a_sample_taken_as_smoothed_keeps_srtt_and_lowers_the_variation() {
        let mut rto = estimator();
        rto.judge(RttSample::Smoothed);
        rto.sample(Nanos::from_millis(700));
        assert_eq!(rto.srtt(), None, "nothing to take in its place");
        rto.judge(RttSample::Measured);
        rto.sample(Nanos::from_millis(100));
        rto.judge(RttSample::Smoothed);
        rto.sample(Nanos::from_millis(700));
        // RTTVAR = 3/4 · 50 + 1/4 · 0 = 37.5
        assert_eq!(rto.srtt(), Some(Nanos::from_millis(100)));
        assert_eq!(rto.current(), Nanos::from_millis(250));
    }

    #[test]
    fn an_ignored_sample_only_ends_the_backoff() {
        let mut rto = estimator();
        rto.sample(Nanos::from_millis(100));
        rto.back_off();
        rto.judge(RttSample::Ignored);
        rto.sample(Nanos::from_millis(700));
        assert_eq!(rto.srtt(), Some(Nanos::from_millis(100)));
        assert_eq!(rto.current(), Nanos::from_millis(300));
    }

    #[test]
    fn on_a_steady_path_the_timeout_is_srtt_plus_the_granularity() {
        let mut rto = estimator();
        for _ in 0..200 {
            rto.sample(Nanos::from_millis(50));
        }
        assert_eq!(rto.current(), Nanos::from_millis(51));
    }

    #[test]
    fn the_minimum_applies_to_the_sum_or_to_the_variation() {
        for (rto_min_of, expected_ms) in [(RtoMin::Sum, 200), (RtoMin::Variation, 280)] {
            let mut rto = Rto::new(&Config {
                rto_min_of,
                ..Config::default()
            });
            for _ in 0..200 {
                rto.sample(Nanos::from_millis(80));
            }
            assert_eq!(rto.current(), Nanos::from_millis(expected_ms));
        }
    }

    #[test]
    fn backoff_doubles_to_the_maximum_and_ends_with_a_sample() {
        let mut rto = estimator();
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.current(), Nanos::from_secs(4));
        for _ in 0..100 {
            rto.back_off();
        }
        assert_eq!(rto.current(), Nanos::from_secs(60));
        rto.sample(Nanos::from_millis(100));
        assert_eq!(rto.current(), Nanos::from_millis(300));
    }

    #[test]
    fn a_lost_syn_makes_the_timeout_of_data_three_seconds() {
        let mut rto = estimator();
        rto.back_off();
        rto.after_lost_syn();
        assert_eq!(rto.current(), Nanos::from_secs(3));
    }
}
