//! Vegas against its paper's Expected and Actual.

use proptest::prelude::*;

use uc_net::Nanos;
use uc_tcp::congestion::{Acked, Control, Observed, Vegas, Window};

const SMSS: u32 = 1448;
const BASE: Nanos = Nanos::from_millis(100);

/// A path without other traffic: segments beyond `fits` wait in the queue.
struct Path {
    law: Vegas,
    window: Window,
    una: u32,
    fits: u32,
    /// Segments that one ACK covers.
    each: u32,
}

impl Path {
    fn new(segments: u32, ssthresh_segments: u32, fits: u32) -> Path {
        Path {
            law: Vegas::default(),
            window: Window {
                cwnd_bytes: segments * SMSS,
                ssthresh_bytes: ssthresh_segments * SMSS,
                smss_bytes: SMSS,
            },
            una: 0,
            fits,
            each: 1,
        }
    }

    /// Returns the round-trip time of a window of `segments` by Little's law.
    fn rtt(&self, segments: u32) -> Nanos {
        Nanos(BASE.0 * u64::from(segments.max(self.fits)) / u64::from(self.fits))
    }

    fn round(&mut self) {
        let segments = self.window.cwnd_bytes / SMSS;
        let rtt = self.rtt(segments);
        for _ in 0..segments.div_ceil(self.each) {
            self.ack(self.each * SMSS, rtt);
        }
    }

    fn ack(&mut self, bytes: u32, rtt: Nanos) {
        self.una = self.una.wrapping_add(bytes);
        self.law.observed(&Observed {
            bytes,
            ece: false,
            una: self.una,
            nxt: self.una.wrapping_add(self.window.cwnd_bytes),
            rtt: Some(rtt),
        });
        let acked = Acked {
            now: Nanos::ZERO,
            bytes,
            srtt: None,
        };
        self.law.acked(&mut self.window, &acked);
    }

    fn segments(&self) -> u32 {
        self.window.cwnd_bytes / SMSS
    }
}

proptest! {
    /// §III-B: in the steady state between α and β segments wait, from any start.
    #[test]
    fn two_to_four_segments_wait_in_the_steady_state(start in 4_u32..400, fits in 10_u32..300) {
        let mut path = Path::new(start, 4, fits);
        // a first round trip without a queue shows BaseRTT
        path.ack(SMSS, BASE);
        for _ in 0..500 {
            path.round();
        }
        let steady = path.segments();
        let waiting = steady.saturating_sub(fits);
        prop_assert!((2..=5).contains(&waiting), "{waiting} wait, {steady} of {fits}");
        for _ in 0..50 {
            path.round();
            prop_assert!(path.segments().abs_diff(steady) <= 1, "{} after {steady}", path.segments());
        }
    }

    #[test]
    fn no_round_trip_moves_a_window_in_avoidance_by_more_than_a_segment(
        start in 5_u32..100,
        rtts_us in prop::collection::vec(100_u64..1_000_000, 1..60),
    ) {
        let mut path = Path::new(start, 2, 1);
        for rtt_us in rtts_us {
            let before = path.segments();
            for _ in 0..before {
                path.ack(SMSS, Nanos::from_micros(rtt_us));
            }
            // at the boundary of two rounds a window of ACKs ends up to two of them
            prop_assert!(path.segments().abs_diff(before) <= 2, "{before} → {}", path.segments());
            prop_assert!(path.segments() >= 2);
        }
    }
}

#[test]
fn slow_start_ends_within_a_doubling_of_the_path_and_the_excess_drains() {
    let mut path = Path::new(10, 1_000_000, 100);
    let mut rounds = 0;
    while path.window.in_slow_start() {
        rounds += 1;
        path.round();
    }
    // 10, 20, 40, 80, 160: the first round with a queue is the fifth; its ACKs end the sixth
    assert!(rounds <= 7, "{rounds} rounds");
    // cwnd·BaseRTT/RTT is too large, since cwnd has doubled once more since the timed segments left
    let left = path.segments();
    assert!((101..=250).contains(&left), "{left}");
    assert_eq!(path.window.ssthresh_bytes, path.window.cwnd_bytes);
    for _ in 0..150 {
        path.round();
    }
    assert!(
        (102..=105).contains(&path.segments()),
        "{}",
        path.segments()
    );
    assert!(!path.window.in_slow_start());
}

#[test]
fn rounds_with_fewer_than_three_samples_grow_like_newreno() {
    let mut path = Path::new(8, 2, 1);
    // one ACK per window, and so many segments wait that a Vegas with samples would shrink
    path.each = 8;
    path.ack(SMSS, BASE);
    for _ in 0..4 {
        path.round();
    }
    assert!(path.segments() > 8, "{}", path.segments());
}

#[test]
fn losses_and_marks_halve_the_window() {
    let mut path = Path::new(40, 2, 20);
    path.ack(SMSS, BASE);
    path.round();
    let window = path.window;
    assert_eq!(path.law.lost(&window, 30 * SMSS, BASE), 15 * SMSS);
    assert_eq!(path.law.timed_out(&window, 30 * SMSS, BASE), 15 * SMSS);
    assert_eq!(
        path.law.marked(&window, BASE),
        (window.cwnd_bytes / 2).max(2 * SMSS)
    );
}
