//! Checks of measures: the cases and groups that they name, and what these have.

use super::fault::{Check, ensure, fault};
use crate::Law;
use crate::application::Application;
use crate::case::{Case, Guests};
use crate::measure::{Alpha, Measure};
use crate::record::ACK_GAP_BIN;
use crate::schema::Experiment;
use crate::units::Nanos;
use crate::wording::suggest;

pub(super) fn check_measure(key: &str, measure: &Measure, experiment: &Experiment) -> Check {
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
    check_gaps(key, measure)?;
    check_during(key, measure, experiment)?;
    check_sizes(key, measure)?;
    for (field, group) in measure.groups() {
        let key = format!("{key}.{field}");
        let Some(guests) = case.group(group) else {
            let known: Vec<&str> = case
                .guests
                .iter()
                .map(|guests| guests.name.as_str())
                .collect();
            let suggestion = suggest(group, &known);
            return fault(
                key,
                format!("no group `{group}` in case `{name}`; {suggestion}"),
            );
        };
        check_group(&key, measure, guests)?;
        // A sweep may give elsewhere what this group lacks at this point.
        if experiment.sweeps.is_empty() {
            check_estimate(&key, measure, guests, experiment)?;
        }
    }
    check_named_once(key, measure, case)
}

/// Checks that a measure of transfers is not of a group of bulk flows, which never complete.
fn check_group(key: &str, measure: &Measure, guests: &Guests) -> Check {
    let transfers = matches!(measure, Measure::Fct { .. } | Measure::Unfinished { .. });
    let bulk = guests.application == Application::Bulk;
    ensure(!(transfers && bulk), key, || {
        let group = &guests.name;
        format!("group `{group}` is bulk, which never completes; give it another application")
    })
}

/// Checks that the group has a law if its shadow is measured, and a DCTCP if an α is measured.
fn check_estimate(key: &str, measure: &Measure, guests: &Guests, experiment: &Experiment) -> Check {
    let group = &guests.name;
    let which: &[Alpha] = match measure {
        Measure::WindowError { .. } => {
            let has_shadow = guests.law.is_some_and(|law| law != Law::PASS);
            return ensure(has_shadow, key, || {
                format!(
                    "group `{group}` has no shadow; give it a law, with parameters = {{ observe = \
                     true }} to leave it its own"
                )
            });
        }
        Measure::Alpha { which, .. } => &[*which],
        Measure::AlphaError { against, .. } => &[Alpha::Shadow, *against],
        _ => return Ok(()),
    };
    for alpha in which {
        match alpha {
            Alpha::Shadow | Alpha::Exact => ensure(guests.law == Some(Law::DCTCP), key, || {
                format!("group `{group}` has no port with an α; give it law = \"dctcp\"")
            })?,
            Alpha::Guest => {
                let stack = experiment.stacks.get(&guests.stack);
                let native = stack.is_some_and(|stack| stack.congestion_control == "dctcp");
                ensure(native, key, || {
                    format!("the guests of `{group}` have no α; give them a stack with dctcp")
                })?;
            }
        }
    }
    Ok(())
}

/// Checks that `alpha_error` does not compare the shadow with itself, and that `jain` names no group twice.
fn check_named_once(key: &str, measure: &Measure, case: &Case) -> Check {
    match measure {
        Measure::AlphaError {
            against: Alpha::Shadow,
            ..
        } => fault(
            format!("{key}.against"),
            "is the shadow itself; give exact or guest",
        ),
        Measure::Jain { of, .. } => {
            let again = |(i, group): &(usize, &String)| of[..*i].contains(group);
            let twice = of.iter().enumerate().find(again);
            twice.map_or(Ok(()), |(_, group)| {
                let name = &case.name;
                let message =
                    format!("names group `{group}` of case `{name}` twice; once is enough");
                fault(format!("{key}.of"), message)
            })
        }
        _ => Ok(()),
    }
}

/// Checks that a measure's part of the run lies within the run and has at least two samples.
fn check_during(key: &str, measure: &Measure, experiment: &Experiment) -> Check {
    let Some([from, to]) = measure.during() else {
        return Ok(());
    };
    let key = format!("{key}.during");
    let (duration, sample) = (experiment.duration, experiment.sample);
    ensure(from < to, &key, || {
        format!("{from} is not before {to}; write [from, to]")
    })?;
    ensure(to <= duration, &key, || {
        format!("{to} is after the end of the run, {duration}; end sooner")
    })?;
    ensure(sample.0 <= (to.0 - from.0) / 2, &key, || {
        let part = Nanos(to.0 - from.0);
        format!("{part} have fewer than two samples, one each {sample}; take longer")
    })
}

fn check_sizes(key: &str, measure: &Measure) -> Check {
    let (Measure::Fct { sizes, .. } | Measure::Unfinished { sizes, .. }) = measure else {
        return Ok(());
    };
    sizes.map_or(Ok(()), |[from, to]| {
        ensure(from < to, &format!("{key}.sizes"), || {
            format!("{from} is not below {to}; write [from, to]")
        })
    })
}

/// Checks that the limits of ACK gaps are multiples of a bin's width.
fn check_gaps(key: &str, measure: &Measure) -> Check {
    let Measure::AckGaps { from, to, .. } = measure else {
        return Ok(());
    };
    for (field, value) in [("from", *from), ("to", to.unwrap_or_default())] {
        ensure(
            value.0.is_multiple_of(ACK_GAP_BIN.0),
            &format!("{key}.{field}"),
            || format!("{value} is inside a bin; give a multiple of {ACK_GAP_BIN}"),
        )?;
    }
    ensure(to.is_none_or(|to| to > *from), &format!("{key}.to"), || {
        format!("is not above from, {from}")
    })
}
