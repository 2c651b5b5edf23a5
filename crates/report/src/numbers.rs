//! Numbers as people read them.

use uc_experiment::Verdict;

/// Three digits after the point for shares, fewer for larger numbers, none for whole ones.
pub(crate) fn number(value: f64) -> String {
    with_decimals(value, decimals(value))
}

/// `0.312 ± 0.021`: the mean and its standard error with the same digits.
pub(crate) fn mean_and_spread(verdict: &Verdict) -> String {
    let spread = verdict.spread.unwrap_or_default();
    // A spread much finer than the mean's digits still shows one digit of its own.
    let places = decimals(verdict.ours).max(if spread < 0.1 { decimals(spread) } else { 0 });
    let ours = with_decimals(verdict.ours, places);
    match verdict.spread {
        Some(spread) => format!("{ours} ± {}", with_decimals(spread, places)),
        None => ours,
    }
}

/// A fraction in percent: `14.2%`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let places = if percent == 0.0 || percent >= 100.0 {
        0
    } else {
        1 + usize::from(percent < 0.1)
    };
    format!("{percent:.places$}%")
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        small if small < 0.001 => 5,
        share if share < 10.0 => 3,
        tens if tens < 100.0 => 2,
        hundreds if hundreds < 1000.0 => 1,
        _ => 0,
    }
}

fn with_decimals(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    // No minus in front of a rounded nothing.
    if text.trim_matches(|c| "-0.".contains(c)).is_empty() {
        text.replace('-', "")
    } else {
        text
    }
}
