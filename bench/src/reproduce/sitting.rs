//! Makes the runs that an experiment's expectations lack, and stores only their values.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use uc_batch::{Rounds, tasks};
use uc_experiment::{Evaluation, Values, judge, why_late};

use crate::batch::Batch;
use crate::records::Kept;

/// Makes the runs that `known` lacks: the file's repetitions of each point and case that an expectation needs, then the
/// further ones of undecided expectations, as `uc-bench run` does. After each run, `save` gets the values of all new
/// runs. Returns the new values, and the evaluation of known and new values; `None` if the batch's time was up before
/// all runs were made.
///
/// # Errors
/// A run or `save` failed, or a run was too late to count, even alone; what was saved stays valid.
pub(super) fn complete(
    kept: &Kept,
    batch: &Batch,
    known: Values,
    save: impl Fn(&Values) -> Result<()> + Sync,
) -> Result<(Values, Option<Evaluation>)> {
    let (experiment, points, arm) = (&kept.experiment, &kept.points, batch.arm);
    let mut all = Values::of(experiment, points, &[], arm);
    all.add(known);
    let mut rounds = Rounds::first(all.places(), batch.repeat);
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
        let lacks = |point: u32, case: &str| rounds.lacks(point, case, &had.runs_of(point, case));
        let late = Mutex::new(None);
        batch.run_each(&tasks(points, batch.seed, lacks), |record| {
            if let Some(why) = why_late(points, &record) {
                let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
                late.get_or_insert(format!("case {}, run {}: {why}", record.case, record.run));
                return Ok(());
            }
            let values = Values::of(experiment, points, &[record], arm);
            all.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(values.clone());
            let mut new = new.lock().unwrap_or_else(PoisonError::into_inner);
            new.add(values);
            save(&new)
        })?;
        if let Some(why) = late.into_inner().unwrap_or_else(PoisonError::into_inner) {
            bail!(
                "{why}, even in a run without others at the same time; make the missing runs on a quieter or \
                 faster machine"
            );
        }
        let had = lock(&all);
        if !rounds.are_made(|point, case| had.runs_of(point, case)) {
            return Ok((lock(&new), None));
        }
        let evaluation = judge(experiment, points, &had, arm)?;
        if !rounds.go_on(experiment, &evaluation, arm) {
            return Ok((lock(&new), Some(evaluation)));
        }
    }
}
