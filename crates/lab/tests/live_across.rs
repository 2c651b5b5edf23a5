//! ctrlTCP across virtual machines, for which namespaces with groups of their own stand: each
//! couples its own connections, and a host couples them by what they report over a socket.
//! 10 Mbit/s and 100 ms, ctrlTCP's figure 3.

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use support::{experiment, goodput_bps, live};
use uc_ccc::host::Policy;
use uc_ccc::seat::{GuestSetup, Place};
use uc_ccc::serve::Server;
use uc_experiment::RunRecord;
use uc_guest::{Across, CouplingPolicy, Ctrltcp, couple};
use uc_lab::{NoPorts, Progress, Repetition, run_case};

const SECOND_NS: u64 = 1_000_000_000;
/// From when on it is measured: both have left slow start, and the group has found its window.
const FROM_NS: u64 = 10 * SECOND_NS;
const NETWORK: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"\n\
     queue = { kind = \"droptail\", limit = \"125kB\" }";
/// Each packet is as likely to be lost as another: uncoupled guests share as their flows do.
const RED: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"\n\
     queue = { kind = \"red\", min = \"30kB\", max = \"90kB\", limit = \"250kB\", \
     burst = 30, probability = 0.1, packet = \"1500B\", ecn = false }";

/// What stands for a virtual machine.
struct Vm {
    name: &'static str,
    flows: u32,
    weight: u8,
}

/// What is done to the parts, by the second of the run.
#[derive(Default)]
struct Faults {
    host_dies_at: Option<u32>,
    /// The first guest's part.
    guest_dies_at: Option<u32>,
}

/// The parts of a coupling that goes on while the experiment runs.
struct Parts<'a> {
    ctrltcp: &'a Ctrltcp,
    vms: &'a [Vm],
    folder: &'a Path,
    host_dead: &'a AtomicBool,
    guests_dead: &'a [AtomicBool],
    started: &'a Mutex<bool>,
}

impl<'a> Parts<'a> {
    /// As soon as all of them have connections, each namespace gets its guest's part. Which is which
    /// is seen by the number of their connections.
    fn start<'s>(&self, scope: &'s Scope<'s, 'a>) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.ctrltcp.groups().list().unwrap();
        let all = self.vms.iter().map(|vm| {
            let is_its = |group: &&uc_guest::GroupState| group.connections == vm.flows;
            groups.iter().find(is_its).and_then(|group| group.netns)
        });
        let Some(spaces) = all.collect::<Option<Vec<_>>>() else {
            return;
        };
        if std::mem::replace(&mut *started, true) {
            return;
        }
        for ((vm, dead), space) in self.vms.iter().zip(self.guests_dead).zip(spaces) {
            let path = self.folder.join(vm.name);
            let ctrltcp = self.ctrltcp;
            scope.spawn(move || {
                let across = Across::new(ctrltcp.groups(), Some(space));
                let mut tell =
                    |event: uc_guest::CoupleEvent<'_>| println!("{}: {event:?}", vm.name);
                couple(&across, &path, dead, &mut tell).unwrap();
            });
        }
    }

    fn host(&self) -> Server {
        let setup = |vm: &Vm| GuestSetup {
            name: vm.name.into(),
            place: Place::Listen(self.folder.join(vm.name)),
            weight: vm.weight,
        };
        Server::new(Policy::default(), self.vms.iter().map(setup).collect()).unwrap()
    }
}

/// Runs `vms` for so long, each coupling its own flows, and coupled by a host if `hosted`.
fn run(network: &str, vms: &[Vm], seconds: u32, hosted: bool, faults: &Faults) -> RunRecord {
    let policy = CouplingPolicy {
        apart: true,
        ..CouplingPolicy::default()
    };
    let ctrltcp = Ctrltcp::register_private(&policy).unwrap();
    let guest = |vm: &Vm| {
        let (name, flows) = (vm.name, vm.flows);
        format!("[[case.guests]]\nname = \"{name}\"\nstack = \"guest\"\nflows = {flows}\n")
    };
    let guests: String = vms.iter().map(guest).collect();
    let stack = format!("[stack.guest]\ncongestion_control = \"{}\"", ctrltcp.name());
    let experiment = experiment(seconds, network, &guests, &stack);
    let folder = tempfile::tempdir().unwrap();
    let guests_dead: Vec<_> = vms.iter().map(|_| AtomicBool::new(false)).collect();
    let parts = Parts {
        ctrltcp: &ctrltcp,
        vms,
        folder: folder.path(),
        host_dead: &AtomicBool::new(!hosted),
        guests_dead: &guests_dead,
        started: &Mutex::new(!hosted),
    };
    thread::scope(|scope| {
        let (parts, mut host) = (&parts, parts.host());
        scope.spawn(move || {
            let mut tell =
                |name: &str, event: uc_ccc::serve::Event<'_>| println!("{name}: {event:?}");
            host.run(parts.host_dead, &mut tell).unwrap();
            println!("the host's last words: {:?}", host.shares());
        });
        let progress = |progress: Progress| {
            let Progress::Running { elapsed, .. } = progress else {
                return;
            };
            parts.start(scope);
            let reached = |at: Option<u32>| at.is_some_and(|at| elapsed.as_secs() >= at.into());
            if reached(faults.host_dies_at) {
                parts.host_dead.store(true, Ordering::Relaxed);
            }
            if reached(faults.guest_dies_at) {
                parts.guests_dead[0].store(true, Ordering::Relaxed);
            }
        };
        let repetition = Repetition { run: 0, seed: 1 };
        let case = &experiment.cases[0];
        let never = AtomicBool::new(false);
        let record = run_case(
            &experiment,
            case,
            repetition,
            &mut NoPorts,
            &progress,
            &never,
        );
        parts.host_dead.store(true, Ordering::Relaxed);
        for dead in parts.guests_dead {
            dead.store(true, Ordering::Relaxed);
        }
        record.unwrap()
    })
}

/// What each guest got between two seconds, all its flows together.
fn guests_bps(record: &RunRecord, vms: &[Vm], from_ns: u64, to_ns: u64) -> Vec<f64> {
    let of_guest = |vm: &Vm| {
        let flows = (0..record.flows.len()).filter(|&flow| record.flows[flow].group == vm.name);
        flows
            .map(|flow| goodput_bps(record, flow, from_ns, to_ns))
            .sum()
    };
    vms.iter().map(of_guest).collect()
}

/// Jain's index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

const ONE_AND_FOUR: [Vm; 2] = [
    Vm {
        name: "one",
        flows: 1,
        weight: 1,
    },
    Vm {
        name: "many",
        flows: 4,
        weight: 1,
    },
];

#[test]
fn live_a_vm_with_four_flows_has_no_more_than_a_vm_with_one() {
    if !live() {
        return;
    }
    let record = run(NETWORK, &ONE_AND_FOUR, 40, true, &Faults::default());
    let shares = guests_bps(&record, &ONE_AND_FOUR, FROM_NS, 39 * SECOND_NS);
    let (fairness, sum) = (jain(&shares), shares.iter().sum::<f64>());
    println!("across VMs 1:4: {shares:?}, Jain {fairness:.4}, sum {sum:.0}");
    assert!(fairness >= 0.99, "seed 1: {shares:?} bit/s");
    assert!(sum >= 0.9 * 10e6, "seed 1: {shares:?} bit/s");
}
