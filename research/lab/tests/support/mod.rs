//! Helpers that the live tests share.
#![allow(dead_code, reason = "every test program uses its own part")]

pub mod ping;

use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use uc_experiment::{Experiment, RunRecord};
use uc_lab::netns::Namespace;
use uc_lab::{Lab, NoPorts, Plan, Repetition, run_case};

/// Returns whether this host can run live tests.
pub fn live() -> bool {
    uc_live::or_skip(uc_lab::need::check()).is_some()
}

/// Builds a one-case experiment: `guests` is the text of its groups, `more` that of everything
/// else.
pub fn experiment(seconds: u32, network: &str, guests: &str, more: &str) -> Experiment {
    let text = format!(
        "name = \"lab/test\"\ntitle = \"test\"\nduration = \"{seconds}s\"\n\
         [network]\n{network}\n{more}\n[[case]]\nname = \"only\"\n{guests}"
    );
    Experiment::from_str("test", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Builds the lab of the experiment's only case, without traffic.
pub fn build(experiment: &Experiment) -> (Plan, Lab) {
    let plan = Plan::new(experiment, &experiment.cases[0]).unwrap();
    let lab = Lab::build(&plan, &experiment.network, 1, Duration::from_millis(10)).unwrap();
    (plan, lab)
}

/// Runs the experiment's only case without programs.
pub fn run(experiment: &Experiment, seed: u64) -> RunRecord {
    let repetition = Repetition { run: 0, seed };
    let case = &experiment.cases[0];
    run_case(
        experiment,
        case,
        repetition,
        &mut NoPorts,
        &|_| {},
        &AtomicBool::new(false),
    )
    .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

/// Returns the payload of one flow delivered between two times of a run, in bits per second.
pub fn goodput_bps(record: &RunRecord, flow: usize, from_ns: u64, to_ns: u64) -> f64 {
    let samples = &record.flows[flow].samples;
    let at = |ns| samples.iter().find(|sample| sample.at_ns >= ns).unwrap();
    let (first, last) = (at(from_ns), at(to_ns));
    let bytes = last.delivered_bytes - first.delivered_bytes;
    bytes as f64 * 8e9 / (last.at_ns - first.at_ns) as f64
}

/// One end of a veth pair whose other end is in a namespace that is to vanish: a pair goes with
/// either of its ends.
pub struct Canary {
    cage: Namespace,
}

impl Canary {
    /// Creates a pair with the other end in the namespace at `path`.
    pub fn new(path: &str) -> Self {
        let cage = Namespace::new("the canary").unwrap();
        let status = cage
            .command("ip")
            .args([
                "link", "add", "canary", "type", "veth", "peer", "name", "watched",
            ])
            .args(["netns", path])
            .status()
            .unwrap();
        assert!(status.success(), "{path}");
        let canary = Self { cage };
        assert!(canary.lives());
        canary
    }

    /// Returns whether the watched namespace still exists.
    pub fn lives(&self) -> bool {
        let mut show = self.cage.command("ip");
        let show = show
            .args(["link", "show", "canary"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        show.status().unwrap().success()
    }

    /// Waits until the namespace vanishes; returns false after a minute, which even a slow host
    /// does not need.
    pub fn dies(&self) -> bool {
        let start = Instant::now();
        while self.lives() {
            if start.elapsed() > Duration::from_secs(60) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}
