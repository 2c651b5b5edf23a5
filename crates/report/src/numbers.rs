//! Numbers as people read them.

use uc_experiment::Verdict;

/// Whole numbers as they are, shares with three digits after the point, larger ones with fewer.
pub(crate) fn number(value: f64) -> String {
    with_decimals(
        value,
        if value.fract() == 0.0 {
            0
        } else {
            decimals(value)
        },
    )
}

/// `0.312 ± 0.021`: the mean and its standard error with the same digits, as many as the error
/// needs to show one of its own (but no more than five).
pub(crate) fn mean_and_spread(verdict: &Verdict) -> String {
    let Some(spread) = verdict.spread else {
        return number(verdict.ours);
    };
    if spread == 0.0 && verdict.ours.fract() == 0.0 {
        return format!("{} ± 0", with_decimals(verdict.ours, 0));
    }
    let own = if spread > 0.0 {
        (-spread.log10()).ceil().clamp(0.0, 5.0) as usize
    } else {
        0
    };
    let places = decimals(verdict.ours).max(own);
    format!(
        "{} ± {}",
        with_decimals(verdict.ours, places),
        with_decimals(spread, places)
    )
}

/// A fraction in percent: `14.2%`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let places = if percent == 0.0 {
        0
    } else {
        1 + usize::from(percent.abs() < 0.1)
    };
    format!("{}%", with_decimals(percent, places))
}

/// Digits after the point that a fraction of this size deserves.
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

fn with_decimals(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    // No minus in front of a rounded nothing.
    if text.trim_matches(|c| "-0.".contains(c)).is_empty() {
        text.replace('-', "")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use uc_experiment::Bound;

    use super::*;

    fn shown(ours: f64, spread: Option<f64>) -> String {
        let expect = Bound {
            low: None,
            high: Some(1.0),
        };
        let (name, paper, holds) = (String::new(), None, true);
        let (n, min, max) = (2, ours, ours);
        mean_and_spread(&Verdict {
            name,
            paper,
            ours,
            spread,
            expect,
            holds,
            n,
            min,
            max,
        })
    }

    #[test]
    fn a_mean_has_the_digits_that_its_error_needs() {
        assert_eq!(shown(0.31234, Some(0.0213)), "0.312 ± 0.021");
        assert_eq!(shown(0.20991, Some(0.00057)), "0.2099 ± 0.0006");
        assert_eq!(shown(1.0, Some(0.0)), "1 ± 0");
        assert_eq!(shown(0.0, None), "0");
        assert_eq!(shown(321.4, Some(12.0)), "321.4 ± 12.0");
    }

    #[test]
    fn percents_and_whole_numbers_are_short() {
        assert_eq!(percent(0.142), "14.2%");
        assert_eq!(percent(1.038), "103.8%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.0004), "0.04%");
        assert_eq!(number(40.0), "40");
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(0.9215), "0.921");
    }
}
