//! ctrlTCP's figure 3 between two VMs, 10 Mbit/s and 100 ms: each couples its own connections in
//! its own kernel, and the host couples the VMs over their virtio-serial ports.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uc_experiment::{FlowSample, RunRecord};
use uc_guest::coupling::host::Policy;
use uc_guest::coupling::serve::{Event, Server};
use uc_guest::coupling::{GuestSetup, Place};
use uc_lab::NoPorts;
use uc_lab::vm::message::Request;
use uc_lab::vm::{Machine, Machines, Templates, VmError};

use crate::common::uc::inside;
use crate::common::{experiment, guest, live_vm};

const SECONDS: u32 = 36;
/// Start of the measurement: both have left slow start, and the group has found its window.
const FROM_NS: u64 = 12_000_000_000;
const NETWORK: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"\n\
     queue = { kind = \"droptail\", limit = \"125kB\" }";
/// Debian 13's kernel: congestion controls in BPF need 6.4.
const STACK: &str = "[stack.guest]\ncongestion_control = \"uc_ctrltcp\"\nkernel = \"6.12\"";
/// Timeout of loading: a kernel verifies the programs in two seconds of a real CPU, in thirty of an
/// emulated one; and the machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

/// Interval at which the host's shares are printed, for a failed test's output.
const TELL: Duration = Duration::from_secs(5);

/// Loads the coupled congestion control inside, and starts the guest's end of the channel.
fn prepare(machine: &mut Machine) -> Result<(), VmError> {
    let loaded = machine.run(&["/bin/uc", "guest", "load", "ctrltcp"], LIMIT)?;
    assert_eq!(loaded.status, Some(0), "{loaded:?}");
    let arguments = ["/bin/uc", "guest", "couple"].map(str::to_owned).into();
    machine.order(&Request::Start { arguments })
}

/// Runs a VM with one flow and one with four, of these weights; returns the record, and who was
/// coupled.
fn run(templates: &Templates, weights: [u8; 2]) -> (RunRecord, Vec<String>) {
    let guests = guest("one", "guest", "flows = 1") + &guest("many", "guest", "flows = 4");
    let experiment = experiment(SECONDS, NETWORK, &guests, STACK);
    let folder = tempfile::tempdir().unwrap();
    let setup = |((name, socket), weight)| GuestSetup {
        name: String::from(name),
        place: Place::Connect(folder.path().join(socket)),
        weight,
    };
    let sockets = [("one", "port0.sock"), ("many", "port1.sock")];
    let guests = sockets.into_iter().zip(weights).map(setup);
    let mut server = Server::new(Policy::default(), guests.collect()).unwrap();
    let (ended, events) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let record = thread::scope(|scope| {
        scope.spawn(|| {
            let mut tell = |name: &str, event: Event<'_>| {
                println!("host: {name} {event:?}");
                events.lock().unwrap().push(format!("{name} {event:?}"));
            };
            let mut told = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                server.turn(&mut tell).unwrap();
                if told.elapsed() > TELL {
                    told = Instant::now();
                    println!("host: {:?}", server.shares());
                }
            }
        });
        let mut prepare = |_: &uc_lab::Guest, machine: &mut Machine| prepare(machine);
        let mut machines = Machines::new(templates)
            .prepared_by(&mut prepare)
            .with_sockets_in(folder.path().to_owned());
        let record = crate::common::try_run(&mut machines, &experiment, &mut NoPorts);
        ended.store(true, Ordering::Relaxed);
        record.unwrap()
    });
    (record, events.into_inner().unwrap())
}

/// Returns the mean of a VM's windows, all its flows together, in segments; and its goodput.
fn seen(record: &RunRecord, name: &str) -> (f64, f64) {
    let end_ns = u64::from(SECONDS - 1) * 1_000_000_000;
    let flows = record.flows.iter().filter(|flow| flow.group == name);
    let of_flow = flows.map(|flow| {
        let within = |sample: &&FlowSample| (FROM_NS..end_ns).contains(&sample.at_ns);
        let samples: Vec<_> = flow.samples.iter().filter(within).collect();
        let windows = samples.iter().map(|sample| f64::from(sample.cwnd_segments));
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let bytes = last.delivered_bytes - first.delivered_bytes;
        let bps = bytes as f64 * 8e9 / (last.at_ns - first.at_ns) as f64;
        (windows.sum::<f64>() / samples.len() as f64, bps)
    });
    of_flow.fold((0.0, 0.0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1))
}

#[test]
fn live_vm_two_machines_share_by_the_host_s_weights_whatever_their_flows() {
    if !live_vm(&["6.12"]) {
        return;
    }
    // In one kernel, or in two uncoupled ones, they would be equal: only the host can make it three
    // to one.
    let weights = [3, 1];
    let templates = Templates::new(inside());
    let (record, events) = run(&templates, weights);
    let [one, many] = ["one", "many"].map(|name| seen(&record, name));
    let (windows, goodput) = (one.0 / many.0, one.1 / many.1);
    println!("weights 3:1, 1:4 flows: segments and bit/s {one:?} and {many:?}");
    for flow in &record.flows {
        let last = flow.samples.last().unwrap();
        println!(
            "{}[{}] at the end: window {}, in flight {} segments, receiver's window {} B, round trip \
             {} us, retransmitted {}",
            flow.group,
            flow.index,
            last.cwnd_segments,
            last.unacked_segments,
            last.snd_wnd_bytes,
            last.srtt_us,
            last.total_retransmits
        );
    }
    println!("ratio of windows {windows:.2}, of goodput {goodput:.2}");
    for name in ["one Coupled", "many Coupled"] {
        assert!(events.iter().any(|event| event == name), "{events:?}");
    }
    // Four flows that have seven and a half segments each send seven.
    assert!((2.6..=3.6).contains(&windows), "seed 1: {one:?}, {many:?}");
    // An emulated CPU that shares a real one doesn't fill the larger window.
    assert!(goodput > 1.5, "seed 1: {one:?}, {many:?}");
}
