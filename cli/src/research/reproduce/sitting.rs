//! Makes the runs that an experiment's expectations lack, and keeps their values only.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use uc_experiment::{Evaluation, Values, continuation, judge};

use crate::research::batch::Batch;
use crate::research::records::Kept;

/// Makes the runs that `known` lacks: the file's repetitions of each point and case that an expectation
/// needs, then those that undecided expectations need, as `uc run` does. `save` gets the values of all
/// new runs after each of them. Returns the new values, and the evaluation of all; none if the batch's
/// time was up before.
///
/// # Errors
/// A run or `save` failed; what was saved stays valid.
pub(super) fn complete(
    kept: &Kept,
    batch: &Batch,
    known: Values,
    save: impl Fn(&Values) -> Result<()> + Sync,
) -> Result<(Values, Option<Evaluation>)> {
    let (experiment, points, arm) = (&kept.experiment, &kept.points, batch.arm);
    let mut all = Values::of(experiment, points, &[], arm);
    all.add(known);
    let mut wanted: BTreeMap<(u32, String), u32> = BTreeMap::new();
    for place in all.places() {
        wanted.insert(place, batch.repeat);
    }
    let all = Mutex::new(all);
    let new = Mutex::new(Values::of(experiment, points, &[], arm));
    let lock = |values: &Mutex<Values>| -> Values {
        values
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    loop {
        let had = lock(&all);
        let lacks = |point: u32, case: &str| -> Vec<u32> {
            let runs = had.runs_of(point, case);
            let wanted = wanted.get(&(point, case.to_owned())).copied().unwrap_or(0);
            (0..wanted).filter(|run| !runs.contains(run)).collect()
        };
        batch.run_each(points, lacks, |record| {
            let values = Values::of(experiment, points, &[record], arm);
            all.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(values.clone());
            let mut new = new.lock().unwrap_or_else(PoisonError::into_inner);
            new.add(values);
            save(&new)
        })?;
        let had = lock(&all);
        let made = |((point, case), runs): (&(u32, String), &u32)| {
            had.runs_of(*point, case).len() >= *runs as usize
        };
        if !wanted.iter().all(made) {
            return Ok((lock(&new), None));
        }
        let evaluation = judge(experiment, points, &had, arm)?;
        let more = continuation(experiment, &evaluation, arm);
        if more.is_empty() {
            return Ok((lock(&new), Some(evaluation)));
        }
        wanted.extend(more);
    }
}
