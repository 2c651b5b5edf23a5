//! CUBIC against RFC 9438's formulas in real numbers.

use super::*;

const SMSS: u32 = 1448;
const RTT: Nanos = Nanos::from_millis(100);

fn window(segments: u32) -> Window {
    Window {
        cwnd_bytes: segments * SMSS,
        ssthresh_bytes: segments * SMSS,
        smss_bytes: SMSS,
    }
}

/// Returns the window after a reduction at `from` segments, as the sender applies it.
fn reduced(cubic: &mut Cubic, from: u32) -> Window {
    let mut window = window(from);
    window.ssthresh_bytes = cubic.lost(&window, window.cwnd_bytes, Nanos::ZERO);
    window.cwnd_bytes = window.ssthresh_bytes;
    window
}

/// Acknowledges one window of full segments at `now`.
fn round(cubic: &mut Cubic, window: &mut Window, now: Nanos) {
    for _ in 0..window.cwnd_bytes / SMSS {
        let acked = Acked {
            now,
            bytes: SMSS,
            srtt: Some(RTT),
        };
        cubic.acked(window, &acked);
    }
}

/// Computes RFC 9438 equation 1 in real numbers, in segments.
fn w_cubic(t: f64, k: f64, w_max: f64) -> f64 {
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn cube_root_is_the_largest_that_fits() {
    for root in [0_u64, 1, 2, 3, 1000, 65_535, (1 << 32) - 1, 1 << 32] {
        let cube = u128::from(root).pow(3);
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube + 1), root.max(1));
        if cube > 1 {
            assert_eq!(cube_root(cube - 1), root - 1);
        }
    }
}

#[test]
fn a_loss_reduces_to_seven_tenths_but_at_least_two_segments() {
    let mut cubic = Cubic::default();
    assert_eq!(cubic.lost(&window(100), 100 * SMSS, Nanos::ZERO), 70 * SMSS);
    assert_eq!(cubic.marked(&window(100), Nanos::ZERO), 70 * SMSS);
    assert_eq!(
        cubic.timed_out(&window(100), 50 * SMSS, Nanos::ZERO),
        35 * SMSS
    );
    assert_eq!(cubic.lost(&window(2), 2 * SMSS, Nanos::ZERO), 2 * SMSS);
}

#[test]
fn curve_equals_equation_1_within_three_bytes() {
    for w_max in [20_u32, 300, 5_000, 200_000] {
        let mut cubic = Cubic::default();
        let window = reduced(&mut cubic, w_max);
        let epoch = cubic.curve.begin(&window, Nanos::ZERO);
        let below = f64::from(w_max * SMSS - window.cwnd_bytes) / f64::from(SMSS);
        let k = (below / 0.4).cbrt();
        for percent in [0_u64, 1, 30, 90, 100, 110, 170, 250] {
            let t_ns = (k * 1e9) as u64 / 100 * percent;
            let t = Nanos(t_ns);
            let ours = epoch.w_cubic_bytes(t, w_max * SMSS, SMSS);
            let theirs = w_cubic(t_ns as f64 / 1e9, k, f64::from(w_max)) * f64::from(SMSS);
            // 2 bytes of rounding, and the slope 3·C·(t − K)² times 2^−19 s for t and K
            let slope = 1.2 * (t_ns as f64 / 1e9 - k).powi(2) * f64::from(SMSS);
            let bound = 3.0 + slope / f64::from(1 << 19);
            assert!(
                (ours as f64 - theirs).abs() <= bound,
                "W_max {w_max}, t {t}: {ours} against {theirs:.1} ± {bound:.1}"
            );
        }
    }
}

#[test]
fn a_large_window_follows_the_curve_within_a_segment_and_a_round_trip() {
    let mut cubic = Cubic::default();
    let mut window = reduced(&mut cubic, 1000);
    let k = (300.0_f64 / 0.4).cbrt();
    let mut now = Nanos::ZERO;
    let mut seen_convex = false;
    for _ in 0..150 {
        round(&mut cubic, &mut window, now);
        let t = now.0 as f64 / 1e9;
        let least = w_cubic(t, k, 1000.0) - 1.0;
        let most = w_cubic(t + 0.1, k, 1000.0) + 1.0;
        let ours = f64::from(window.cwnd_bytes) / f64::from(SMSS);
        assert!(
            least <= ours && ours <= most,
            "{now}: {least} ≤ {ours} ≤ {most}"
        );
        seen_convex |= ours > 1010.0;
        now += RTT;
    }
    assert!(seen_convex, "stayed below W_max");
}

#[test]
fn a_small_window_grows_like_a_reno_with_alpha_nine_seventeenths() {
    let mut cubic = Cubic::default();
    let mut window = reduced(&mut cubic, 20);
    let mut estimate = 14.0_f64;
    let mut now = Nanos::ZERO;
    // K is 2.5 s; at a round trip of 1 ms the curve is flat for that long
    for _ in 0..20 {
        for _ in 0..window.cwnd_bytes / SMSS {
            let alpha = if estimate >= 20.0 { 1.0 } else { 9.0 / 17.0 };
            estimate += alpha / (f64::from(window.cwnd_bytes) / f64::from(SMSS));
            let acked = Acked {
                now,
                bytes: SMSS,
                srtt: Some(Nanos::from_millis(1)),
            };
            cubic.acked(&mut window, &acked);
        }
        now += Nanos::from_millis(1);
    }
    let ours = f64::from(window.cwnd_bytes) / f64::from(SMSS);
    assert!((ours - estimate).abs() < 0.01, "{ours} against {estimate}");
    assert!(ours > 22.0, "α did not become 1 at cwnd_prior: {ours}");
}

#[test]
fn a_loss_below_the_last_maximum_lowers_the_plateau() {
    let mut cubic = Cubic::default();
    reduced(&mut cubic, 100);
    assert_eq!(cubic.curve.w_max_bytes, 100 * SMSS);
    reduced(&mut cubic, 80);
    assert_eq!(cubic.curve.w_max_bytes, 68 * SMSS);
    reduced(&mut cubic, 80);
    assert_eq!(cubic.curve.w_max_bytes, 80 * SMSS);
}

#[test]
fn after_a_timeout_the_plateau_is_the_window_at_which_avoidance_starts() {
    let mut cubic = Cubic::default();
    reduced(&mut cubic, 1000);
    let mut window = window(700);
    window.ssthresh_bytes = cubic.timed_out(&window, 700 * SMSS, Nanos::ZERO);
    window.cwnd_bytes = window.ssthresh_bytes;
    let epoch = cubic.curve.begin(&window, Nanos::ZERO);
    assert_eq!((epoch.k_q20, cubic.curve.w_max_bytes), (0, 490 * SMSS));
}

#[test]
fn an_undone_timeout_restores_the_curve() {
    let mut cubic = Cubic::default();
    let mut window = reduced(&mut cubic, 1000);
    round(&mut cubic, &mut window, RTT);
    let before = format!("{:?}", cubic.curve);
    cubic.timed_out(&window, window.cwnd_bytes, RTT);
    assert_ne!(format!("{:?}", cubic.curve), before);
    cubic.undone();
    assert_eq!(format!("{:?}", cubic.curve), before);
}

#[test]
fn a_pause_does_not_advance_the_curve() {
    let (mut busy, mut paused) = (Cubic::default(), Cubic::default());
    let mut window = reduced(&mut busy, 1000);
    let mut other = reduced(&mut paused, 1000);
    let second = Nanos::from_secs(1);
    round(&mut busy, &mut window, RTT);
    round(&mut busy, &mut window, RTT + RTT);
    round(&mut paused, &mut other, RTT);
    round(&mut paused, &mut other, RTT + RTT + second);
    assert_eq!(window, other);
}

#[test]
fn no_ack_grows_the_window_by_more_than_half() {
    let mut cubic = Cubic::default();
    let mut window = reduced(&mut cubic, 1000);
    round(&mut cubic, &mut window, Nanos::ZERO);
    let before = window.cwnd_bytes;
    // a second into the stage the curve is steeper than Reno; 100 s ahead it is out of sight
    let now = Nanos::from_secs(1);
    let acked = Acked {
        now,
        bytes: 2 * before,
        srtt: Some(Nanos::from_secs(100)),
    };
    cubic.acked(&mut window, &acked);
    assert_eq!(window.cwnd_bytes, before + before / 2);
}
