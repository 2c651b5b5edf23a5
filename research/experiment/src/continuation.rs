//! Further repetitions of the cases that undecided expectations need.

use std::collections::BTreeMap;

use crate::arm::Arm;
use crate::outcome::Outcome;
use crate::schema::Experiment;
use crate::verdict::Evaluation;

/// Number of repetitions that each case (by name) at each point of the sweep (by number) is to have; empty if no case
/// needs more.
pub type Continuation = BTreeMap<(u32, String), u32>;

/// Returns the repetitions that the undecided expectations need: twice as many as each was judged by, up to
/// [`Experiment::repeats_max`]. Doubling keeps the number of evaluations small: each is another chance that an interval
/// misses the true mean.
pub fn continuation(experiment: &Experiment, evaluation: &Evaluation, arm: Arm) -> Continuation {
    let most = experiment.repeats_max(arm);
    let mut found = Continuation::new();
    let undecided = evaluation.with(Outcome::Undecided);
    // More runs of a network that is late even alone would be as late.
    for verdict in undecided.filter(|verdict| verdict.late.is_none()) {
        let had = u32::try_from(verdict.n).unwrap_or(u32::MAX);
        if had >= most {
            continue;
        }
        let runs = had.saturating_mul(2).min(most);
        for place in &verdict.places {
            let known = found.entry(place.clone()).or_insert(runs);
            *known = runs.max(*known);
        }
    }
    found
}
