//! PVTCP in VMs of whole experiments, by the key `pvtcp`; and its module loaded and unloaded during
//! transfers.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use uc_lab::load::GoOn;
use uc_lab::vm::machine::PATIENCE;
use uc_lab::vm::message::{Answer, FlowEvent, Order, Request};
use uc_lab::vm::platform::set_up;
use uc_lab::vm::series::CHECKED_SERIES;
use uc_lab::vm::{Links, Machine, Shape, Template};
use uc_lab::wiring::Ends;
use uc_lab::{Lab, LabError, Load, NoPorts, Plan, Platform, Reception};

use crate::common::pvtcp::{KERNELS, SAMPLES, SERIES, build, can_run, insert, remove, store};
use crate::common::uc::{assert_refusal, bench, folder_with, inside, outcome};
use crate::common::{experiment, guest, live_vm};

/// Maximum number of cycles of loading and unloading in each of the two machines.
const CYCLES: usize = 50;
/// Minimum number of cycles on a machine so busy that the time is over first.
const CYCLES_MIN: usize = 10;
const CYCLING: Duration = Duration::from_secs(40);
/// Longest time without any delivery before the guest counts as hung.
const SILENCE: Duration = Duration::from_secs(60);
/// A module's hooks are removed when every task has slept or run its own program
/// (synchronize_rcu_tasks), and a kernel thread with a constant flow of packets does neither: so
/// the link's rate leaves an emulated CPU some time.
const NETWORK: &str = "rate = \"10Mbit\"\naccess_rate = \"1Gbit\"\ndelay = \"50us\"\n\
     queue = { kind = \"droptail\", limit = \"64kB\" }";

/// Creates the only guest of a case, lets it send, and loads and unloads the module meanwhile.
struct Cycles<'a> {
    template: &'a Template,
    module: &'a [u8],
    /// Number of cycles.
    done: Cell<usize>,
    /// Bytes delivered by the end.
    delivered_bytes: Cell<u64>,
}

impl Platform for Cycles<'_> {
    fn ends(&self) -> Ends {
        Ends::Machines
    }

    /// Ends the run when the cycles are done: there is nothing to sample.
    fn start<'a>(
        &'a mut self,
        plan: &'a Plan,
        lab: &'a Lab,
        _: u64,
        _: GoOn<'_>,
    ) -> Result<Box<dyn Load + 'a>, LabError> {
        let guest = &plan.guests[0];
        let links = Links {
            tap: Some(&lab.wiring.machines[0].as_fd().try_clone_to_owned().unwrap()),
            coupling: None,
        };
        let mut machine = self.template.machine(&guest.label, links)?;
        machine.order(&Request::SetUp(set_up(plan, guest)))?;
        let reception = Reception::start(plan, &lab.wiring)?;
        let flow = &reception.flows()[0];
        machine.order(&Request::Send(vec![Order {
            from: flow.running.tuple.source,
            to: flow.running.tuple.destination,
            congestion_control: guest.stack.congestion_control.clone(),
            wait_us: 0,
            block_bytes: None,
        }]))?;
        store(&mut machine, self.module)?;
        let begun = Instant::now();
        while reception.flows()[0].delivered_bytes() == 0 {
            // A failed connection is reported only on request.
            let said = machine.ask(&Request::Sample, PATIENCE)?;
            let Answer::Samples { sightings, events } = &said else {
                panic!("{said:?}");
            };
            let has_failed = |event: &FlowEvent| matches!(event, FlowEvent::Failed(_));
            let hangs = begun.elapsed() > SILENCE || events.iter().any(has_failed);
            assert!(!hangs, "the guest doesn't send: {events:?} {sightings:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let parameters = ["", "filter=off", "rto=0 filter=flight", "tlp=1 filter=skip"];
        let begun = Instant::now();
        for parameters in parameters.iter().cycle().take(CYCLES) {
            wait_for(&mut machine, &insert(parameters), &reception)?;
            std::thread::sleep(Duration::from_millis(20));
            wait_for(&mut machine, &remove(), &reception)?;
            self.done.set(self.done.get() + 1);
            if begun.elapsed() > CYCLING && self.done.get() >= CYCLES_MIN {
                break;
            }
        }
        machine.check_unharmed().unwrap();
        self.delivered_bytes
            .set(reception.flows()[0].delivered_bytes());
        Err(LabError::Cancelled)
    }
}

/// Sends a request, and waits as long as the guest's flow makes progress meanwhile.
fn wait_for(
    machine: &mut Machine,
    request: &Request,
    reception: &Reception,
) -> Result<(), LabError> {
    let progress = Cell::new((Instant::now(), 0));
    machine.tell(request)?;
    let answer = machine.hear_while(Duration::from_secs(300), &|| {
        let delivered_bytes = reception.flows()[0].delivered_bytes();
        let (since, before) = progress.get();
        if delivered_bytes > before {
            progress.set((Instant::now(), delivered_bytes));
        } else if since.elapsed() > SILENCE {
            return Err(LabError::Cancelled);
        }
        Ok(())
    });
    match answer {
        Ok(Answer::Done) => Ok(()),
        other => panic!(
            "seed 1: {request:?}: {other:?}, {} bytes delivered: {}",
            progress.get().1,
            machine.console()
        ),
    }
}

#[test]
fn live_vm_the_module_loads_and_unloads_during_transfers() {
    come_and_go_on_all(1);
}

#[test]
fn live_vm_the_module_loads_and_unloads_during_transfers_on_two_cpus() {
    come_and_go_on_all(2);
}

// Debian has no such kernel, and half an hour is long for a build.
#[test]
#[ignore = "is for who asks: scripts/vm-kasan; cargo test kasan -- --ignored"]
fn live_vm_the_module_loads_and_unloads_on_a_kernel_with_kasan_and_lockdep() {
    if live_vm(&[CHECKED_SERIES]) {
        let module = build(CHECKED_SERIES, SAMPLES);
        for processors in [1, 2] {
            come_and_go(CHECKED_SERIES, &module, processors);
        }
    }
}

fn come_and_go_on_all(processors: u8) {
    if !can_run() {
        return;
    }
    for series in KERNELS {
        come_and_go(series, &build(series, SAMPLES), processors);
    }
}

fn come_and_go(series: &str, module: &[u8], processors: u8) {
    let shape = Shape {
        processors,
        in_turn: true,
        ..Shape::narrow(false)
    };
    let template = Template::boot_wide(series, &inside(), shape, &|| Ok(())).unwrap();
    let stack = "[stack.tcp]\ncongestion_control = \"reno\"\nrto_min = \"1ms\"";
    let experiment = experiment(5, NETWORK, &guest("one", "tcp", ""), stack);
    let mut platform = Cycles {
        template: &template,
        module,
        done: Cell::new(0),
        delivered_bytes: Cell::new(0),
    };
    let ended = crate::common::try_run(&mut platform, &experiment, &mut NoPorts);
    let (delivered_bytes, done) = (platform.delivered_bytes.get(), platform.done.get());
    println!("{series}, {processors} processors: {done} times, {delivered_bytes} bytes meanwhile");
    assert!(matches!(ended, Err(LabError::Cancelled)), "{ended:?}");
    assert!(
        done >= CYCLES_MIN,
        "seed 1: {series}, {processors} processors: {done} times"
    );
    assert!(delivered_bytes > 100_000, "seed 1: {delivered_bytes}");
}

/// A guest with PVTCP that runs for a third of the time.
const STALLED: &str = r#"
name = "t/pvtcp"
title = "pvtcp"
duration = "5s"
settle = "1s"
[network]
rate = "100Mbit"
access_rate = "1Gbit"
delay = "50us"
queue = { kind = "droptail", limit = "64kB" }
[stack.pvtcp]
congestion_control = "reno"
rto_min = "1ms"
pvtcp = { rtt = "flight" }
[[case]]
name = "stalled"
guests = [{ name = "one", stack = "pvtcp", hypervisor = { vms = 3 } }]
[[expect]]
name = "stalls that the guest saw"
measure = { kind = "counter", case = "stalled", name = "vm_one_pvtcp_spikes" }
at_least = 20.0
"#;

#[test]
fn live_vm_pvtcp_loads_its_module_or_names_the_command_that_builds_it() {
    if !can_run() {
        return;
    }
    // Uses a cache of its own: the existing kernel, at first without the module.
    let cache = tempfile::tempdir().unwrap();
    let kernels = cache.path().join("undercurrent/kernels").join(SERIES);
    std::fs::create_dir_all(&kernels).unwrap();
    let there = uc_lab::vm::Kernel::find(SERIES).unwrap().modules();
    for name in ["vmlinuz", "release", "modules", "modules.builtin"] {
        symlink(there.with_file_name(name), kernels.join(name)).unwrap();
    }
    let folder = folder_with(STALLED);
    let run = || {
        let mut command = Command::new(bench());
        command.current_dir(folder.path());
        command.env("XDG_CACHE_HOME", cache.path());
        command.args([
            "run", "t.toml", "--on", "vm", "--repeat", "1", "--seed", "7",
        ]);
        outcome(command)
    };
    assert_refusal(&run(), &["scripts/vm-kernels --pvtcp 6.1"], "no module");
    std::fs::write(kernels.join("uc_pvtcp.ko"), build(SERIES, SAMPLES)).unwrap();
    let ended = run();
    assert_eq!(ended.status, Some(0), "seed 7: {ended:?}");
}
