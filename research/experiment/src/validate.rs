//! Checks of an experiment: numbers in range, names that exist.

mod application;
mod arms;
mod case;
mod coupling;
mod dupack;
mod expect;
mod fault;
mod hold;
mod hypervisor;
mod list;
mod measure;
mod network;
mod parameters;
mod pattern;
mod stack;
mod start_law;
mod sweep;

use std::collections::BTreeSet;

use crate::arm::Arm;
use crate::error::Error;
use crate::schema::Experiment;
use arms::check_arms;
use case::check_case;
use expect::check_expect;
use fault::{Check, Fault, check_name, ensure};
use network::check_network;
use stack::check_stack;
use sweep::check_sweeps;

/// Maximum number of repetitions; further ones tell no more, and the records of all stay in memory.
const REPEAT_MAX: u32 = 100_000;

/// Maximum of `slower`: with it a second of the file takes a quarter of an hour.
const SLOWER_MAX: u32 = 1_000;

impl Experiment {
    /// Checks that the experiment can be run and judged.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first impossible number or unknown name, with file, line and column.
    pub fn validate(&self) -> Result<(), Error> {
        check(self).map_err(|fault| self.invalid(fault))?;
        for point in self.points()? {
            let check = check_set_up(&point.experiment);
            check.map_err(|fault| point.experiment.invalid(fault))?;
        }
        Ok(())
    }

    /// Converts a fault into an error with file, line and column.
    pub(crate) fn invalid(&self, (key, message): Fault) -> Error {
        let place = self.origin.place(&key);
        Error::Invalid {
            place,
            key,
            message,
        }
    }
}

fn check(experiment: &Experiment) -> Check {
    check_set_up(experiment)?;
    check_sweeps(experiment)?;
    for (i, expect) in experiment.expects.iter().enumerate() {
        check_expect(&format!("expect.{i}"), expect, experiment)?;
    }
    Ok(())
}

/// Checks everything but the sweep and the expectations: what must hold at every point.
fn check_set_up(experiment: &Experiment) -> Check {
    check_name("name", &experiment.name)?;
    check_times(experiment)?;
    check_network(&experiment.network)?;
    for (name, stack) in &experiment.stacks {
        check_stack(&format!("stack.{name}"), stack)?;
    }
    ensure(!experiment.cases.is_empty(), "case", || {
        "no case; add a [[case]]".into()
    })?;
    let mut names = BTreeSet::new();
    for (i, case) in experiment.cases.iter().enumerate() {
        let key = format!("case.{i}");
        check_name(&format!("{key}.name"), &case.name)?;
        ensure(names.insert(&case.name), &format!("{key}.name"), || {
            let name = &case.name;
            format!("a second case `{name}`; give every case a name of its own")
        })?;
        check_case(&key, case, experiment)?;
    }
    check_arms(experiment)
}

fn check_times(experiment: &Experiment) -> Check {
    let Experiment {
        duration,
        settle,
        tail,
        sample,
        ..
    } = experiment;
    ensure(duration.0 > 0, "duration", || {
        "is 0; give a run some time, for example 37s".into()
    })?;
    let dropped = settle.0.checked_add(tail.0);
    ensure(
        dropped.is_some_and(|dropped| dropped < duration.0),
        "duration",
        || {
            format!(
                "nothing is left to measure: settle {settle} and tail {tail} take all of {duration}"
            )
        },
    )?;
    ensure(sample.0 > 0, "sample", || {
        "is 0; give for example 100ms".into()
    })?;
    let measured = experiment.measured_ns();
    ensure(
        sample.0 <= (measured.end - measured.start) / 2,
        "sample",
        || format!("{sample} leaves fewer than two samples in the measured part; make it smaller"),
    )?;
    let runs = [
        ("repeat", experiment.repeat),
        ("repeat_sim", experiment.repeats(Arm::Sim)),
    ];
    for (key, runs) in runs {
        ensure(runs > 0, key, || "is 0; run it at least once".to_owned())?;
        ensure(runs <= REPEAT_MAX, key, || {
            format!("is {runs}; give at most {REPEAT_MAX}")
        })?;
    }
    let most = experiment.repeat_max.unwrap_or(experiment.repeat);
    ensure(most >= experiment.repeat, "repeat_max", || {
        let repeat = experiment.repeat;
        format!("is {most}, below repeat {repeat}; give {repeat} or more")
    })?;
    ensure(most <= REPEAT_MAX, "repeat_max", || {
        format!("is {most}; give at most {REPEAT_MAX}")
    })?;
    ensure(
        (1..=SLOWER_MAX).contains(&experiment.slower),
        "slower",
        || format!("is {}; give 1 to {SLOWER_MAX}", experiment.slower),
    )?;
    let late_max = experiment.late_max;
    ensure(late_max > 0.0 && late_max.is_finite(), "late_max", || {
        format!("is {late_max}; give a positive fraction of the round-trip time, for example 0.2")
    })
}
