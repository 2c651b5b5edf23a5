//! `--point ecn=9`: selects some points of a sweep.

use anyhow::{Result, bail};
use uc_experiment::{Expectation, Experiment, Labels, Sweep};

/// Keeps, for every named axis, only the settings with the named labels, and only the expectations that need no other
/// settings.
///
/// # Errors
/// An unknown axis or label; the experiment is then unchanged.
pub fn keep_points(experiment: &mut Experiment, choices: &[String]) -> Result<()> {
    let mut kept: Vec<Vec<String>> = vec![Vec::new(); experiment.sweeps.len()];
    for choice in choices {
        let (axis, label) = find(experiment, choice)?;
        kept[axis].push(label);
    }
    for (axis, labels) in kept
        .iter()
        .enumerate()
        .filter(|(_, labels)| !labels.is_empty())
    {
        let sweep = &mut experiment.sweeps[axis];
        let gone: Vec<String> = sweep.all_labels();
        let gone: Vec<&String> = gone.iter().filter(|it| !labels.contains(it)).collect();
        keep_settings(sweep, labels);
        let expects = &mut experiment.expects;
        expects.retain(|expect| !is_mean_over(expect, &sweep.name, &gone));
    }
    let sweeps = &experiment.sweeps;
    experiment
        .expects
        .retain_mut(|expect| has_points(expect, sweeps));
    Ok(())
}

/// Finds the axis and returns its number and the label.
fn find(experiment: &Experiment, choice: &str) -> Result<(usize, String)> {
    let sweeps = &experiment.sweeps;
    if sweeps.is_empty() {
        bail!(
            "--point {choice}: {} has no [[sweep]]; remove the option",
            experiment.name
        );
    }
    let axes: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
    let Some((axis, label)) = choice.split_once('=') else {
        bail!(
            "--point {choice}: write AXIS=LABEL; the axes are {}",
            axes.join(", ")
        );
    };
    let Some(number) = axes.iter().position(|name| *name == axis) else {
        bail!(
            "--point {choice}: no axis `{axis}`; the axes are {}",
            axes.join(", ")
        );
    };
    let labels = sweeps[number].all_labels();
    if !labels.iter().any(|known| known == label) {
        bail!(
            "--point {choice}: no `{label}` on the axis {axis}; it has {}",
            labels.join(", ")
        );
    }
    Ok((number, label.to_owned()))
}

fn keep_settings(sweep: &mut Sweep, labels: &[String]) {
    let all = sweep.all_labels();
    let settings: Vec<usize> = (0..all.len())
        .filter(|n| labels.contains(&all[*n]))
        .collect();
    for values in sweep.set.values_mut() {
        *values = settings
            .iter()
            .filter_map(|n| values.get(*n).cloned())
            .collect();
    }
    sweep.labels = Some(settings.into_iter().map(|n| all[n].clone()).collect());
}

/// Returns `true` if the expectation's mean over `axis` needs one of the labels `gone`.
fn is_mean_over(expect: &Expectation, axis: &str, gone: &[&String]) -> bool {
    let wanted = expect.at.get(axis).map(Labels::list);
    let is_wanted = |label: &String| wanted.is_none_or(|wanted| wanted.contains(label));
    expect.over.as_deref() == Some(axis) && gone.iter().any(|label| is_wanted(label))
}

/// Removes the labels without settings from the expectation. Returns `true` if it still has a
/// point, and a trend two of them.
fn has_points(expect: &mut Expectation, sweeps: &[Sweep]) -> bool {
    let axis = |name: &str| sweeps.iter().find(|sweep| sweep.name == name);
    for (name, labels) in &mut expect.at {
        let Some(sweep) = axis(name) else {
            continue;
        };
        let known = sweep.all_labels();
        let there = labels.list().iter().filter(|label| known.contains(label));
        let there: Vec<String> = there.cloned().collect();
        if there.is_empty() {
            return false;
        }
        *labels = Labels::Any(there);
    }
    let along = expect.along.as_deref().and_then(axis);
    along.is_none_or(|sweep| sweep.settings() >= 2)
}
