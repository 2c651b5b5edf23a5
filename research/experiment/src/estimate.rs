//! A mean over repetitions, and how far it can be trusted.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Both tails together have the other 5 %.
const UPPER_QUANTILE: f64 = 0.975;

/// What repetitions say of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How many repetitions.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation / √n; none below two repetitions.
    pub standard_error: Option<f64>,
    /// The mean's 95 % confidence interval by Student's t; none below two repetitions.
    pub interval: Option<[f64; 2]>,
    /// The least of them.
    pub min: f64,
    /// The most of them.
    pub max: f64,
}

impl Estimate {
    /// The estimate from one value per repetition.
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

    /// Whether this mean is below the other, and their intervals have nothing in common. Never
    /// true without intervals.
    pub fn clearly_below(&self, other: &Self) -> bool {
        match (self.interval, other.interval) {
            (Some([_, high]), Some([low, _])) => high < low,
            _ => false,
        }
    }
}
