//! A mean over repetitions, or a ratio of two means, with its error and confidence interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Quantile of Student's t at the upper end of a 95 % interval: 2.5 % lie above it.
const UPPER_QUANTILE: f64 = 0.975;

/// The statistics of a number over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of repetitions.
    pub n: usize,
    /// Mean of the repetitions, or ratio of two such means.
    pub mean: f64,
    /// Standard error: sample standard deviation / √n; for a ratio by the delta method. `None` below two repetitions.
    pub standard_error: Option<f64>,
    /// 95 % confidence interval: for a mean by Student's t, for a ratio by Fieller's method; where all repetitions are
    /// equal, their value. `None` below two repetitions, if a repetition is not a finite number, or if the denominator
    /// of a ratio may be 0.
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
        let ours = mean(values);
        let error = (n >= 2).then(|| (covariance(values, values) / n as f64).sqrt());
        let [min, max] = extremes(values.iter().copied());
        let interval = error.and_then(|error| {
            if min == max && ours.is_finite() {
                // The sum's rounding would move the mean of equal values off a bar.
                return Some([min, max]);
            }
            let reach = error * quantile(n)?;
            reach.is_finite().then_some([ours - reach, ours + reach])
        });
        Self {
            n,
            mean: ours,
            standard_error: error,
            interval,
            min,
            max,
        }
    }

    /// Computes the ratio of two means from the two values of each repetition; `None` if the denominator's mean is 0.
    /// The interval is Fieller's: all ratios ρ for which 0 lies within the 95 % interval of the mean of a − ρ·b.
    pub fn of_ratio(above: &[f64], below: &[f64]) -> Option<Self> {
        let linear = Self::of(&linearised(above, below)?);
        let ratios = above.iter().zip(below).map(|(a, b)| a / b);
        let [min, max] = extremes(ratios.filter(|ratio| ratio.is_finite()));
        let interval = if linear.standard_error == Some(0.0) {
            linear.interval
        } else {
            fieller(above, below)
        };
        Some(Self {
            interval,
            min,
            max,
            ..linear
        })
    }
}

/// Returns Fieller's interval: the solutions ρ of (mean(a) − ρ·mean(b))² = t²·(var(a) − 2ρ·cov(a, b) + ρ²·var(b)) / n.
/// `None` without two solutions around the ratio: then mean(b) does not differ from 0 by more than its error, and
/// nothing bounds the ratio.
fn fieller(above: &[f64], below: &[f64]) -> Option<[f64; 2]> {
    let n = above.len();
    let factor = quantile(n)?.powi(2) / n as f64;
    let (a, b) = (mean(above), mean(below));
    let square = b * b - factor * covariance(below, below);
    let mixed = a * b - factor * covariance(above, below);
    let constant = a * a - factor * covariance(above, above);
    let root = (mixed * mixed - square * constant).max(0.0).sqrt();
    let ends = [(mixed - root) / square, (mixed + root) / square];
    (square > 0.0 && ends.iter().all(|end| end.is_finite())).then_some(ends)
}

/// Returns the values of [`crate::ratio::linear`] for the ratio of two means; `None` if the denominator's mean is 0.
pub(crate) fn linearised(above: &[f64], below: &[f64]) -> Option<Vec<f64>> {
    let divisor = mean(below);
    if divisor == 0.0 {
        return None;
    }
    let ratio = mean(above) / divisor;
    let pairs = || above.iter().zip(below);
    let first = above.first()? / below.first()?;
    if pairs().all(|(a, b)| a / b == first) {
        // Rounding would move equal ratios off a bar.
        return Some(vec![first; above.len()]);
    }
    Some(
        pairs()
            .map(|(a, b)| ratio + (a - ratio * b) / divisor)
            .collect(),
    )
}

/// Returns the quantile of Student's t for the mean of `n` values; `None` below two.
fn quantile(n: usize) -> Option<f64> {
    let freedom = n.checked_sub(1)? as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(student.inverse_cdf(UPPER_QUANTILE))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the sample covariance of paired values.
fn covariance(one: &[f64], other: &[f64]) -> f64 {
    let (mean_one, mean_other) = (mean(one), mean(other));
    let pairs = one.iter().zip(other);
    let products = pairs.map(|(a, b)| (a - mean_one) * (b - mean_other));
    products.sum::<f64>() / (one.len() - 1) as f64
}

fn extremes(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[min, max], value| {
        [min.min(value), max.max(value)]
    })
}
