//! Statistics: one number for many, such as their mean or a quantile.

use serde::{Deserialize, Serialize};

/// A statistic of a set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The mean.
    #[default]
    Mean,
    /// The smallest value that half of the values do not exceed.
    P50,
    /// The smallest value that 99 % of the values do not exceed.
    P99,
    /// The smallest value that 99.9 % of the values do not exceed.
    P999,
    /// The maximum.
    Max,
    /// The standard deviation around the mean.
    Deviation,
}

impl Statistic {
    /// Returns the statistic of `values`, in any order; `None` without values.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        if let Some(permille) = self.permille() {
            return ranked(values, permille as usize);
        }
        let mean = mean(values)?;
        if self == Statistic::Mean {
            return Some(mean);
        }
        let squares = values.iter().map(|value| (value - mean).powi(2));
        Some((squares.sum::<f64>() / values.len() as f64).sqrt())
    }

    /// Returns the quantile in thousandths, 1000 for the maximum; `None` for mean and deviation.
    pub(crate) fn permille(self) -> Option<u64> {
        match self {
            Statistic::Mean | Statistic::Deviation => None,
            Statistic::P50 => Some(500),
            Statistic::P99 => Some(990),
            Statistic::P999 => Some(999),
            Statistic::Max => Some(1000),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the value of rank ⌈n · permille / 1000⌉, counted from 1.
fn ranked(values: &[f64], permille: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted.get(rank.checked_sub(1)?).copied()
}
