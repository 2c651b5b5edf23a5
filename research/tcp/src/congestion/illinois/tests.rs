//! TCP-Illinois against the paper's curves in real numbers.

use proptest::prelude::*;

use super::*;

const SMSS: u32 = 1448;
const MS: u64 = 1_000_000;

fn window(segments: u32) -> Window {
    Window {
        cwnd_bytes: segments * SMSS,
        ssthresh_bytes: segments * SMSS,
        smss_bytes: SMSS,
    }
}

/// Computes f1 with the paper's κ1 and κ2.
fn f1(d_a: f64, d_m: f64) -> f64 {
    let (least, most, d1) = (0.3, 10.0, 0.01 * d_m);
    if d_a <= d1 {
        return most;
    }
    let kappa1 = (d_m - d1) * least * most / (most - least);
    let kappa2 = (d_m - d1) * least / (most - least) - d1;
    kappa1 / (kappa2 + d_a)
}

/// Computes f2 with the paper's κ3 and κ4.
fn f2(d_a: f64, d_m: f64) -> f64 {
    let (least, most, d2, d3) = (0.125, 0.5, 0.1 * d_m, 0.8 * d_m);
    let kappa3 = (least * d3 - most * d2) / (d3 - d2);
    let kappa4 = (most - least) / (d3 - d2);
    (kappa3 + kappa4 * d_a).clamp(least, most)
}

/// A path that acknowledges windows of `window`, with a round trip of `rtt_ns` each.
struct Path {
    law: Illinois,
    window: Window,
    una: u32,
}

impl Path {
    fn new(segments: u32) -> Path {
        Path {
            law: Illinois::default(),
            window: window(segments),
            una: 0,
        }
    }

    /// Sends and acknowledges one window of segments; the window keeps its size unless `grows`.
    fn round(&mut self, rtt_ns: u64, grows: bool) {
        let held = self.window;
        for _ in 0..self.window.cwnd_bytes / SMSS {
            self.una = self.una.wrapping_add(SMSS);
            self.law.observed(&Observed {
                bytes: SMSS,
                ece: false,
                una: self.una,
                nxt: self.una.wrapping_add(self.window.cwnd_bytes),
                rtt: Some(Nanos(rtt_ns)),
            });
            let acked = Acked {
                now: Nanos::ZERO,
                bytes: SMSS,
                srtt: None,
            };
            self.law.acked(&mut self.window, &acked);
            if !grows {
                self.window = held;
            }
        }
    }

    fn rounds(&mut self, count: u32, rtt_ns: u64) {
        for _ in 0..count {
            self.round(rtt_ns, false);
        }
    }

    fn alpha(&self) -> f64 {
        f64::from(self.law.alpha_q16) / 65_536.0
    }

    fn beta(&self) -> f64 {
        f64::from(self.law.beta_q16) / 65_536.0
    }
}

proptest! {
    #[test]
    fn curves_equal_the_papers(d_m_ns in 1_000_u64..100_000_000_000, permille in 0_u64..=1_000) {
        let d_a_ns = d_m_ns / 1_000 * permille;
        let (d_a, d_m) = (d_a_ns as f64, d_m_ns as f64);
        let alpha = f64::from(f1_q16(d_a_ns, d_m_ns)) / 65_536.0;
        let beta = f64::from(f2_q16(d_a_ns, d_m_ns)) / 65_536.0;
        // d1 and d2 are whole nanoseconds: with the smallest d_m, a tenth of d1 is steep
        let (lower, upper) = (f1(d_a + 20.0, d_m), f1((d_a - 20.0).max(0.0), d_m));
        prop_assert!(lower - 1e-3 <= alpha && alpha <= upper + 1e-3, "{alpha}: {lower}..{upper}");
        prop_assert!((beta - f2(d_a, d_m)).abs() < 0.02, "{beta} against {}", f2(d_a, d_m));
    }

    #[test]
    fn more_delay_never_means_faster_growth_or_a_smaller_reduction(
        d_m_ns in 0_u64..u64::MAX / 16,
        parts in (0_u64..=1_000, 0_u64..=1_000),
    ) {
        let (less, more) = (parts.0.min(parts.1), parts.0.max(parts.1));
        let at = |permille: u64| d_m_ns / 1_000 * permille;
        prop_assert!(f1_q16(at(more), d_m_ns) <= f1_q16(at(less), d_m_ns));
        prop_assert!(f2_q16(at(more), d_m_ns) >= f2_q16(at(less), d_m_ns));
        let (alpha, beta) = (f1_q16(at(more), d_m_ns), f2_q16(at(more), d_m_ns));
        prop_assert!((ALPHA_LEAST_Q16 - 1..=ALPHA_MOST_Q16).contains(&alpha), "{alpha}");
        prop_assert!((BETA_LEAST_Q16..=BETA_MOST_Q16).contains(&beta), "{beta}");
    }
}

#[test]
fn ends_of_the_curves_equal_the_parameters() {
    let d_m_ns = 100 * MS;
    assert_eq!(f1_q16(0, d_m_ns), 10 << 16);
    assert_eq!(f1_q16(d_m_ns / 100, d_m_ns), 10 << 16);
    assert_eq!(f1_q16(d_m_ns, d_m_ns), ALPHA_LEAST_Q16);
    assert_eq!(f2_q16(d_m_ns / 10, d_m_ns), 1 << 13);
    assert_eq!(f2_q16(d_m_ns / 10 * 8, d_m_ns), 1 << 15);
    // half way between d2 and d3: half way between 1/8 and 1/2
    assert_eq!(f2_q16(d_m_ns / 100 * 45, d_m_ns), (1 << 13) + 3 * (1 << 12));
}

#[test]
fn a_small_window_behaves_like_newreno() {
    let mut path = Path::new(14);
    path.rounds(10, 50 * MS);
    assert_eq!((path.alpha(), path.beta()), (1.0, 0.5));
    path = Path::new(15);
    path.rounds(10, 50 * MS);
    assert_eq!((path.alpha(), path.beta()), (10.0, 0.125));
}

#[test]
fn without_a_queue_a_round_trip_adds_ten_segments() {
    let mut path = Path::new(100);
    path.rounds(2, 50 * MS);
    let before = path.window.cwnd_bytes;
    path.round(50 * MS, true);
    assert_eq!(path.window.cwnd_bytes, before + 10 * SMSS);
}

#[test]
fn at_the_largest_delay_thirty_round_trips_add_nine_segments_and_a_loss_halves() {
    let mut path = Path::new(100);
    path.rounds(3, 50 * MS);
    path.rounds(3, 150 * MS);
    for _ in 0..30 {
        path.round(150 * MS, true);
    }
    let grown = path.window.cwnd_bytes / SMSS - 100;
    assert!((8..=10).contains(&grown), "{grown} segments");
    let left = path.law.lost(&path.window, 100 * SMSS, Nanos::ZERO);
    assert_eq!(left, 50 * SMSS);
    assert_eq!(path.law.marked(&window(60), Nanos::ZERO), 30 * SMSS);
}

#[test]
fn a_loss_without_delay_reduces_by_an_eighth() {
    let mut path = Path::new(100);
    path.rounds(3, 50 * MS);
    let left = path.law.lost(&path.window, 80 * SMSS, Nanos::ZERO);
    assert_eq!(left, 70 * SMSS);
}

#[test]
fn growth_is_fast_again_only_after_five_round_trips_below_d1() {
    let mut path = Path::new(100);
    path.rounds(3, 50 * MS);
    path.rounds(3, 150 * MS);
    let slow = path.alpha();
    assert!(slow < 0.31, "{slow}");
    // the round that begins with the last long sample ends with the first short ones
    path.rounds(1, 50 * MS);
    for round in 1..=LOW_ROUNDS {
        assert!(
            path.alpha() < 1.0,
            "after {round} rounds α is {}",
            path.alpha()
        );
        path.rounds(1, 50 * MS);
    }
    assert_eq!(path.alpha(), 10.0);
}

#[test]
fn after_a_timeout_behaviour_is_standard_until_a_round_is_measured() {
    let mut path = Path::new(100);
    path.rounds(3, 50 * MS);
    assert_eq!(
        path.law.timed_out(&path.window, 80 * SMSS, Nanos::ZERO),
        70 * SMSS
    );
    assert_eq!((path.alpha(), path.beta()), (1.0, 0.5));
    path.rounds(2, 50 * MS);
    assert_eq!((path.alpha(), path.beta()), (10.0, 0.125));
}
