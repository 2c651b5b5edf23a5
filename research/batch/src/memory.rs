//! Computes the memory that a batch's records will need, before its first run.

use anyhow::{Result, bail};
use uc_experiment::{Case, Experiment, Point};

/// Maximum size of all records, which stay in memory until the report is written. A larger batch is
/// probably a mistake, and would end hours later when the machine runs out of memory.
const BYTES_MAX: u128 = 6 * GIGABYTE;
const GIGABYTE: u128 = 1_000_000_000;
/// Bytes per sample of a flow or of a queue, with an event of the flow's law, including the spare
/// capacity of growing lists.
const SAMPLE_BYTES: u128 = 175;
/// Bytes per flow in addition to samples: its name, its links' totals, the gaps between its ACKs, and the round-trip
/// times of its packets, most of which are within three powers of two: 128 bins each.
const FLOW_BYTES: u128 = 3_000;
/// Bytes per message that begins at a fixed time, including the spare capacity of a growing list
/// and its entry among those that have not arrived.
const MESSAGE_BYTES: u128 = 128;
/// Bytes per run in addition to flows: counters by name, and the links that all flows share.
const RUN_BYTES: u128 = 4_000;

/// Checks that the records of these points fit into memory, each case run `repeat` times.
///
/// # Errors
/// The size of the records, and which settings reduce it.
pub fn check(points: &[Point], repeat: u32) -> Result<()> {
    check_each(points, |_, _| repeat)
}

/// Checks that the records fit into memory. `runs_of` returns the number of repetitions for a point's number and a
/// case's name.
///
/// # Errors
/// As [`check`].
pub fn check_each(points: &[Point], runs_of: impl Fn(u32, &str) -> u32) -> Result<()> {
    let mut size = Size::default();
    for point in points {
        for case in &point.experiment.cases {
            let runs = runs_of(point.number, &case.name);
            size.add(&point.experiment, case, runs.into());
        }
    }
    if size.bytes() <= BYTES_MAX {
        return Ok(());
    }
    let (samples, runs) = (size.samples, size.runs);
    let (messages, less_often) = match size.messages {
        0 => (String::new(), ""),
        count => (
            format!(" and {count} messages"),
            "a larger `messages.every`, ",
        ),
    };
    let name = points
        .first()
        .map_or("", |point| point.experiment.name.as_str());
    bail!(
        "{name}: all runs together ({runs}) keep {samples} samples{messages}, some {} GB of memory, \
         and {} GB are the most; give a larger `sample`, {less_often}fewer repetitions (--repeat), \
         or run some of the sweep at a time (--point)",
        size.bytes().div_ceil(GIGABYTE),
        BYTES_MAX / GIGABYTE
    )
}

/// Numbers of stored items of a batch. No product of numbers from a file overflows 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    runs: u128,
    flows: u128,
    samples: u128,
    messages: u128,
}

impl Size {
    /// Adds `repeat` runs of `case`: a sample of every flow and of the queue at every multiple of
    /// the interval from 0 on, and one at the end.
    fn add(&mut self, experiment: &Experiment, case: &Case, repeat: u128) {
        let groups = case.guests.iter();
        let flows: u128 = groups.map(|group| u128::from(group.total_flows())).sum();
        let interval_ns = experiment.sample.0.max(1);
        let moments = u128::from(experiment.duration.0.div_ceil(interval_ns)) + 1;
        self.runs += repeat;
        self.flows += repeat * flows;
        self.samples += repeat * moments * (flows + 1);
        let groups = case.guests.iter();
        let messages: u128 = groups
            .map(|group| group.timed_messages(experiment.duration))
            .sum();
        self.messages += repeat * messages;
    }

    fn bytes(&self) -> u128 {
        self.runs * RUN_BYTES
            + self.flows * FLOW_BYTES
            + self.samples * SAMPLE_BYTES
            + self.messages * MESSAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs' worth of cases of 3 flows together, 10 s each.
    fn points(sample: &str, count: u32) -> Vec<Point> {
        let text = format!(
            r#"
name = "t"
title = "t"
duration = "10s"
sample = "{sample}"
stack = {{ s = {{}} }}
network = {{ rate = "10Mbit", delay = "1ms", queue = {{ kind = "droptail", limit = "1MB" }} }}
[[case]]
name = "a"
guests = [{{ name = "g", stack = "s", count = {count}, flows = 2 }}]
[[case]]
name = "b"
guests = [{{ name = "g", stack = "s" }}]
"#
        );
        let experiment = Experiment::from_str("t", &text).expect("reads");
        experiment.points().expect("spans its points")
    }

    #[test]
    fn every_case_has_its_flows_and_the_queue_sampled_from_start_to_end() {
        let points = points("3s", 1);
        let mut size = Size::default();
        for case in &points[0].experiment.cases {
            size.add(&points[0].experiment, case, 5);
        }
        // At 0, 3, 6, 9 and 10 s.
        let expected = Size {
            runs: 10,
            flows: 5 * 3,
            samples: 5 * 5 * (3 + 2),
            messages: 0,
        };
        assert_eq!(size, expected);
    }

    #[test]
    fn run_that_would_fill_the_memory_is_refused_with_its_size() {
        assert!(check(&points("1ms", 100), 1).is_ok());
        assert!(check(&points("1ms", 100), 16).is_ok());
        let told = |sample, count, repeat| {
            let error = check(&points(sample, count), repeat).expect_err("is too much");
            error.to_string()
        };
        let error = told("1ms", 100, 17);
        // 10,001 moments, 203 series in both cases together.
        let samples = 17 * 10_001 * 203;
        assert!(
            error.starts_with(&format!("t: all runs together (34) keep {samples} samples")),
            "{error}"
        );
        for mend in ["larger `sample`", "--repeat", "--point"] {
            assert!(error.contains(mend), "{error}");
        }
        // Many runs of nearly nothing fill it as well, and nothing overflows.
        told("5s", 1, u32::MAX);
        told("1ns", u32::MAX, u32::MAX);
    }

    #[test]
    fn messages_at_fixed_times_count_once_per_repetition() {
        let mut points = points("5s", 1);
        for point in &mut points {
            let messages = "{ messages = { sizes = \"1kB\", every = \"10us\" } }";
            let set = format!("case.a.guests.g.application={messages}");
            point.experiment.apply_set(&set).expect("applies");
        }
        // One at the start of each of the two flows, and 1,000,000 more.
        assert!(check(&points, 23).is_ok());
        let error = check(&points, 24).expect_err("is too much").to_string();
        for part in ["and 48000048 messages", "larger `messages.every`"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_committed_experiment_fits() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let mut folders = vec![std::path::PathBuf::from(root)];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("is there") {
                let path = entry.expect("is there").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|name| name == "toml") {
                    let experiment = Experiment::load(&path).expect("reads");
                    let points = experiment.points().expect("spans its points");
                    let repeat = experiment.repeats(uc_experiment::Arm::Sim);
                    check(&points, repeat.max(experiment.repeat)).expect("fits");
                    count += 1;
                }
            }
        }
        assert!(count > 10, "{count} files");
    }
}
