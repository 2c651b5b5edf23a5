//! Common parts of the tests of ports and of the command line.
#![allow(dead_code, reason = "every test program uses its own part")]

pub mod agent;
pub mod bench;
pub mod by_hand;
pub mod capture;
pub mod confined;
pub mod ends;
pub mod etcd;
pub mod frames;
pub mod held;
pub mod hosts;
pub mod kills;
pub mod law_page;
pub mod lost;
pub mod marked;
pub mod pages;
pub mod process;
pub mod pvtcp;
pub mod routed;
pub mod rules;
pub mod sandbox;
pub mod transfer;
pub mod truth;
pub mod tuned;
pub mod uc;
pub mod virsh;
pub mod watcher;

use std::sync::atomic::AtomicBool;

use uc_experiment::{Experiment, RunRecord};
use uc_guest::{Dctcp, GuestError};
use uc_lab::{LabError, NoPorts, Platform, Ports, Repetition, run_case_in};

/// The paper's bottleneck: RED1 at 10 Mb/s, fed by slightly faster links.
pub const RED1: &str = "rate = \"10Mbit\"\naccess_rate = \"12Mbit\"\ndelay = \"250us\"\n\
     queue = { kind = \"red\", min = \"90000B\", max = \"90001B\", limit = \"1MB\", burst = 61, \
     probability = 1.0, packet = \"1500B\", ecn = true }";
/// A queue that only drops, and early: the first flight already overflows it.
pub const DROPS: &str = "rate = \"10Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"1ms\"\n\
     queue = { kind = \"droptail\", limit = \"24kB\" }";
/// A network without a bottleneck.
pub const AMPLE: &str = "rate = \"1Gbit\"\ndelay = \"100us\"\n\
     queue = { kind = \"droptail\", limit = \"1MB\" }";
/// A guest that does not negotiate ECN, and one that does; the server accepts it by default.
pub const STACKS: &str = "[stack.legacy]\ncongestion_control = \"reno\"\n\
     [stack.ecn]\ncongestion_control = \"reno\"\necn = true";

/// Returns `true` if this machine can run live tests; else prints why not.
pub fn live() -> bool {
    uc_live::or_skip(uc_lab::need::check()).is_some()
}

/// Returns `true` if this machine can run live tests that also run these programs.
pub fn live_with(programs: &[&str]) -> bool {
    live() && uc_live::have(programs)
}

/// Returns `true` if this machine can run live tests whose guests are VMs with these kernels.
pub fn live_vm(series: &[&str]) -> bool {
    live() && uc_live::or_skip(uc_lab::vm::check(series.iter().copied())).is_some()
}

/// Returns `true` if this machine can run live tests that load congestion controls in BPF.
pub fn live_with_controls() -> bool {
    if !live() {
        return false;
    }
    if let Err(error @ GuestError::NoKernelSupport { .. }) = Dctcp::register_private() {
        uc_live::skip(error);
        return false;
    }
    true
}

/// Builds a one-case experiment: `guests` is the text of its groups, `more` everything else.
pub fn experiment(seconds: u32, network: &str, guests: &str, more: &str) -> Experiment {
    let text = format!(
        "name = \"live/test\"\ntitle = \"test\"\nduration = \"{seconds}s\"\n\
         [network]\n{network}\n{more}\n[[case]]\nname = \"only\"\n{guests}"
    );
    Experiment::from_str("test", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the text of a group of one guest.
pub fn guest(name: &str, stack: &str, more: &str) -> String {
    format!("[[case.guests]]\nname = \"{name}\"\nstack = \"{stack}\"\n{more}\n")
}

/// Runs the experiment's only case once, with guests from `platform` and programs from `ports`.
pub fn try_run(
    platform: &mut dyn Platform,
    experiment: &Experiment,
    ports: &mut dyn Ports,
) -> Result<RunRecord, LabError> {
    run_case_in(
        platform,
        experiment,
        &experiment.cases[0],
        Repetition { run: 0, seed: 1 },
        ports,
        &|_| {},
        &AtomicBool::new(false),
    )
}

/// Runs the experiment's first case without programs on any port; panics if it fails.
pub fn run(platform: &mut dyn Platform, experiment: &Experiment) -> RunRecord {
    try_run(platform, experiment, &mut NoPorts).unwrap_or_else(|error| panic!("seed 1: {error}"))
}
