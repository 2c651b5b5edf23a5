//! Conversion of records into curves: seconds against bit/s, segments or kilobytes.

use std::ops::Range;

use uc_experiment::series::{alpha as alpha_of, send_window_segments, shadow_segments};
use uc_experiment::{Alpha, FlowRecord, FlowSample, Nanos, QueueSample};

/// Points of a curve, (x, y).
pub(crate) type Points = Vec<(f64, f64)>;

/// Number of pieces of a curve, of each of which two points are kept: a panel can't show more.
const COLUMNS: usize = 600;

fn seconds(at_ns: u64) -> f64 {
    at_ns as f64 / 1e9
}

/// Returns the goodput in bit/s as a mean for each whole `bin` of `[0, end]`, placed in its middle.
pub(crate) fn goodput(flow: &FlowRecord, bin: Nanos, end: Nanos) -> Points {
    let bin_ns = bin.0.max(1);
    let rate = |number: u64| {
        let from = delivered_bytes(&flow.samples, number * bin_ns)?;
        let to = delivered_bytes(&flow.samples, (number + 1) * bin_ns)?;
        let middle_s = seconds(number * bin_ns + bin_ns / 2);
        Some((middle_s, (to - from) * 8.0 / seconds(bin_ns)))
    };
    (0..end.0 / bin_ns).filter_map(rate).collect()
}

/// Returns the mean of several curves at every x that any of them has.
pub(crate) fn mean(curves: &[Points]) -> Points {
    let longest = curves.iter().max_by_key(|points| points.len());
    let at = |(x, _): &(f64, f64)| {
        let there = curves.iter().filter_map(|points| {
            let place = points.partition_point(|point| point.0 < *x);
            points.get(place).filter(|point| point.0 == *x)
        });
        let values: Vec<f64> = there.map(|point| point.1).collect();
        (*x, values.iter().sum::<f64>() / values.len() as f64)
    };
    longest.map_or_else(Points::new, |points| points.iter().map(at).collect())
}

/// Returns the delivered bytes at a time, linear between samples; `None` outside of them.
fn delivered_bytes(samples: &[FlowSample], at_ns: u64) -> Option<f64> {
    let after = samples.partition_point(|sample| sample.at_ns < at_ns);
    // A run's last sample comes shortly before the run's end.
    let next = samples.get(after).or(samples.last())?;
    let Some(before) = after.checked_sub(1).and_then(|i| samples.get(i)) else {
        // Nothing had been delivered before the first sample's interval.
        return (at_ns <= next.at_ns).then_some(0.0);
    };
    if next.at_ns <= before.at_ns {
        return Some(next.delivered_bytes as f64);
    }
    let part = (at_ns - before.at_ns) as f64 / (next.at_ns - before.at_ns) as f64;
    let (low, high) = (before.delivered_bytes as f64, next.delivered_bytes as f64);
    Some(low + (high - low) * part)
}

/// Returns the send window in segments over time: the shadow's; without a shadow, or if the port only observes the flow
/// (`observed`), the smaller of congestion window and receive window.
pub(crate) fn send_window(flow: &FlowRecord, observed: bool) -> Points {
    of_samples(flow, |sample| send_window_segments(sample, observed))
}

/// Returns the window of the law's shadow in segments, within a part of the run.
pub(crate) fn shadow(flow: &FlowRecord, part_ns: &Range<u64>) -> Points {
    let inside = |sample: &FlowSample| part_ns.contains(&sample.at_ns);
    of_samples(flow, |sample| {
        shadow_segments(sample).filter(|_| inside(sample))
    })
}

/// Returns one of a flow's α over time: the guest's own, the exact one, or the shadow's.
pub(crate) fn alpha(flow: &FlowRecord, which: Alpha) -> Points {
    of_samples(flow, |sample| alpha_of(sample, which))
}

/// Returns a value over time, from the samples that have it.
fn of_samples(flow: &FlowRecord, value: impl Fn(&FlowSample) -> Option<f64>) -> Points {
    let point = |sample: &FlowSample| Some((seconds(sample.at_ns), value(sample)?));
    thin(&flow.samples.iter().filter_map(point).collect::<Points>())
}

/// Returns the guest's own congestion window in segments, within a part of the run.
pub(crate) fn cwnd(flow: &FlowRecord, part_ns: &Range<u64>) -> Points {
    let shown = |sample: &FlowSample| sample.mss_bytes > 0 && part_ns.contains(&sample.at_ns);
    of_samples(flow, |sample| {
        shown(sample).then(|| f64::from(sample.cwnd_segments))
    })
}

/// Returns the bottleneck's backlog over time, in kB.
pub(crate) fn backlog(queue: &[QueueSample]) -> Points {
    let point = |sample: &QueueSample| (seconds(sample.at_ns), sample.backlog_bytes as f64 / 1e3);
    thin(&queue.iter().map(point).collect::<Points>())
}

/// Returns RED's average queue over time, in kB; empty for a queue without one.
pub(crate) fn average(queue: &[QueueSample]) -> Points {
    let point =
        |sample: &QueueSample| Some((seconds(sample.at_ns), sample.average_bytes? as f64 / 1e3));
    thin(&queue.iter().filter_map(point).collect::<Points>())
}

/// Keeps the lowest and the highest point of each of [`COLUMNS`] equal pieces, in order of time, so
/// that no peak is lost.
fn thin(points: &[(f64, f64)]) -> Points {
    let piece = points.len().div_ceil(COLUMNS).max(1);
    if piece <= 2 {
        return points.to_vec();
    }
    let ends = |piece: &[(f64, f64)]| {
        let low = piece.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = piece.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut ends: Points = low.into_iter().chain(high).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(piece).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_has_the_same_goodput_in_every_second() {
        let sample = |i: u64| FlowSample {
            at_ns: i * 130_000_000,
            delivered_bytes: i * 16_250,
            ..FlowSample::default()
        };
        let flow = FlowRecord {
            samples: (0..80).map(sample).collect(),
            ..FlowRecord::default()
        };
        let points = goodput(&flow, Nanos(1_000_000_000), Nanos(10_400_000_000));
        assert_eq!(points.len(), 10);
        for (at, rate) in points {
            assert!((rate - 1e6).abs() < 1e-3, "{rate} bit/s at {at} s");
        }
    }

    #[test]
    fn the_mean_of_curves_counts_those_with_a_value() {
        let (long, short) = (vec![(0.0, 1.0), (1.0, 2.0)], vec![(1.0, 4.0)]);
        assert_eq!(mean(&[long, short]), [(0.0, 1.0), (1.0, 3.0)]);
        assert_eq!(mean(&[]), []);
    }

    #[test]
    fn thinning_keeps_peaks_and_order() {
        let mut points: Points = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        points[4_321].1 = 99.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= 2 * COLUMNS);
        assert!(thinned.contains(&(4_321.0, 99.0)));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
    }
}
