//! ctrlTCP across virtual machines, which are namespaces with groups of their own in this test:
//! each couples its own connections, and a host couples them by what they report over a socket. 10
//! Mbit/s and 100 ms, ctrlTCP's figure 3.

mod support;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use support::{experiment, goodput_bps, live};
use uc_experiment::RunRecord;
use uc_guest::coupling::host::Policy;
use uc_guest::coupling::serve::{Event, Server};
use uc_guest::coupling::{GuestSetup, Place};
use uc_guest::{Across, CoupleEvent, CouplingPolicy, Ctrltcp, GroupState, couple};
use uc_lab::{NoPorts, Progress, Repetition, run_case};
use uc_live::in_peace;

const SECOND_NS: u64 = 1_000_000_000;
/// Start of the measurement, in seconds: both have left slow start, and the group has found its
/// window.
const FROM_S: u64 = 10;
const NETWORK: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"\n\
     queue = { kind = \"droptail\", limit = \"125kB\" }";
/// Time for which a guest's group may still follow the host after a part has ended: a
/// retransmission timeout is less than half a second on this path, and the host may be busy.
const ENDED: Duration = Duration::from_secs(2);

/// A namespace that stands for a virtual machine.
struct Vm {
    name: &'static str,
    flows: u32,
    weight: u8,
}

/// The part of the coupling that ends before the run, and its second.
#[derive(Clone, Copy)]
enum End {
    Host(u64),
    FirstGuest(u64),
}

/// Samples: time of the run, and whether each guest's group followed the host.
type Seen = Vec<(Duration, Vec<bool>)>;

/// The parts of a coupling that runs beside the experiment.
struct Parts<'a> {
    ctrltcp: &'a Ctrltcp,
    vms: &'a [Vm],
    folder: &'a Path,
    /// Whether the host's part has ended, and each guest's.
    ended: (AtomicBool, Vec<AtomicBool>),
    /// Namespaces of the guests, once they are known.
    spaces: Mutex<Vec<u64>>,
    seen: Mutex<Seen>,
}

impl Parts<'_> {
    /// Starts each namespace's part as soon as all guests are connected; called repeatedly.
    /// Namespaces are told apart by their number of connections.
    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, elapsed: Duration) {
        let groups = self.ctrltcp.groups().list().unwrap();
        let mut spaces = self.spaces.lock().unwrap();
        if spaces.is_empty() {
            let all = self.vms.iter().map(|vm| {
                let mut its = groups.iter().filter(|group| group.connections == vm.flows);
                its.next().and_then(|group| group.netns)
            });
            let Some(all) = all.collect::<Option<Vec<_>>>() else {
                return;
            };
            *spaces = all;
            for (number, &space) in spaces.iter().enumerate() {
                scope.spawn(move || self.guest(number, space));
            }
        }
        let is_hosted = |&space: &u64| {
            let its = |group: &&GroupState| group.netns == Some(space);
            groups.iter().find(its).is_some_and(|group| group.by_host)
        };
        let hosted = spaces.iter().map(is_hosted).collect();
        self.seen.lock().unwrap().push((elapsed, hosted));
    }

    fn guest(&self, number: usize, space: u64) {
        let across = Across::new(self.ctrltcp.groups(), Some(space));
        let name = self.vms[number].name;
        let mut tell = |event: CoupleEvent<'_>| println!("in {name}: {event:?}");
        let path = self.folder.join(name);
        couple(&across, &path, &self.ended.1[number], &mut tell).unwrap();
    }

    fn host(&self) {
        let setup = |vm: &Vm| GuestSetup {
            name: vm.name.into(),
            place: Place::Listen(self.folder.join(vm.name)),
            weight: vm.weight,
        };
        let guests = self.vms.iter().map(setup).collect();
        let mut server = Server::new(Policy::default(), guests).unwrap();
        let mut tell = |name: &str, event: Event<'_>| println!("host: {name} {event:?}");
        server.run(&self.ended.0, &mut tell).unwrap();
        println!("host: {:?}", server.shares());
    }

    fn end(&self, end: End) {
        let part = match end {
            End::Host(_) => &self.ended.0,
            End::FirstGuest(_) => &self.ended.1[0],
        };
        part.store(true, Ordering::Relaxed);
    }
}

impl End {
    fn at_s(self) -> u64 {
        match self {
            Self::Host(at_s) | Self::FirstGuest(at_s) => at_s,
        }
    }
}

/// Runs `vms` for this many seconds, each coupling its own flows, and coupled by a host until
/// `end`.
fn run(vms: &[Vm], seconds: u32, end: End) -> (RunRecord, Seen) {
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
    let experiment = experiment(seconds, NETWORK, &guests, &stack);
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts {
        ctrltcp: &ctrltcp,
        vms,
        folder: folder.path(),
        ended: (
            AtomicBool::new(false),
            vms.iter().map(|_| AtomicBool::new(false)).collect(),
        ),
        spaces: Mutex::default(),
        seen: Mutex::default(),
    };
    let record = thread::scope(|scope| {
        scope.spawn(|| parts.host());
        let progress = |progress: Progress| {
            if let Progress::Running { elapsed, .. } = progress {
                parts.start(scope, elapsed);
                if elapsed.as_secs() >= end.at_s() {
                    parts.end(end);
                }
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
        parts.ended.0.store(true, Ordering::Relaxed);
        for ended in &parts.ended.1 {
            ended.store(true, Ordering::Relaxed);
        }
        record.unwrap()
    });
    (record, parts.seen.into_inner().unwrap())
}

/// Returns the goodput of each guest between two seconds, in bits per second, summed over its
/// flows.
fn guests_bps(record: &RunRecord, vms: &[Vm], from_s: u64, to_s: u64) -> Vec<f64> {
    let of_guest = |vm: &Vm| {
        let flows = (0..record.flows.len()).filter(|&flow| record.flows[flow].group == vm.name);
        flows
            .map(|flow| goodput_bps(record, flow, from_s * SECOND_NS, to_s * SECOND_NS))
            .sum()
    };
    vms.iter().map(of_guest).collect()
}

/// Returns the fraction of samples in which a guest's group followed the host.
fn followed(seen: &Seen, guest: usize, from: Duration, to: Duration) -> f64 {
    let within = seen.iter().filter(|(at, _)| (from..to).contains(at));
    let (mut all, mut hosted) = (0.0_f64, 0.0);
    for (_, guests) in within {
        all += 1.0;
        hosted += f64::from(u8::from(guests[guest]));
    }
    assert!(all > 0.0);
    hosted / all
}

/// Computes Jain's index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

fn pair(weights: [u8; 2]) -> [Vm; 2] {
    let vm = |name, flows, weight| Vm {
        name,
        flows,
        weight,
    };
    [vm("one", 1, weights[0]), vm("many", 4, weights[1])]
}

#[test]
fn live_vms_with_four_flows_and_with_one_get_equal_shares_and_survive_a_guests_end() {
    if !live() {
        return;
    }
    in_peace(|| {
        let (vms, end) = (pair([1, 1]), End::FirstGuest(32));
        let (record, seen) = run(&vms, 38, end);
        let shares = guests_bps(&record, &vms, FROM_S, end.at_s());
        let (fairness, sum) = (jain(&shares), shares.iter().sum::<f64>());
        println!("across VMs 1:4: {shares:?}, Jain {fairness:.4}, sum {sum:.0}");
        assert!(fairness >= 0.99, "seed 1: {shares:?} bit/s");
        assert!(sum >= 0.9 * 10e6, "seed 1: {shares:?} bit/s");

        let [end_s, last_s] = [end.at_s(), 38].map(Duration::from_secs);
        let before = [0, 1].map(|guest| followed(&seen, guest, Duration::from_secs(FROM_S), end_s));
        let after = [0, 1].map(|guest| followed(&seen, guest, end_s + ENDED, last_s));
        println!("followed the host: {before:?}, then {after:?}");
        assert!(before.iter().all(|&part| part > 0.8), "{before:?}");
        assert!(after[0] == 0.0 && after[1] > 0.8, "{after:?}");
        let shares = guests_bps(&record, &vms, end.at_s(), 37);
        assert!(shares.iter().all(|&bps| bps > 1e6), "{shares:?} bit/s");
    });
}

#[test]
fn live_vms_share_by_the_operators_weights_until_the_hosts_part_ends() {
    if !live() {
        return;
    }
    in_peace(|| {
        let (vms, end) = (pair([3, 1]), End::Host(32));
        let (record, seen) = run(&vms, 60, end);
        let shares = guests_bps(&record, &vms, FROM_S, end.at_s());
        let (ratio, sum) = (shares[0] / shares[1], shares.iter().sum::<f64>());
        println!("across VMs, weights 3:1, 1:4 flows: {shares:?}, ratio {ratio:.2}, sum {sum:.0}");
        // each of four flows with eight and a half segments sends eight
        assert!((2.7..=3.5).contains(&ratio), "seed 1: {shares:?} bit/s");
        assert!(sum >= 0.9 * 10e6, "seed 1: {shares:?} bit/s");

        let [end_s, last_s] = [end.at_s(), 60].map(Duration::from_secs);
        let before = [0, 1].map(|guest| followed(&seen, guest, Duration::from_secs(FROM_S), end_s));
        let after = [0, 1].map(|guest| followed(&seen, guest, end_s + ENDED, last_s));
        println!("followed the host: {before:?}, then {after:?}");
        assert!(before.iter().all(|&part| part > 0.8), "{before:?}");
        assert_eq!(after, [0.0, 0.0]);
        // uncoupled TCPs converge to equal rates again
        let shares = guests_bps(&record, &vms, 50, 59);
        println!("without the host: {shares:?}");
        assert!(shares.iter().all(|&bps| bps > 1e6), "{shares:?} bit/s");
        assert!(shares[0] / shares[1] < 0.8 * ratio, "{shares:?} bit/s");
    });
}
