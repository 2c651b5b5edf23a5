//! A mean over repetitions, with its error and confidence interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Quantile of the interval's upper end; both tails together have the other 5 %.
const UPPER_QUANTILE: f64 = 0.975;

/// The statistics of a number over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of repetitions.
    pub n: usize,
    /// Mean of the repetitions.
    pub mean: f64,
    /// Standard error: sample standard deviation / √n; `None` below two repetitions.
    pub standard_error: Option<f64>,
    /// 95 % confidence interval of the mean by Student's t; `None` below two repetitions.
    pub interval: Option<[f64; 2]>,
    /// Minimum of the repetitions.
    pub min: f64,
    /// Maximum of the repetitions.
    pub max: f64,
}

impl Estimate {
    /// Computes the estimate from one value per repetition.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (n >= 2).then(|| (squares / (n - 1) as f64 / n as f64).sqrt());
        let interval = error.and_then(|error| {
            let student = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
            let reach = error * student.inverse_cdf(UPPER_QUANTILE);
            Some([mean - reach, mean + reach])
        });
        Self {
            n,
            mean,
            standard_error: error,
            interval,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Returns whether this mean is below the other and their intervals do not overlap. Always
    /// false without intervals.
    pub fn clearly_below(&self, other: &Self) -> bool {
        match (self.interval, other.interval) {
            (Some([_, high]), Some([low, _])) => high < low,
            _ => false,
        }
    }
}
