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
    /// 95 % confidence interval of the mean by Student's t, the value itself where all repetitions
    /// are equal; `None` below two repetitions, or if a repetition is not a finite number.
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
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let interval = error.and_then(|error| {
            if min == max && mean.is_finite() {
                // The sum's rounding would move the mean of equal values off a bar.
                return Some([min, max]);
            }
            let student = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
            let reach = error * student.inverse_cdf(UPPER_QUANTILE);
            reach.is_finite().then_some([mean - reach, mean + reach])
        });
        Self {
            n,
            mean,
            standard_error: error,
            interval,
            min,
            max,
        }
    }
}
