//! Histograms compared with the sorted numbers.

use proptest::prelude::*;
use uc_experiment::{Histogram, Statistic};

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

/// Generates numbers of all sizes that are kept apart.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let value = (0u32..40, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits));
    prop::collection::vec(value, 1..200)
}

#[test]
fn small_numbers_have_a_bin_each() {
    let histogram = of(&(0..128).collect::<Vec<u64>>());
    let bins: Vec<(u64, u64)> = histogram.cumulative().collect();
    let each: Vec<(u64, u64)> = (0..128).map(|value| (value, value + 1)).collect();
    assert_eq!(bins, each);
}

#[test]
fn every_bin_ends_where_the_next_one_begins() {
    let mut edges = vec![0u64];
    for bits in 7..40 {
        let step = 1u64 << (bits - 7);
        edges.extend((0..128).map(|part| (1 << bits) + part * step));
    }
    // An edge and the number below it are in different bins; two numbers between edges are not.
    for pair in edges[1..].windows(2) {
        let inside = of(&[pair[0], pair[1] - 1]);
        assert_eq!(inside.cumulative().count(), 1, "{pair:?}");
        let across = of(&[pair[0] - 1, pair[0]]);
        assert_eq!(across.cumulative().count(), 2, "{pair:?}");
    }
}

#[test]
fn numbers_beyond_all_bins_are_counted_and_their_maximum_is_exact() {
    let histogram = of(&[1, u64::MAX, 1 << 50]);
    assert_eq!(histogram.count(), 3);
    assert_eq!(histogram.statistic(Statistic::Max), Some(u64::MAX as f64));
    assert_eq!(histogram.statistic(Statistic::P50), Some(u64::MAX as f64));
    let none = Histogram::default();
    assert_eq!(none.statistic(Statistic::Mean), None);
    assert_eq!(none.statistic(Statistic::Max), None);
}

proptest! {
    #[test]
    fn statistics_equal_those_of_the_numbers_within_a_bin(values in values()) {
        let histogram = of(&values);
        let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        for statistic in [Statistic::P50, Statistic::P99, Statistic::P999] {
            let exact = statistic.of(&floats).expect("some");
            let found = histogram.statistic(statistic).expect("some");
            prop_assert!(found >= exact && found <= exact * (1.0 + 1.0 / 128.0),
                "{statistic:?}: {found} for {exact}");
        }
        prop_assert_eq!(histogram.statistic(Statistic::Max), Statistic::Max.of(&floats));
        let mean = Statistic::Mean.of(&floats).expect("some");
        let found = histogram.statistic(Statistic::Mean).expect("some");
        prop_assert!((found - mean).abs() <= mean * 1e-12, "{found} for {mean}");
    }

    #[test]
    fn parts_merge_into_the_whole_in_any_order(values in values(), cut in any::<prop::sample::Index>()) {
        let (left, right) = values.split_at(cut.index(values.len()));
        let whole = of(&values).trimmed();
        for (first, second) in [(left, right), (right, left)] {
            let mut merged = of(first);
            merged.merge(&of(second));
            prop_assert_eq!(&merged.trimmed(), &whole);
        }
    }

    #[test]
    fn a_preallocated_histogram_counts_the_same_and_is_trimmed_to_its_values(values in values()) {
        let mut roomy = Histogram::roomy();
        values.iter().for_each(|value| roomy.record(*value));
        prop_assert_eq!(roomy.trimmed(), of(&values).trimmed());
        prop_assert_eq!(roomy.count(), values.len() as u64);
        let text = toml::to_string(&roomy.trimmed()).expect("can be written");
        prop_assert_eq!(toml::from_str::<Histogram>(&text).expect("can be read"), roomy.trimmed());
    }
}
