//! A histogram of many numbers, with bins whose width is at most 1/128 of their values, after
//! HdrHistogram: each power of two is divided into equal parts.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::statistic::Statistic;

/// Number of bits below a value's highest bit that select its bin: there are 128 bins for each power of two, and one
/// for each number below 128.
const BITS: u32 = 7;

/// Maximum number of bits of a value; larger values are counted in the last bin. 2⁴⁰ ns are 18 minutes.
const BITS_MAX: u32 = 40;

/// Number of bins.
const BINS: usize = ((BITS_MAX - BITS + 1) << BITS) as usize;

/// Numbers of values, by bin, with the exact sum and maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Number of the bin that `counts` begins with.
    first: u32,
    /// Number of values in each bin, from `first` on.
    counts: Vec<u32>,
    /// Sum of all values.
    sum: u64,
    /// Maximum of all values.
    max: u64,
}

impl Histogram {
    /// Creates an empty histogram with all bins, so that [`Histogram::record`] never allocates.
    pub fn roomy() -> Self {
        Self {
            counts: vec![0; BINS],
            ..Self::default()
        }
    }

    /// Adds `value` to its bin.
    pub fn record(&mut self, value: u64) {
        let bin = bin_of(value);
        self.cover(bin..=bin);
        let count = &mut self.counts[bin - self.first as usize];
        *count = count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        let first = other.first as usize;
        let Some(last) = (first + other.counts.len()).checked_sub(1) else {
            return;
        };
        self.cover(first..=last);
        let shift = first - self.first as usize;
        for (count, more) in self.counts[shift..].iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns the histogram without empty bins at its ends, as a record keeps it.
    pub fn trimmed(&self) -> Self {
        let mut used = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        let Some((from, _)) = used.next() else {
            return Self::default();
        };
        let to = used.next_back().map_or(from, |(to, _)| to);
        Self {
            first: self.first + from as u32,
            counts: self.counts[from..=to].to_vec(),
            ..*self
        }
    }

    /// Extends `counts` so that it covers these bins.
    fn cover(&mut self, bins: RangeInclusive<usize>) {
        let (from, to) = (*bins.start(), *bins.end());
        if self.counts.is_empty() {
            self.first = from as u32;
        }
        let first = self.first as usize;
        if from < first {
            let more = std::iter::repeat_n(0, first - from);
            self.counts.splice(0..0, more);
            self.first = from as u32;
        }
        let length = to + 1 - self.first as usize;
        if length > self.counts.len() {
            self.counts.resize(length, 0);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns a statistic of all values; `None` without values. Mean and maximum are exact, a
    /// quantile is the largest number of its bin, and the deviation uses these numbers too.
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let mean = self.sum as f64 / count as f64;
        let value = match statistic.permille() {
            None if statistic == Statistic::Deviation => return Some(self.deviation(mean)),
            None => return Some(mean),
            Some(1000) => self.max,
            Some(permille) => self.ranked((count * permille).div_ceil(1000)),
        };
        Some(value as f64)
    }

    /// Returns the largest number in the bin of the value with this rank, counted from 1.
    fn ranked(&self, rank: u64) -> u64 {
        let mut steps = self.cumulative();
        let found = steps.find(|(_, below)| *below >= rank);
        found.map_or(self.max, |(value, _)| value)
    }

    /// Returns the root mean square distance from `mean`.
    fn deviation(&self, mean: f64) -> f64 {
        let (mut sum, mut below) = (0.0, 0);
        for (value, count) in self.cumulative() {
            sum += (value as f64 - mean).powi(2) * (count - below) as f64;
            below = count;
        }
        (sum / below.max(1) as f64).sqrt()
    }

    /// Iterates over the bins with values: the bin's largest number, and the number of values up to
    /// it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        let bins = self.counts.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(move |(place, count)| {
                sum += u64::from(*count);
                let end = largest_of(self.first as usize + place);
                (end.min(self.max), sum)
            })
    }
}

/// Returns the bin that holds `value`: with e the position of its highest bit, (e − 6)·128 plus the
/// seven bits below that one; below 128, the value itself.
fn bin_of(value: u64) -> usize {
    let value = value.min((1 << BITS_MAX) - 1);
    let shift = value.max(1).ilog2().saturating_sub(BITS);
    (u64::from(shift << BITS) + (value >> shift)) as usize
}

/// Returns the largest number in a bin.
fn largest_of(bin: usize) -> u64 {
    if bin + 1 >= BINS {
        return u64::MAX;
    }
    let next = bin as u64 + 1;
    let shift = (next >> BITS).saturating_sub(1);
    let mantissa = next - (shift << BITS);
    (mantissa << shift) - 1
}
