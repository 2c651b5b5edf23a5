//! Expectations that can be judged: their bounds, and the cases and groups that they name.

use super::{Check, ensure, fault};
use crate::expect::Expectation;
use crate::measure::Measure;
use crate::place::suggest;
use crate::schema::Experiment;

pub(super) fn check_expect(key: &str, expect: &Expectation, experiment: &Experiment) -> Check {
    check_measure(&format!("{key}.measure"), &expect.measure, experiment)?;
    let numbers = [expect.at_most, expect.at_least, expect.paper];
    let within = expect.within.unwrap_or_default();
    let finite = numbers
        .into_iter()
        .flatten()
        .chain(within)
        .all(f64::is_finite);
    ensure(finite, key, || {
        "bounds and the paper's number must be finite".into()
    })?;
    match (expect.within, expect.at_most, expect.at_least) {
        (None, None, None) => fault(
            key,
            "expects nothing; add within = [low, high], at_most or at_least",
        ),
        (Some([low, high]), None, None) => ensure(low <= high, &format!("{key}.within"), || {
            format!("{low} is above {high}; write [low, high]")
        }),
        (Some(_), ..) => fault(
            format!("{key}.within"),
            "stands beside at_most or at_least; keep one of them",
        ),
        (None, Some(high), Some(low)) => ensure(low <= high, &format!("{key}.at_least"), || {
            format!("{low} is above at_most {high}")
        }),
        _ => Ok(()),
    }
}

fn check_measure(key: &str, measure: &Measure, experiment: &Experiment) -> Check {
    if let Measure::Ratio { of, to } = measure {
        check_measure(&format!("{key}.of"), of, experiment)?;
        return check_measure(&format!("{key}.to"), to, experiment);
    }
    let Some(name) = measure.case() else {
        return Ok(());
    };
    let Some(case) = experiment.case(name) else {
        let known: Vec<&str> = experiment
            .cases
            .iter()
            .map(|case| case.name.as_str())
            .collect();
        return fault(
            format!("{key}.case"),
            format!("no case `{name}`; {}", suggest(name, &known)),
        );
    };
    for (field, group) in measure.groups() {
        ensure(
            case.group(group).is_some(),
            &format!("{key}.{field}"),
            || {
                let known: Vec<&str> = case
                    .guests
                    .iter()
                    .map(|guests| guests.name.as_str())
                    .collect();
                format!(
                    "no group `{group}` in case `{name}`; {}",
                    suggest(group, &known)
                )
            },
        )?;
    }
    Ok(())
}
