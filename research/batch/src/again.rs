//! Repeats runs whose emulated network was late, with fewer at a time: concurrent runs delay one another.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use uc_experiment::RunRecord;

use crate::pool::Pool;
use crate::task::Task;

/// Maximum number of times that a late run is made without other runs at the same time; then its record is kept as
/// late. More than one, because another program may have disturbed the first time.
const ALONE: u32 = 2;

/// A run by point, case and repetition.
type Key = (u32, String, u32);

impl Pool<'_> {
    /// Makes the runs by `run_one`, and repeats those that are too late to count
    /// ([`uc_experiment::Experiment::why_late`]): each time half as many at once as before, down to one, and with one
    /// at once `ALONE` times. `done` gets each record as soon as its run counts, and each that is late even then.
    /// `told` gets each run that will be repeated, the reason, and the number of runs at once.
    ///
    /// # Errors
    /// As [`Pool::each`].
    pub fn each_in_time(
        &self,
        tasks: &[Task<'_>],
        run_one: impl Fn(&Task<'_>) -> Result<RunRecord> + Sync,
        told: impl Fn(&Task<'_>, &str, usize) + Sync,
        done: impl Fn(RunRecord) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut tasks = tasks.to_vec();
        let (mut jobs, mut alone) = (self.jobs, 0);
        for repeats in 0.. {
            jobs = jobs.clamp(1, tasks.len().max(1));
            alone += u32::from(jobs == 1);
            let fewer = (jobs / 2).max(1);
            let late = Mutex::new(BTreeSet::new());
            let sift = |mut record: RunRecord| {
                if repeats > 0 {
                    record.set_late_repeats(repeats);
                }
                let task = tasks.iter().find(|task| key(task) == key_of(&record));
                let why = task.and_then(|task| task.experiment.why_late(&record));
                let (Some(task), Some(why)) = (task, why.filter(|_| alone < ALONE)) else {
                    return done(record);
                };
                told(task, &why, fewer);
                let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
                late.insert(key(task));
                Ok(())
            };
            let pool = Pool { jobs, ..*self };
            pool.each(&tasks, &run_one, sift)?;
            let late = late.into_inner().unwrap_or_else(PoisonError::into_inner);
            if late.is_empty() {
                break;
            }
            tasks.retain(|task| late.contains(&key(task)));
            jobs = fewer;
        }
        Ok(())
    }
}

fn key(task: &Task<'_>) -> Key {
    (task.point, task.case.name.clone(), task.run)
}

fn key_of(record: &RunRecord) -> Key {
    (record.point, record.case.clone(), record.run)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use uc_experiment::Experiment;

    use super::*;
    use crate::task::tasks;

    /// Round trip 4 ms, so by the default a mean of 1 ms is the limit.
    const FILE: &str = "name = \"t\"\ntitle = \"t\"\nduration = \"1s\"\n\
        [network]\nrate = \"1Mbit\"\ndelay = \"1ms\"\n\
        queue = { kind = \"droptail\", limit = \"9kB\" }\n[stack.reno]\n\
        [[case]]\nname = \"c\"\n[[case.guests]]\nname = \"g\"\nstack = \"reno\"\n";

    /// Runs `runs` repetitions, four at a time; `mean_us` gives the mean lateness of a repetition by the number
    /// of its earlier attempts. Returns the repetitions that were handed over with their earlier attempts, and
    /// the numbers of runs at a time that were announced.
    fn made(
        runs: u32,
        mean_us: impl Fn(u32, usize) -> u64 + Sync,
    ) -> (Vec<(u32, u64)>, Vec<usize>) {
        let experiment = Experiment::from_str("t", FILE).unwrap();
        let points = experiment.points().unwrap();
        let attempts: Vec<AtomicUsize> = (0..runs).map(|_| AtomicUsize::new(0)).collect();
        let running = AtomicUsize::new(0);
        let (kept, fewer) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let run_one = |task: &Task<'_>| {
            let before = attempts[task.run as usize].fetch_add(1, Ordering::SeqCst);
            let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(at_once <= [4, 2, 1, 1][before], "{at_once} after {before}");
            std::thread::sleep(Duration::from_millis(2));
            running.fetch_sub(1, Ordering::SeqCst);
            let mean_ns = 1_000 * mean_us(task.run, before);
            let late = ["mean", "p99", "max"].map(|name| (format!("wire_late_{name}_ns"), mean_ns));
            Ok(RunRecord {
                case: task.case.name.clone(),
                run: task.run,
                counters: late.into(),
                ..RunRecord::default()
            })
        };
        let pool = Pool {
            jobs: 4,
            cancel: &AtomicBool::new(false),
            until: None,
        };
        pool.each_in_time(
            &tasks(&points, 1, |_, _| (0..runs).collect()),
            run_one,
            |_, _, jobs| fewer.lock().unwrap().push(jobs),
            |record| {
                let made = (record.run, record.late_repeats());
                kept.lock().unwrap().push(made);
                Ok(())
            },
        )
        .unwrap();
        let mut kept = kept.into_inner().unwrap();
        kept.sort_unstable();
        (kept, fewer.into_inner().unwrap())
    }

    #[test]
    fn runs_in_time_are_made_once() {
        let (kept, fewer) = made(6, |_, _| 1_000);
        assert_eq!(kept, [0, 1, 2, 3, 4, 5].map(|run| (run, 0)));
        assert!(fewer.is_empty());
    }

    #[test]
    fn late_run_alone_is_repeated_alone_and_then_kept() {
        let (kept, fewer) = made(1, |_, _| 1_001);
        assert_eq!((&kept[..], &fewer[..]), (&[(0, 1)][..], &[1][..]));
    }

    #[test]
    fn late_runs_are_repeated_with_half_as_many_at_a_time_down_to_one() {
        let (kept, fewer) = made(4, |_, _| 2_000);
        assert_eq!(kept, [0, 1, 2, 3].map(|run| (run, 3)));
        assert_eq!(fewer, [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn run_that_is_in_time_at_last_is_kept_and_the_others_go_on() {
        let (kept, _) = made(4, |run, before| match (run, before) {
            (3, 1..) => 10,
            _ => 2_000,
        });
        assert_eq!(kept, [(0, 3), (1, 3), (2, 3), (3, 1)]);
    }
}
