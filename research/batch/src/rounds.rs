//! Rounds of repetitions: those of the file, then those that undecided expectations need.

use std::collections::{BTreeMap, BTreeSet};

use uc_experiment::{Arm, Evaluation, Experiment, continuation};

/// The number of repetitions that each point and case is to have.
#[derive(Clone, Debug)]
pub struct Rounds {
    wanted: BTreeMap<(u32, String), u32>,
}

impl Rounds {
    /// Creates the first round: each of these points and cases, `repeat` times.
    pub fn first(places: impl IntoIterator<Item = (u32, String)>, repeat: u32) -> Self {
        let wanted = places.into_iter().map(|place| (place, repeat));
        Self {
            wanted: wanted.collect(),
        }
    }

    /// Returns the number of repetitions that a case is to have at a point.
    pub fn wanted(&self, point: u32, case: &str) -> u32 {
        let place = (point, case.to_owned());
        self.wanted.get(&place).copied().unwrap_or(0)
    }

    /// Returns the repetitions of a case at a point that `had` lacks.
    pub fn lacks(&self, point: u32, case: &str, had: &BTreeSet<u32>) -> Vec<u32> {
        let wanted = 0..self.wanted(point, case);
        wanted.filter(|run| !had.contains(run)).collect()
    }

    /// Returns whether each point and case has the repetitions that it is to have; `had` returns those that it has.
    pub fn are_made(&self, had: impl Fn(u32, &str) -> BTreeSet<u32>) -> bool {
        let mut places = self.wanted.keys();
        places.all(|(point, case)| self.lacks(*point, case, &had(*point, case)).is_empty())
    }

    /// Adds the round that the undecided expectations need. Returns false if they need none.
    pub fn go_on(&mut self, experiment: &Experiment, judged: &Evaluation, arm: Arm) -> bool {
        let more = continuation(experiment, judged, arm);
        let is_more = !more.is_empty();
        for (place, runs) in more {
            let wanted = self.wanted.entry(place).or_insert(runs);
            *wanted = runs.max(*wanted);
        }
        is_more
    }
}
