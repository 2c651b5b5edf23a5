//! Statistics compared with their definitions and with printed tables.

use proptest::prelude::*;
use uc_experiment::{Estimate, Histogram, Statistic};

/// Returns the smallest value that a fraction of all do not exceed, by counting.
fn counted(values: &[f64], permille: usize) -> f64 {
    let enough = |limit: f64| {
        let below = values.iter().filter(|value| **value <= limit).count();
        below * 1000 >= values.len() * permille
    };
    let fitting = values.iter().copied().filter(|value| enough(*value));
    fitting.fold(f64::INFINITY, f64::min)
}

proptest! {
    #[test]
    fn a_percentile_is_the_least_value_that_enough_do_not_exceed(
        values in prop::collection::vec(-1e6f64..1e6, 1..2500),
    ) {
        for (statistic, permille) in [
            (Statistic::P50, 500),
            (Statistic::P99, 990),
            (Statistic::P999, 999),
            (Statistic::Max, 1000),
        ] {
            prop_assert_eq!(statistic.of(&values), Some(counted(&values, permille)));
        }
    }

    #[test]
    fn a_deviation_is_the_root_mean_square_distance_from_the_mean(
        middle in 10_000u64..1_000_000,
        away in 1u64..10_000,
        pairs in 1usize..50,
    ) {
        let (low, high) = (middle - away, middle + away);
        let values: Vec<f64> = (0..2 * pairs).map(|i| [low, high][i % 2] as f64).collect();
        let found = Statistic::Deviation.of(&values).expect("values");
        prop_assert!((found - away as f64).abs() < 1e-6 * middle as f64, "{found}, not {away}");
        let mut histogram = Histogram::roomy();
        for _ in 0..pairs {
            histogram.record(low);
            histogram.record(high);
        }
        // The width of a bin is at most a 128th of its numbers.
        let found = histogram.statistic(Statistic::Deviation).expect("values");
        let bin = high as f64 / 128.0 + 1.0;
        prop_assert!((found - away as f64).abs() <= bin, "{found}, not {away}");
    }

    #[test]
    fn an_interval_is_around_the_mean_and_shrinks_to_it_without_spread(
        value in -1e3f64..1e3,
        spread in 0.001f64..10.0,
        n in 2usize..40,
    ) {
        let values: Vec<f64> = (0..n).map(|i| value + spread * (i % 2) as f64).collect();
        let found = Estimate::of(&values);
        let [low, high] = found.interval.expect("two or more");
        prop_assert!(low < found.mean && found.mean < high);
        prop_assert!(found.min <= found.mean && found.mean <= found.max);
        let same = Estimate::of(&vec![2.0; n]);
        prop_assert_eq!(same.interval, Some([2.0, 2.0]));
        prop_assert_eq!(Estimate::of(&[value]).interval, None);
    }
}

#[test]
fn an_empty_set_has_no_statistic() {
    for statistic in [
        Statistic::Mean,
        Statistic::P50,
        Statistic::P99,
        Statistic::Max,
    ] {
        assert_eq!(statistic.of(&[]), None);
    }
    assert_eq!(Statistic::Mean.of(&[1.0, 2.0, 6.0]), Some(3.0));
}

#[test]
fn intervals_equal_those_of_students_table() {
    // Two-sided 95 %: t of 1, 2, 4, 9 and 19 degrees of freedom.
    for (n, t) in [
        (2, 12.706),
        (3, 4.303),
        (5, 2.776),
        (10, 2.262),
        (20, 2.093),
    ] {
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        let found = Estimate::of(&values);
        let [low, high] = found.interval.expect("two or more");
        let error = found.standard_error.expect("two or more");
        assert!(((high - low) / 2.0 / error - t).abs() < 1e-3, "n = {n}");
    }
}

#[test]
fn one_value_and_values_that_are_no_numbers_have_no_interval() {
    for values in [&[1.0][..], &[], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
        assert_eq!(Estimate::of(values).interval, None, "{values:?}");
    }
}

#[test]
fn equal_values_have_an_interval_of_exactly_that_value() {
    // The sum of three times 0.1 is above 0.3.
    let found = Estimate::of(&[0.1; 3]);
    assert_eq!(found.interval, Some([0.1, 0.1]));
}
