//! Checks of expectations: their bounds, and the cases and groups that they name.

use super::fault::{Check, Fault, ensure, fault};
use super::measure::check_measure;
use crate::basis::Basis;
use crate::expect::Expectation;
use crate::schema::Experiment;
use crate::sweep::Sweep;
use crate::wording::suggest;

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
    if let Some(reason) = &expect.differs {
        let key = format!("{key}.differs");
        ensure(!reason.trim().is_empty(), &key, || {
            "is empty; say why the result differs from the paper".into()
        })?;
        ensure(expect.basis == Some(Basis::Paper), &key, || {
            "needs a bar that is the paper's; add basis = \"paper\"".into()
        })?;
    }
    check_where(key, expect, experiment)?;
    if let Some(over) = &expect.over {
        let key = format!("{key}.over");
        find_axis(&key, over, experiment)?;
        ensure(expect.along.is_none(), &key, || {
            "is given with along; use a separate [[expect]]".into()
        })?;
    }
    match &expect.along {
        Some(along) => check_trend(key, expect, along, experiment),
        None => check_bounds(key, expect),
    }
}

fn check_bounds(key: &str, expect: &Expectation) -> Check {
    for (field, set) in [("falls", expect.falls), ("rises", expect.rises)] {
        ensure(!set, &format!("{key}.{field}"), || {
            "has no axis; add along = \"AXIS\"".into()
        })?;
    }
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
            "is given with at_most or at_least; keep one of them",
        ),
        (None, Some(high), Some(low)) => ensure(low <= high, &format!("{key}.at_least"), || {
            format!("{low} is above at_most {high}")
        }),
        _ => Ok(()),
    }
}

/// Checks the backend and the points at which an expectation is judged.
fn check_where(key: &str, expect: &Expectation, experiment: &Experiment) -> Check {
    if let (Some(on), Some(arms)) = (expect.on, &experiment.arms) {
        ensure(arms.contains(&on), &format!("{key}.on"), || {
            format!("{on} is not among the file's arms, so it is never judged; add it there")
        })?;
    }
    for (axis, labels) in &expect.at {
        let key = format!("{key}.at.{axis}");
        let sweep = find_axis(&key, axis, experiment)?;
        let known = sweep.all_labels();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        ensure(!labels.list().is_empty(), &key, || {
            "names no label; leave it out for all of them".into()
        })?;
        let unknown = labels
            .list()
            .iter()
            .find(|label| !known.contains(&label.as_str()));
        if let Some(label) = unknown {
            let message = format!("no `{label}` on axis `{axis}`; {}", suggest(label, &known));
            return fault(key, message);
        }
    }
    Ok(())
}

fn find_axis<'a>(key: &str, axis: &str, experiment: &'a Experiment) -> Result<&'a Sweep, Fault> {
    let sweeps = &experiment.sweeps;
    let found = sweeps.iter().find(|sweep| sweep.name == axis);
    found.ok_or_else(|| {
        let known: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
        let mend = if known.is_empty() {
            "the file has no [[sweep]]".into()
        } else {
            suggest(axis, &known)
        };
        (key.into(), format!("no axis `{axis}`; {mend}"))
    })
}

/// Checks a trend: it has one direction, no bounds, and at least two points on its axis.
fn check_trend(key: &str, expect: &Expectation, along: &str, experiment: &Experiment) -> Check {
    let key_along = format!("{key}.along");
    let sweep = find_axis(&key_along, along, experiment)?;
    ensure(expect.falls != expect.rises, &key_along, || {
        let found = if expect.falls { "more than one" } else { "no" };
        format!("has {found} direction; say one of falls = true, rises = true")
    })?;
    let bounded = expect.within.is_some() || expect.at_most.is_some() || expect.at_least.is_some();
    ensure(!bounded, &key_along, || {
        "is given with bounds; use a separate [[expect]]".into()
    })?;
    let left = expect
        .at
        .get(along)
        .map_or(sweep.settings(), |labels| labels.list().len());
    ensure(left >= 2, &key_along, || {
        "has one point, and no direction; give the axis two settings or more".into()
    })
}
