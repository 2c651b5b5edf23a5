//! One number for many: their mean, or the value that a share of them do not exceed.

use serde::{Deserialize, Serialize};

/// What is told of a set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Their mean.
    #[default]
    Mean,
    /// The least value that half of them do not exceed.
    P50,
    /// The least value that 99 % of them do not exceed.
    P99,
    /// The least value that 99.9 % of them do not exceed.
    P999,
    /// The largest.
    Max,
    /// Their standard deviation around their mean.
    Deviation,
}

impl Statistic {
    /// The statistic of `values`, in any order; none if there are none.
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

    /// How many of a thousand do not exceed it; none for what isn't one of the values.
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

/// The value of rank ⌈n · permille / 1000⌉, counted from 1.
fn ranked(values: &[f64], permille: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted.get(rank.checked_sub(1)?).copied()
}
