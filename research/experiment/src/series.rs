//! One flow over the measured part of its run: rates, differences, the send window over time.

use std::ops::Range;

use crate::measure::Alpha;
use crate::record::{FlowRecord, FlowSample};
use crate::statistic::Statistic;

/// The samples of a flow inside the measured part: two or more.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    samples: &'a [FlowSample],
    observed: bool,
}

impl<'a> Series<'a> {
    /// Selects the flow's samples with times in `measured_ns`; `None` if there are fewer than two.
    pub fn of(flow: &'a FlowRecord, measured_ns: &Range<u64>) -> Option<Self> {
        let from = flow
            .samples
            .partition_point(|sample| sample.at_ns < measured_ns.start);
        let to = flow
            .samples
            .partition_point(|sample| sample.at_ns <= measured_ns.end);
        let samples = flow.samples.get(from..to)?;
        let lasts = samples.len() >= 2 && samples[0].at_ns < samples[samples.len() - 1].at_ns;
        lasts.then_some(Self {
            samples,
            observed: false,
        })
    }

    /// Sets whether the flow's port only observes: then the send window is the flow's own, not the shadow's.
    pub fn observed(self, observed: bool) -> Self {
        Self { observed, ..self }
    }

    /// Returns the samples, in order of time.
    pub fn samples(self) -> &'a [FlowSample] {
        self.samples
    }

    /// Returns the last sample.
    pub fn last(self) -> &'a FlowSample {
        &self.samples[self.samples.len() - 1]
    }

    /// Returns the increase of a counter from the first sample to the last.
    pub fn growth(self, counter: impl Fn(&FlowSample) -> u64) -> u64 {
        counter(self.last()).saturating_sub(counter(&self.samples[0]))
    }

    /// Returns the mean rate of a counter of bytes, in bits per second.
    pub fn rate_bps(self, counter: impl Fn(&FlowSample) -> u64) -> f64 {
        let elapsed_ns = self.last().at_ns - self.samples[0].at_ns;
        self.growth(counter) as f64 * 8e9 / elapsed_ns as f64
    }

    /// Returns the payload delivered to the receiving application, in bits per second.
    pub fn goodput_bps(self) -> f64 {
        self.rate_bps(|sample| sample.delivered_bytes)
    }

    /// Returns the segment size (payload of a full segment) in the last sample that has one: samples between two
    /// connections have none. `None` if no sample has one.
    pub fn mss_bytes(self) -> Option<u32> {
        let mut sizes = self.samples.iter().rev().map(|sample| sample.mss_bytes);
        sizes.find(|bytes| *bytes > 0)
    }

    /// Returns the send window over time, in nanoseconds and segments.
    pub fn send_window(self) -> Vec<(u64, f64)> {
        let point = |sample: &FlowSample| {
            let window = send_window_segments(sample, self.observed)?;
            Some((sample.at_ns, window))
        };
        self.samples.iter().filter_map(point).collect()
    }

    /// Returns the mean over time of the send window, each sample holding until the next; `None` if
    /// no sample has a segment size.
    pub fn mean_window_segments(self) -> Option<f64> {
        let points = self.send_window();
        let (first, last) = (points.first()?.0, points.last()?.0);
        if first == last {
            return None;
        }
        let area = |pair: &[(u64, f64)]| pair[0].1 * (pair[1].0 - pair[0].0) as f64;
        Some(points.windows(2).map(area).sum::<f64>() / (last - first) as f64)
    }

    /// Returns the mean of the smoothed round-trip times, in seconds; `None` if no sample has one.
    pub fn mean_rtt_s(self) -> Option<f64> {
        let times_s: Vec<f64> = self.srtts_us().map(|us| f64::from(us) / 1e6).collect();
        Statistic::Mean.of(&times_s)
    }

    /// Returns the mean of the smoothed round-trip times, in microseconds, without rounding in the sum; `None` if no
    /// sample has one.
    pub fn mean_srtt_us(self) -> Option<f64> {
        let (count, sum_us) = self.srtts_us().fold((0u64, 0u64), |(count, sum_us), us| {
            (count + 1, sum_us + u64::from(us))
        });
        (count > 0).then(|| sum_us as f64 / count as f64)
    }

    /// Iterates over the smoothed round-trip times of the samples that have one: a sample before
    /// the first measurement, or between two connections, has 0.
    fn srtts_us(self) -> impl Iterator<Item = u32> {
        let times = self.samples.iter().map(|sample| sample.srtt_us);
        times.filter(|us| *us > 0)
    }

    /// Returns the mean of (shadow − cwnd) / cwnd if `signed`, else of its absolute value; `None` if no sample has both
    /// windows.
    pub fn window_error(self, signed: bool) -> Option<f64> {
        let errors = self.samples.iter().filter_map(window_error);
        let errors: Vec<f64> = if signed {
            errors.collect()
        } else {
            errors.map(f64::abs).collect()
        };
        Statistic::Mean.of(&errors)
    }

    /// Returns the mean of an α, 0 to 1; `None` if no sample has it.
    pub fn mean_alpha(self, which: Alpha) -> Option<f64> {
        let values: Vec<f64> = self
            .samples
            .iter()
            .filter_map(|s| alpha(s, which))
            .collect();
        Statistic::Mean.of(&values)
    }

    /// Returns the mean distance between the shadow's α and the α of `other`, and the mean of the latter, over the
    /// samples that have both; `None` without such samples.
    pub fn alpha_distance(self, other: Alpha) -> Option<(f64, f64)> {
        let pair = |s: &FlowSample| Some((alpha(s, Alpha::Shadow)?, alpha(s, other)?));
        let pairs: Vec<(f64, f64)> = self.samples.iter().filter_map(pair).collect();
        let mean = |value: fn(&(f64, f64)) -> f64| {
            Statistic::Mean.of(&pairs.iter().map(value).collect::<Vec<f64>>())
        };
        Some((
            mean(|(shadow, other)| (shadow - other).abs())?,
            mean(|pair| pair.1)?,
        ))
    }

    /// Returns the fraction of the samples with a full window (flight at most one segment below it,
    /// since one ACK may just have arrived) in which the guest's own window is above the advertised
    /// one; `None` if no window was ever full.
    pub fn window_above(self) -> Option<f64> {
        let full: Vec<bool> = self.samples.iter().filter_map(above_if_full).collect();
        let above = full.iter().filter(|above| **above).count();
        (!full.is_empty()).then(|| above as f64 / full.len() as f64)
    }
}

/// Returns the limit of the flight, in segments: the shadow's window if there is a shadow that does
/// more than observe (the receive window is that window, rounded to what a header can express),
/// else min(cwnd, receive window). `None` before the segment size is known.
pub fn send_window_segments(sample: &FlowSample, observed: bool) -> Option<f64> {
    let shadow = shadow_segments(sample).filter(|_| !observed);
    shadow.or_else(|| {
        let given = in_segments(sample, sample.snd_wnd_bytes)?;
        Some(given.min(f64::from(sample.cwnd_segments)))
    })
}

/// Returns the window of the law's shadow in segments; `None` without a shadow or a segment size.
pub fn shadow_segments(sample: &FlowSample) -> Option<f64> {
    in_segments(sample, sample.shadow_window_bytes?)
}

fn in_segments(sample: &FlowSample, bytes: u32) -> Option<f64> {
    let known = sample.mss_bytes > 0;
    known.then(|| f64::from(bytes) / f64::from(sample.mss_bytes))
}

/// Returns (shadow − cwnd) / cwnd in whole segments: a kernel's window has no fractions, and rounding one side only
/// would be an error of half a segment. `None` without a shadow, a segment size or a cwnd.
fn window_error(sample: &FlowSample) -> Option<f64> {
    let shadow = sample.shadow_window_bytes?.checked_div(sample.mss_bytes)?;
    let cwnd = f64::from(sample.cwnd_segments);
    (cwnd > 0.0).then(|| (f64::from(shadow) - cwnd) / cwnd)
}

/// Returns one of a sample's α, 0 to 1; `None` if it doesn't have that one.
pub fn alpha(sample: &FlowSample, which: Alpha) -> Option<f64> {
    let alpha_q30 = match which {
        Alpha::Shadow => sample.shadow_alpha_q30,
        Alpha::Exact => sample.exact_alpha_q30,
        Alpha::Guest => sample.guest_alpha_q30,
    };
    Some(f64::from(alpha_q30?) / f64::from(1u32 << 30))
}

/// Returns whether the guest's cwnd exceeds the advertised window; `None` if its window is not
/// full.
fn above_if_full(sample: &FlowSample) -> Option<bool> {
    let given = sample.snd_wnd_bytes.checked_div(sample.mss_bytes)?;
    let full = sample.unacked_segments + 1 >= given.min(sample.cwnd_segments);
    let cwnd_bytes = u64::from(sample.cwnd_segments) * u64::from(sample.mss_bytes);
    full.then_some(cwnd_bytes > u64::from(sample.snd_wnd_bytes))
}
