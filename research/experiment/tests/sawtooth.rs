//! Sawtooth detection on windows with known teeth.

use uc_experiment::sawtooth::Sawtooth;

const MS: u64 = 1_000_000;

/// Makes up a window that grows from 30 to 60 segments in `period_ms` and is reduced to 30 within
/// `fall_ms`.
fn triangle(period_ms: u64, fall_ms: u64, sample_ms: u64) -> Vec<(u64, f64)> {
    let rise_ms = period_ms - fall_ms;
    let window = |at_ms: u64| {
        let phase_ms = at_ms % period_ms;
        if phase_ms < rise_ms {
            30.0 + (30 * phase_ms / rise_ms) as f64
        } else {
            60.0 - 30.0 * (phase_ms - rise_ms) as f64 / fall_ms as f64
        }
    };
    (0..12_000 / sample_ms)
        .map(|i| (i * sample_ms * MS, window(i * sample_ms)))
        .collect()
}

#[test]
fn a_known_sawtooth_is_found_with_sudden_and_gradual_reductions() {
    for (period_ms, fall_ms) in [(2_000, 1), (2_000, 75), (1_500, 40), (300, 20)] {
        let saw = Sawtooth::of(&triangle(period_ms, fall_ms, 5));
        let what = format!("period {period_ms} ms, fall {fall_ms} ms");
        let close = |found: Option<f64>, expected: f64, tolerance: f64| {
            let found = found.unwrap_or_else(|| panic!("{what}: nothing found"));
            assert!(
                (found - expected).abs() <= tolerance,
                "{what}: {found} for {expected}"
            );
        };
        close(saw.period_s(), period_ms as f64 / 1e3, 0.006);
        close(saw.peak_segments(), 60.0, 2.5);
        close(saw.trough_segments(), 30.0, 2.5);
        let teeth = 12_000 / period_ms;
        assert!(
            saw.peaks.len().abs_diff(teeth as usize) <= 1,
            "{what}: {}",
            saw.peaks.len()
        );
    }
}

#[test]
fn a_segment_of_noise_is_no_tooth_and_a_flat_window_has_none() {
    let noisy: Vec<(u64, f64)> = (0..1000).map(|i| (i * MS, 20.0 + (i % 2) as f64)).collect();
    assert_eq!(Sawtooth::of(&noisy), Sawtooth::default());
    assert_eq!(Sawtooth::of(&[]).period_s(), None);
    assert_eq!(Sawtooth::of(&[(0, 5.0), (1, 5.0)]).peak_segments(), None);
}
