//! Distributions of many numbers as a curve: density and cumulative distribution.

use crate::curves::Points;

/// Maximum number of steps of a curve: a panel can't show more.
const COLUMNS: usize = 500;

/// Returns the density of `values` over `[0, end]`, from Gaussian kernels. Their width is Silverman's, but at least a
/// hundredth of the range, so that equal values still make a curve. Omits the curve's flat ends.
pub(crate) fn density(values: &[f64], end: f64) -> Points {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / n;
    let width = (1.06 * variance.sqrt() * n.powf(-0.2)).max(end / 100.0);
    let kernel = |distance: f64| (-0.5 * (distance / width).powi(2)).exp();
    let scale = n * width * (2.0 * std::f64::consts::PI).sqrt();
    let point = |i: u32| {
        let x = end * f64::from(i) / 320.0;
        (
            x,
            values.iter().map(|value| kernel(x - value)).sum::<f64>() / scale,
        )
    };
    let points: Points = (0..=320).map(point).collect();
    let top = points.iter().map(|point| point.1).fold(0.0, f64::max);
    points
        .into_iter()
        .filter(|point| point.1 > top / 1_000.0)
        .collect()
}

/// Returns the cumulative distribution of `values` as steps: for each x the fraction of entries that are at most x.
/// `all` is the number of entries, including those without a value, so that the curve may end below 1. Of more values
/// than a panel has columns, it shows as many quantiles.
pub(crate) fn cumulative(mut values: Vec<f64>, all: usize) -> Points {
    values.sort_by(f64::total_cmp);
    let counts: Vec<(f64, u64)> = values.into_iter().zip(1..).collect();
    cumulative_counts(&counts, all as u64)
}

/// Returns the cumulative distribution of counted values: each value with the number of entries up
/// to it, of `all`.
pub(crate) fn cumulative_counts(counts: &[(f64, u64)], all: u64) -> Points {
    let every = counts.len().div_ceil(COLUMNS).max(1);
    let last = counts.len().saturating_sub(1);
    let mut points = Points::new();
    let mut below = 0.0;
    for (place, (value, count)) in counts.iter().enumerate() {
        if place % every != 0 && place != last {
            continue;
        }
        let part = *count as f64 / all as f64;
        points.extend([(*value, below), (*value, part)]);
        below = part;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_has_an_area_of_one() {
        let values: Vec<f64> = (0..50).map(|i| 4.0 + f64::from(i % 7) * 0.3).collect();
        let points = density(&values, 10.0);
        let area: f64 = points.windows(2).map(|p| (p[1].0 - p[0].0) * p[0].1).sum();
        assert!((area - 1.0).abs() < 0.01, "{area}");
    }

    #[test]
    fn a_cumulative_distribution_rises_to_the_fraction_with_values() {
        let points = cumulative(vec![3.0, 1.0, 2.0], 4);
        let steps = [
            (1.0, 0.0),
            (1.0, 0.25),
            (2.0, 0.25),
            (2.0, 0.5),
            (3.0, 0.5),
            (3.0, 0.75),
        ];
        assert_eq!(points, steps);
        assert_eq!(cumulative(Vec::new(), 0), Points::new());
        let counted = cumulative_counts(&[(1.0, 3), (2.0, 4)], 4);
        assert_eq!(counted, [(1.0, 0.0), (1.0, 0.75), (2.0, 0.75), (2.0, 1.0)]);
        let many = cumulative((0..100_000).map(f64::from).collect(), 100_000);
        assert!(many.len() <= 1_004, "{}", many.len());
        assert_eq!(many.last(), Some(&(99_999.0, 1.0)));
        assert!(many.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
    }
}
