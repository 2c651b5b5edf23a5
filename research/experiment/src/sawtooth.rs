//! The teeth of a window that grows slowly and is reduced: time, peak and trough of each reduction.
//!
//! The algorithm alternates between growth and fall. While the window grows, its maximum is kept;
//! once it has fallen a quarter below that, a reduction began there. While it falls, its minimum is
//! kept; once it has grown a tenth (and a segment) above that, the reduction had ended there.
//! Smaller movements are no tooth, so neither a sampled half-finished reduction (a native Linux
//! window shrinks over a round trip, RFC 6937) nor a segment of noise counts; two reductions with
//! no growth between them are one. Medians over the teeth then tolerate a first tooth that began
//! before the measured part.

/// Fraction of the peak below which a fall is a reduction. RFC 3168 halves, DCTCP's largest
/// reduction halves too; growth noise stays far above it.
const CUT: f64 = 0.75;

/// Multiple of the trough at which a rise ends a reduction.
const REGROWTH: f64 = 1.1;

/// The reductions of one window over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sawtooth {
    /// Start of each reduction (nanoseconds) and window before it (segments).
    pub peaks: Vec<(u64, f64)>,
    /// Window after each reduction, in segments; the last may be missing.
    pub troughs: Vec<f64>,
}

impl Sawtooth {
    /// Finds the reductions of a window given as (nanoseconds, segments) in order of time.
    pub fn of(points: &[(u64, f64)]) -> Self {
        let mut found = Self::default();
        let Some(&first) = points.first() else {
            return found;
        };
        let mut growing = true;
        let mut extreme = first;
        for &(at_ns, window) in points {
            if growing && window <= extreme.1 * CUT {
                found.peaks.push(extreme);
                (growing, extreme) = (false, (at_ns, window));
            } else if !growing && window >= (extreme.1 * REGROWTH).max(extreme.1 + 1.0) {
                found.troughs.push(extreme.1);
                (growing, extreme) = (true, (at_ns, window));
            } else if growing == (window >= extreme.1) {
                // Of equal peaks the last: the reduction begins where the plateau ends.
                extreme = (at_ns, window);
            }
        }
        found
    }

    /// Returns the median time between two reductions, in seconds; `None` with fewer than two.
    pub fn period_s(&self) -> Option<f64> {
        let gap = |pair: &[(u64, f64)]| (pair[1].0 - pair[0].0) as f64 / 1e9;
        median(self.peaks.windows(2).map(gap).collect())
    }

    /// Returns the median window before a reduction, in segments; `None` without any.
    pub fn peak_segments(&self) -> Option<f64> {
        median(self.peaks.iter().map(|peak| peak.1).collect())
    }

    /// Returns the median window after a reduction, in segments; `None` without a finished one.
    pub fn trough_segments(&self) -> Option<f64> {
        median(self.troughs.clone())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
