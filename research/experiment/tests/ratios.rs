//! Ratios over repetitions: ratios of means, their intervals, and what differences and means of several are made of.

use uc_experiment::{Bound, Estimate, Measure, Outcome, ratio};
use uc_net::random::Stream;

fn goodput(case: &str) -> Measure {
    Measure::Goodput {
        case: case.into(),
        of: "g".into(),
        during: None,
    }
}

fn over(of: Measure, to: Measure) -> Measure {
    Measure::Ratio {
        of: Box::new(of),
        to: Box::new(to),
    }
}

/// Returns the values of cases `a` and `b`; of any other, that it is unknown.
fn sides<'a>(a: &'a [f64], b: &'a [f64]) -> impl Fn(&Measure) -> Result<Vec<f64>, String> + 'a {
    move |measure| match measure.case() {
        Some("a") => Ok(a.to_vec()),
        Some("b") => Ok(b.to_vec()),
        other => Err(format!("{other:?}")),
    }
}

fn zero(to: &Measure) -> String {
    format!("{:?} is 0", to.case())
}

fn estimate(measure: &Measure, a: &[f64], b: &[f64]) -> Result<Estimate, String> {
    ratio::estimate(measure, &sides(a, b), &zero)
}

#[test]
fn a_ratio_is_that_of_the_means_and_no_mean_of_ratios() {
    let ratio = over(goodput("a"), goodput("b"));
    // One run in four without a timeout: the mean of the four ratios is 25.75.
    let (a, b) = ([100.0; 4], [1.0, 100.0, 100.0, 100.0]);
    let found = estimate(&ratio, &a, &b).expect("is a number");
    assert!((found.mean - 400.0 / 301.0).abs() < 1e-12, "{found:?}");
    assert_eq!([found.min, found.max], [1.0, 100.0]);
    // The denominator is 0 within its own interval: nothing bounds the ratio, and no bar is decided.
    assert_eq!(found.interval, None);
    let bar = Bound {
        low: Some(1.0),
        high: None,
    };
    assert_eq!(bar.judge(&found, false), Outcome::Undecided);
}

#[test]
fn equal_ratios_are_exact_and_a_denominator_may_be_0_in_one_run_but_not_in_all() {
    let ratio = over(goodput("a"), goodput("b"));
    let equal = estimate(&ratio, &[0.3, 0.6, 0.9], &[1.0, 2.0, 3.0]).expect("is a number");
    assert_eq!(equal.interval, Some([0.3; 2]));
    let some = estimate(&ratio, &[3.0, 5.0], &[0.0, 4.0]).expect("is a number");
    assert_eq!((some.mean, some.min, some.max), (2.0, 1.25, 1.25));
    let none = estimate(&ratio, &[3.0, 5.0], &[0.0, 0.0]);
    assert_eq!(none, Err("Some(\"b\") is 0".to_owned()));
    let unknown = estimate(&over(goodput("c"), goodput("b")), &[], &[1.0]);
    assert_eq!(unknown, Err("Some(\"c\")".to_owned()));
}

#[test]
fn fiellers_interval_has_the_ratio_in_95_of_100_samples() {
    let seed = 7;
    let mut random = Stream::new(seed, "ratios");
    let mut normal = || -> f64 {
        let uniform = |_| f64::from(random.bits32()) / 2f64.powi(32);
        (0..12).map(uniform).sum::<f64>() - 6.0
    };
    let (samples, mut inside) = (4_000, 0);
    for _ in 0..samples {
        // Paired: both have a part of the repetition in common. The ratio of the means is 2.
        let pair = |_| {
            let both = normal();
            (2.0 + 0.4 * both + 0.3 * normal(), 1.0 + 0.3 * both)
        };
        let (a, b): (Vec<f64>, Vec<f64>) = (0..6).map(pair).unzip();
        let found = Estimate::of_ratio(&a, &b).expect("is a number");
        // Without an interval everything is possible.
        let within = |[low, high]: [f64; 2]| (low..=high).contains(&2.0);
        inside += usize::from(found.interval.is_none_or(within));
    }
    // Standard deviation of the count: 14.
    assert!(
        (3_730..=3_870).contains(&inside),
        "seed {seed}: {inside} of {samples}"
    );
}

#[test]
fn linear_values_have_the_ratios_mean_and_the_error_of_the_delta_method() {
    let (a, b) = ([2.1, 1.8, 2.3, 2.0], [1.1, 0.9, 1.0, 1.2]);
    let ratio = over(goodput("a"), goodput("b"));
    let values = ratio::linear(&ratio, &sides(&a, &b), &zero).expect("are numbers");
    let (found, linear) = (
        estimate(&ratio, &a, &b).expect("is a number"),
        Estimate::of(&values),
    );
    assert!((linear.mean - found.mean).abs() < 1e-12);
    assert!((linear.mean - 8.2 / 4.2).abs() < 1e-12);
    // √(Σ (a − R·b)² / (n − 1) / n) / mean(b)
    let squares = a.iter().zip(&b).map(|(a, b)| (a - found.mean * b).powi(2));
    let error = (squares.sum::<f64>() / 12.0).sqrt() / 1.05;
    assert!((found.standard_error.expect("has one") - error).abs() < 1e-12);
    // A ratio of ratios: the part that both have in common cancels.
    let one = estimate(&over(ratio.clone(), ratio), &a, &b).expect("is a number");
    assert_eq!((one.mean, one.interval), (1.0, Some([1.0; 2])));
}
