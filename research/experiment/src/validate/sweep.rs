//! Checks of the axes of a sweep.

use std::collections::BTreeSet;

use toml::Value;
use uc_words::place::parts;

use super::fault::{Check, check_name, ensure, fault};
use crate::place::Changed;
use crate::schema::Experiment;
use crate::sweep::Sweep;

/// Keys that no axis may set, as they are the same at every point.
const FIXED: [&str; 9] = [
    "name",
    "title",
    "source",
    "arms",
    "repeat",
    "repeat_sim",
    "repeat_max",
    "sweep",
    "expect",
];

pub(super) fn check_sweeps(experiment: &Experiment) -> Check {
    let mut names = BTreeSet::new();
    for (i, sweep) in experiment.sweeps.iter().enumerate() {
        let key = format!("sweep.{i}");
        check_name(&format!("{key}.name"), &sweep.name)?;
        ensure(names.insert(&sweep.name), &format!("{key}.name"), || {
            let name = &sweep.name;
            format!("a second axis `{name}`; give every axis a name of its own")
        })?;
        check_lists(&key, sweep)?;
        check_labels(&key, sweep)?;
        check_keys(&key, sweep, &experiment.sweeps[..i])?;
    }
    check_overrides(experiment)
}

/// Checks that every key has one value for every setting.
fn check_lists(key: &str, sweep: &Sweep) -> Check {
    let Some((first, values)) = sweep.set.iter().next() else {
        return fault(
            format!("{key}.set"),
            "sets nothing; add for example { \"network.rate\" = [\"10Mbit\", \"100Mbit\"] }",
        );
    };
    let count = values.len();
    for (name, values) in &sweep.set {
        let key = format!("{key}.set.\"{name}\"");
        ensure(!values.is_empty(), &key, || {
            "is an empty list; give a value for every setting".into()
        })?;
        ensure(values.len() == count, &key, || {
            let values = values.len();
            format!("{values} values beside {count} of `{first}`; give one for every setting")
        })?;
    }
    Ok(())
}

fn check_labels(key: &str, sweep: &Sweep) -> Check {
    let key = format!("{key}.labels");
    let count = sweep.settings();
    if let Some(labels) = &sweep.labels {
        return ensure(labels.len() == count, &key, || {
            format!(
                "{} labels for {count} settings; give one each",
                labels.len()
            )
        })
        .and_then(|()| check_distinct(&key, sweep));
    }
    let simple = |value: &Value| !value.is_table() && !value.is_array();
    let first = sweep.set.values().next();
    ensure(
        first.is_none_or(|list| list.iter().all(simple)),
        &key,
        || "missing, and tables make no labels; add one for every setting".into(),
    )?;
    check_distinct(&key, sweep)
}

fn check_distinct(key: &str, sweep: &Sweep) -> Check {
    let mut seen = BTreeSet::new();
    for label in sweep.all_labels() {
        ensure(!seen.contains(&label), key, || {
            format!("two settings are labelled `{label}`; give every setting a label of its own")
        })?;
        seen.insert(label);
    }
    Ok(())
}

/// Checks that keys may differ between points, and are each set by one axis only.
fn check_keys(key: &str, sweep: &Sweep, others: &[Sweep]) -> Check {
    for name in sweep.set.keys() {
        let key = format!("{key}.set.\"{name}\"");
        let fixed = FIXED.iter().find(|fixed| parts(name)[0] == **fixed);
        if let Some(fixed) = fixed {
            return fault(
                key,
                format!("`{fixed}` is the same at every point; leave it out"),
            );
        }
        let covers = |a: &str, b: &str| a == b || b.starts_with(&format!("{a}."));
        let own = sweep.set.keys().filter(|other| *other != name);
        let theirs = others.iter().flat_map(|other| other.set.keys());
        let twice = own
            .chain(theirs)
            .find(|other| covers(other, name) || covers(name, other));
        if let Some(other) = twice {
            return fault(key, format!("is set by `{other}` too; keep one of them"));
        }
    }
    Ok(())
}

/// Checks that no override sets a key that an axis sets again.
fn check_overrides(experiment: &Experiment) -> Check {
    // What can't be applied is reported at its place later.
    let Ok(point) = experiment.point(0) else {
        return Ok(());
    };
    let changed = &point.experiment.origin.changed;
    let set = changed
        .iter()
        .filter(|(_, by)| matches!(by, Changed::Set(_)));
    let swept = changed
        .iter()
        .filter(|(_, by)| matches!(by, Changed::Sweep(_)));
    let swept: Vec<&str> = swept.map(|(path, _)| path.as_str()).collect();
    for (path, _) in set {
        ensure(!swept.contains(&path.as_str()), path, || {
            "an axis of the sweep sets it at every point; change the axis, \
             sweep.NAME.set.\"KEY\"=[…]"
                .into()
        })?;
    }
    Ok(())
}
