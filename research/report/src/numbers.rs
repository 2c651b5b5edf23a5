//! Formats of numbers for readers.

use uc_experiment::Verdict;

/// Formats a number: whole numbers unchanged, fractions with three digits after the point, larger
/// ones with fewer, and millions with M or G.
pub(crate) fn number(value: f64) -> String {
    let (value, letter) = in_millions(value, value);
    let places = if value.fract() == 0.0 {
        0
    } else {
        decimals(value)
    };
    format!("{}{letter}", with_decimals(value, places))
}

/// Returns `value` and a letter: divided by 10⁹ (G) or 10⁶ (M) if `size` is at least that, otherwise unchanged and
/// without a letter.
fn in_millions(value: f64, size: f64) -> (f64, &'static str) {
    match size.abs() {
        billions if billions >= 1e9 => (value / 1e9, " G"),
        millions if millions >= 1e6 => (value / 1e6, " M"),
        _ => (value, ""),
    }
}

/// Formats a mean and its standard error, such as `0.312 ± 0.021`, with the same digits: as many as
/// the error needs to show one of its own, but at most five.
pub(crate) fn mean_and_spread(mean: f64, spread: Option<f64>) -> String {
    let Some(spread) = spread else {
        return number(mean);
    };
    if spread == 0.0 && mean.fract() == 0.0 {
        return format!("{} ± 0", number(mean));
    }
    let (ours, letter) = in_millions(mean, mean);
    let (spread, _) = in_millions(spread, mean);
    let own = if spread > 0.0 {
        (-spread.log10()).ceil().clamp(0.0, 5.0) as usize
    } else {
        0
    };
    let places = decimals(ours).max(own);
    format!(
        "{} ± {}{letter}",
        with_decimals(ours, places),
        with_decimals(spread, places)
    )
}

/// Formats the result of a verdict: the mean and its standard error, or the means of a trend from
/// its first point to its last; `–` where it can't be computed.
pub(crate) fn found(verdict: &Verdict) -> String {
    let steps: Vec<String> = verdict.steps.iter().map(|step| number(step.ours)).collect();
    match steps.as_slice() {
        [] => verdict.ours.map_or_else(
            || "–".to_owned(),
            |mean| mean_and_spread(mean, verdict.spread),
        ),
        [first, .., last] if steps.len() > 4 => format!("{first} → … → {last}"),
        few => few.join(" → "),
    }
}

/// Formats a fraction in percent, such as `14.2%`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let places = if percent == 0.0 {
        0
    } else {
        1 + usize::from(percent.abs() < 0.1)
    };
    format!("{}%", with_decimals(percent, places))
}

/// Returns the number of digits after the point for a fraction of this size.
fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        tiny if tiny < 0.001 => 5,
        share if share < 10.0 => 3,
        tens if tens < 100.0 => 2,
        hundreds if hundreds < 1000.0 => 1,
        _ => 0,
    }
}

/// Formats a number with this many digits after the point.
pub(crate) fn with_decimals(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    // No minus sign before a value that rounds to zero.
    if text.trim_matches(|c| "-0.".contains(c)).is_empty() {
        text.replace('-', "")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use uc_experiment::expect::Claim;
    use uc_experiment::{Bound, Outcome, Step};

    use super::*;

    fn verdict(ours: f64, spread: Option<f64>) -> Verdict {
        let bound = Bound {
            low: None,
            high: Some(1.0),
        };
        Verdict {
            name: String::new(),
            at: Vec::new(),
            paper: None,
            ours: Some(ours),
            spread,
            interval: None,
            expect: Claim::Bound(bound),
            basis: None,
            outcome: Outcome::Holds,
            holds: true,
            differs: None,
            why: None,
            late: None,
            n: 2,
            steps: Vec::new(),
            extremes: Some([ours, ours]),
            places: Vec::new(),
        }
    }

    fn shown(ours: f64, spread: Option<f64>) -> String {
        found(&verdict(ours, spread))
    }

    #[test]
    fn a_trend_is_shown_from_its_first_step_to_its_last() {
        let told = |means: &[f64]| {
            let step = |mean: &f64| Step {
                label: String::new(),
                ours: *mean,
                spread: None,
                interval: None,
                n: 2,
            };
            let steps = means.iter().map(step).collect();
            found(&Verdict {
                steps,
                ..verdict(0.25, None)
            })
        };
        assert_eq!(told(&[0.75, 0.5, 0.25]), "0.750 → 0.500 → 0.250");
        assert_eq!(told(&[0.9, 0.8, 0.7, 0.6, 0.5]), "0.900 → … → 0.500");
    }

    #[test]
    fn a_mean_has_as_many_digits_as_its_error_needs() {
        assert_eq!(shown(0.31234, Some(0.0213)), "0.312 ± 0.021");
        assert_eq!(shown(0.20991, Some(0.00057)), "0.2099 ± 0.0006");
        assert_eq!(shown(1.0, Some(0.0)), "1 ± 0");
        assert_eq!(shown(0.0, None), "0");
        assert_eq!(shown(321.4, Some(12.0)), "321.4 ± 12.0");
        assert_eq!(shown(229_752_422.0, Some(144_342.0)), "229.8 ± 0.1 M");
    }

    #[test]
    fn percentages_and_whole_numbers_are_short() {
        assert_eq!(percent(0.142), "14.2%");
        assert_eq!(percent(1.038), "103.8%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.0004), "0.04%");
        assert_eq!(number(40.0), "40");
        assert_eq!(number(9_412_000_000.0), "9.412 G");
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(0.9215), "0.921");
    }
}
