//! The teeth of a window that grows slowly and is cut: when it is cut, from where, and to where.
//!
//! The window is followed from turn to turn. While it grows, its highest point so far is kept; once
//! it has fallen a quarter below that, it was cut there. While it falls, its lowest point is kept;
//! once it has grown a tenth (and a segment) above that, the cut had ended there. What moves less
//! than that is no tooth, so neither a sampled half-finished cut (a native Linux window shrinks
//! over a round trip, RFC 6937) nor a segment of noise counts; two cuts with no growth between them
//! are one. Medians over the teeth then forget a first tooth that began before the measured part.

/// A fall to this fraction of the peak is a cut. RFC 3168 halves, DCTCP's largest cut halves too;
/// growth noise stays far above it.
const CUT: f64 = 0.75;

/// A rise to this multiple of the trough ends a cut.
const REGROWTH: f64 = 1.1;

/// The cuts of one window over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sawtooth {
    /// When each cut began (nanoseconds) and from which window (segments).
    pub peaks: Vec<(u64, f64)>,
    /// To which window each cut led, segments; the last cut may be missing here.
    pub troughs: Vec<f64>,
}

impl Sawtooth {
    /// Finds the cuts of a window given as (nanoseconds, segments) in order of time.
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
                // Of equal peaks the last one: the cut begins where the plateau ends.
                extreme = (at_ns, window);
            }
        }
        found
    }

    /// Median time from one cut to the next, seconds; none with fewer than two cuts.
    pub fn period_s(&self) -> Option<f64> {
        let gap = |pair: &[(u64, f64)]| (pair[1].0 - pair[0].0) as f64 / 1e9;
        median(self.peaks.windows(2).map(gap).collect())
    }

    /// Median window before a cut, segments; none without cuts.
    pub fn peak_segments(&self) -> Option<f64> {
        median(self.peaks.iter().map(|peak| peak.1).collect())
    }

    /// Median window after a cut, segments; none without a finished cut.
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
