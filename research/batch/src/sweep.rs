//! An experiment on its way from the first run to the verdicts, wherever its runs are made.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use uc_core::Core;
use uc_experiment::{Arm, Evaluation, Experiment, Outcome, Point, RunRecord, evaluate};

use crate::finished::Finished;
use crate::memory;
use crate::request::Request;
use crate::rounds::Rounds;
use crate::shard::Shard;
use crate::task::{Task, tasks};

/// Number of the point, index of the case in the file, and number of the repetition: the order of records.
type Key = (u32, usize, u32);

/// An experiment, the runs that were made, and those that are wanted.
pub struct Sweep {
    /// The request: experiment file, backend, options.
    pub request: Request,
    core: Core,
    /// The experiment, with its overrides applied.
    pub experiment: Experiment,
    /// Points of the experiment's sweep.
    pub points: Vec<Point>,
    rounds: Rounds,
    /// Runs by which the expectations are judged, in order.
    records: Vec<RunRecord>,
    /// Runs that were made and that no round has asked for yet.
    spare: BTreeMap<Key, RunRecord>,
    made: BTreeSet<Key>,
}

impl Sweep {
    /// Reads the experiment and plans its first round: each case at each point, as often as the
    /// file says.
    ///
    /// # Errors
    /// The first error in the file or in an override, with file, line and column, or the option.
    pub fn new(request: Request) -> Result<Self> {
        let core = request.running()?;
        let experiment = request.experiment()?;
        let points = experiment.points()?;
        refuse_other_laws(&points, core)?;
        let places = points.iter().flat_map(|point| {
            let cases = point.experiment.cases.iter();
            cases.map(|case| (point.number, case.name.clone()))
        });
        let rounds = Rounds::first(places, experiment.repeats(request.arm));
        Ok(Self {
            request,
            core,
            rounds,
            points,
            experiment,
            records: Vec::new(),
            spare: BTreeMap::new(),
            made: BTreeSet::new(),
        })
    }

    /// Checks that the records of all runs that are wanted fit into memory.
    ///
    /// # Errors
    /// The size of the records, and which settings reduce it.
    pub fn check_memory(&self) -> Result<()> {
        memory::check_each(&self.points, |point, case| self.rounds.wanted(point, case))
    }

    /// Checks that the records of a part of the first round fit into memory.
    ///
    /// # Errors
    /// As [`Sweep::check_memory`].
    pub fn check_memory_of(&self, shard: Shard) -> Result<()> {
        let mut runs: BTreeMap<(u32, &str), u32> = BTreeMap::new();
        for task in self.lacking_of(shard) {
            *runs.entry((task.point, &task.case.name)).or_default() += 1;
        }
        let runs_of = |point: u32, case: &str| runs.get(&(point, case)).copied().unwrap_or(0);
        memory::check_each(&self.points, runs_of)
    }

    /// Adds a run that was made. A second record of a run changes nothing.
    ///
    /// # Errors
    /// The experiment has no such run, or the simulator made two records of it that differ.
    pub fn add(&mut self, record: RunRecord) -> Result<()> {
        let name = format!(
            "point {}, case {}, run {}, seed {}",
            record.point, record.case, record.run, record.seed
        );
        let key = self.key(&record);
        let key = key.with_context(|| {
            format!("{name}: the experiment has no run with this point, case, number and seed")
        })?;
        if self.made.insert(key) {
            self.spare.insert(key, record);
            return Ok(());
        }
        let same = |known: &&RunRecord| self.key(known) == Some(key);
        let known = self.spare.get(&key);
        let known = known.or_else(|| self.records.iter().find(same));
        if self.request.arm == Arm::Sim && known.is_some_and(|known| *known != record) {
            bail!(
                "{name}: two records of this simulated run differ, so different programs or files \
                 made them; make the runs again"
            );
        }
        Ok(())
    }

    /// Returns the record's key; `None` if it is of no run of this experiment.
    fn key(&self, record: &RunRecord) -> Option<Key> {
        let mut points = self.points.iter();
        let point = points.find(|point| point.number == record.point)?;
        let mut cases = point.experiment.cases.iter();
        let case = cases.position(|case| case.name == record.case)?;
        let seed = self.request.seed.wrapping_add(u64::from(record.run));
        (record.seed == seed).then_some((record.point, case, record.run))
    }

    /// Returns the repetitions that were made of a case at a point.
    fn had(&self, point: u32, case: &str) -> BTreeSet<u32> {
        let cases = &self.experiment.cases;
        let Some(case) = cases.iter().position(|known| known.name == case) else {
            return BTreeSet::new();
        };
        let runs = self.made.range((point, case, 0)..=(point, case, u32::MAX));
        runs.map(|(_, _, run)| *run).collect()
    }

    /// Returns the runs of this round that were not made.
    pub fn lacking(&self) -> Vec<Task<'_>> {
        self.tasks(|point, case| self.rounds.lacks(point, case, &self.had(point, case)))
    }

    /// Returns a run by point, case and repetition, whether it was made or not; `None` if the
    /// experiment has no such case or point.
    pub fn task(&self, point: u32, case: &str, run: u32) -> Option<Task<'_>> {
        let only = |at: u32, of: &str| {
            let is_it = at == point && of == case;
            is_it.then_some(run).into_iter().collect()
        };
        self.tasks(only).pop()
    }

    /// Returns the runs of a part of the first round that were not made.
    pub fn lacking_of(&self, shard: Shard) -> Vec<Task<'_>> {
        let all = self.first_round().into_iter().enumerate();
        let mine = all.filter(|(place, _)| shard.has(*place));
        let mine = mine.map(|(_, task)| task);
        mine.filter(|task| !self.had(task.point, &task.case.name).contains(&task.run))
            .collect()
    }

    /// Returns the first part, of `count`, that lacks runs of the first round, the number of runs that it lacks, and
    /// the number of all its runs; `None`: no part lacks any.
    pub fn first_lacking(&self, count: u32) -> Option<(Shard, usize, usize)> {
        let all = self.first_round();
        let is_made = |task: &Task<'_>| self.had(task.point, &task.case.name).contains(&task.run);
        let place = all.iter().position(|task| !is_made(task))?;
        let shard = Shard::of(place, count);
        let of_shard = all
            .iter()
            .enumerate()
            .filter(|(place, _)| shard.has(*place));
        let made: Vec<bool> = of_shard.map(|(_, task)| is_made(task)).collect();
        let lacking = made.iter().filter(|is_made| !**is_made).count();
        Some((shard, lacking, made.len()))
    }

    /// Returns all runs of the first round, in the order by which they are divided into parts.
    fn first_round(&self) -> Vec<Task<'_>> {
        let repeat = self.experiment.repeats(self.request.arm);
        self.tasks(|_, _| (0..repeat).collect())
    }

    fn tasks(&self, runs_of: impl Fn(u32, &str) -> Vec<u32>) -> Vec<Task<'_>> {
        let mut tasks = tasks(&self.points, self.request.seed, runs_of);
        tasks.iter_mut().for_each(|task| task.core = self.core);
        tasks
    }

    /// Judges the expectations once the round's runs are made, and plans the next round where they
    /// are undecided. Returns the verdicts; `None` if runs are lacking. `told` gets a sentence
    /// before each further round.
    ///
    /// # Errors
    /// The expectations can't be judged by these runs.
    pub fn next(&mut self, told: &dyn Fn(&str)) -> Result<Option<Evaluation>> {
        let arm = self.request.arm;
        loop {
            if !self.lacking().is_empty() {
                return Ok(None);
            }
            self.take_wanted();
            let evaluation = evaluate(&self.experiment, &self.records, arm)?;
            let mut further = self.rounds.clone();
            if !further.go_on(&self.experiment, &evaluation, arm) {
                return Ok(Some(evaluation));
            }
            let runs_of = |point: u32, case: &str| further.wanted(point, case);
            if let Err(error) = memory::check_each(&self.points, runs_of) {
                told(&format!("no more repetitions: {error}"));
                return Ok(Some(evaluation));
            }
            self.rounds = further;
            let runs = self.lacking().len();
            if runs > 0 {
                let undecided = evaluation.with(Outcome::Undecided).count();
                told(&format!("undecided so far: {undecided}; {runs} more runs"));
            }
        }
    }

    /// Moves the runs for which the rounds have asked from `spare` to `records`, in order.
    fn take_wanted(&mut self) {
        let wanted = |key: &Key| {
            let case = self.experiment.cases.get(key.1);
            case.is_some_and(|case| key.2 < self.rounds.wanted(key.0, &case.name))
        };
        let (taken, spare) = std::mem::take(&mut self.spare)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(key, _)| wanted(key));
        self.spare = spare;
        if taken.is_empty() {
            return;
        }
        self.records.extend(taken.into_values());
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_cached_key(|record| self.key(record));
        self.records = records;
    }

    /// Returns the result, with the last verdicts of [`Sweep::next`].
    pub fn finish(self, evaluation: Evaluation) -> Finished {
        Finished {
            request: self.request,
            experiment: self.experiment,
            points: self.points,
            records: self.records,
            evaluation,
        }
    }
}

/// Checks that the core has all laws of the points. An earlier sweep of the process may have made others
/// known by name.
fn refuse_other_laws(points: &[Point], core: Core) -> Result<()> {
    let cases = points.iter().flat_map(|point| &point.experiment.cases);
    for case in cases {
        let own = case.guests.iter().filter_map(|guests| guests.law);
        if let Some(law) = own.chain(case.receiver_law).find(|law| !core.has(*law)) {
            bail!(
                "case {}: law `{law}` is not in the tree; name the folder in which it was built as laws",
                case.name
            );
        }
    }
    Ok(())
}
