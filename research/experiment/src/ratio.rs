//! Measures over repetitions. A ratio is the ratio of its sides' means, not the mean of the repetitions' ratios: that
//! mean weighs a repetition with a small denominator most, and is too large where denominators vary.

use crate::estimate::{Estimate, linearised};
use crate::measure::Measure;

/// Estimates a measure over repetitions. `side` returns the values of a measure that is no ratio, one per
/// repetition, and `zero` the error of a denominator whose mean is 0.
///
/// # Errors
/// The first error that `side` returns; else `zero`'s for the first denominator whose mean is 0.
pub fn estimate<E>(
    measure: &Measure,
    side: &impl Fn(&Measure) -> Result<Vec<f64>, E>,
    zero: &impl Fn(&Measure) -> E,
) -> Result<Estimate, E> {
    let Measure::Ratio { of, to } = measure else {
        return Ok(Estimate::of(&side(measure)?));
    };
    let (above, below) = (linear(of, side, zero)?, linear(to, side, zero)?);
    Estimate::of_ratio(&above, &below).ok_or_else(|| zero(to))
}

/// Returns a value per repetition, whose mean is the measure's estimate. For a ratio R of means the values are R + (aᵢ
/// − R·bᵢ) / mean(b): their standard error is the ratio's to first order (delta method), also in differences and means
/// of several such ratios.
///
/// # Errors
/// As [`estimate`].
pub fn linear<E>(
    measure: &Measure,
    side: &impl Fn(&Measure) -> Result<Vec<f64>, E>,
    zero: &impl Fn(&Measure) -> E,
) -> Result<Vec<f64>, E> {
    let Measure::Ratio { of, to } = measure else {
        return side(measure);
    };
    let (above, below) = (linear(of, side, zero)?, linear(to, side, zero)?);
    linearised(&above, &below).ok_or_else(|| zero(to))
}
