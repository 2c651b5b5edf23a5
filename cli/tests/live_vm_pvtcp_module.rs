//! PVTCP's module in a guest's own kernel: it comes and goes, refuses what it cannot do, and takes no idle
//! time for a stall.

use std::time::Duration;

use uc_lab::vm::series::CHECKED_SERIES;
use uc_lab::vm::{Links, Machine, Template};

use crate::common::live_vm;
use crate::common::pvtcp::{KERNELS, SAMPLES, build, can_run, insert, read, remove, store};
use crate::common::uc::inside;

const STATS: &str = "/sys/module/uc_pvtcp/parameters/stats";
/// The most windows of idle time in which stalls are counted.
const WINDOWS: u32 = 5;

/// Reads one of the module's counters.
fn stat(machine: &mut Machine, name: &str) -> u64 {
    let text = read(machine, STATS);
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let value = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
    let value = value.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {text}"))
}

/// Reads the number of timer interrupts of the guest's CPUs.
fn timer_interrupts(machine: &mut Machine) -> u64 {
    let text = read(machine, "/proc/interrupts");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("LOC:"));
    let count = line.and_then(|line| line.split_whitespace().next());
    count.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn live_vm_the_module_loads_unloads_and_counts_no_idle_time_as_a_stall() {
    if !can_run() {
        return;
    }
    KERNELS.into_iter().for_each(comes_and_goes);
}

fn comes_and_goes(series: &str) {
    let module = build(series, SAMPLES);
    let template = Template::boot(series, &inside(), false).unwrap();
    let mut machine = template.machine("a guest", Links::default()).unwrap();
    store(&mut machine, &module).unwrap();
    let parameters = [
        "filter=off",
        "rto=0 filter=skip",
        "tlp=1 filter=flight slack_ticks=2",
        "",
    ];
    for parameters in parameters.iter().cycle().take(100) {
        machine.order(&insert(parameters)).unwrap();
        machine.order(&remove()).unwrap();
    }
    machine.order(&insert("")).unwrap();
    // A host that other machines share stalls this one in bursts, so a window may be unlucky. Were idle
    // time counted as stalls, nearly every interrupt of each window would be one.
    let is_quiet = (1..=WINDOWS).any(|_| {
        let before = (
            timer_interrupts(&mut machine),
            stat(&mut machine, "spikes"),
            machine.waited(),
        );
        std::thread::sleep(Duration::from_secs(4));
        let interrupts = timer_interrupts(&mut machine) - before.0;
        let spikes = stat(&mut machine, "spikes") - before.1;
        let waited = machine.waited().unwrap() - before.2.unwrap();
        println!(
            "{series}, idle: {interrupts} timer interrupts, {spikes} spikes, {waited:?} of waiting"
        );
        // Tickless: otherwise there would be a thousand ticks.
        assert!(interrupts < 500, "{interrupts}");
        // Any delay is this host's.
        4 * spikes <= interrupts + waited.as_millis() as u64
    });
    assert!(is_quiet, "idle time counts as stalls");
    machine.order(&remove()).unwrap();
    machine.check_unharmed().unwrap();
}

#[test]
fn live_vm_the_module_refuses_with_a_message_and_leaves_nothing_hooked() {
    if !can_run() {
        return;
    }
    KERNELS.into_iter().for_each(refuses);
}

fn refuses(series: &str) {
    let [module, lost] = [SAMPLES, "tcp_ack_no_such_thing"].map(|name| build(series, name));
    let template = Template::boot(series, &inside(), false).unwrap();
    let mut machine = template.machine("a guest", Links::default()).unwrap();
    store(&mut machine, &lost).unwrap();
    let error = machine.order(&insert("")).unwrap_err().to_string();
    assert!(error.contains("(os error 2)"), "{error}");
    // A hook that isn't needed isn't missed.
    machine.order(&insert("filter=off")).unwrap();
    machine.order(&remove()).unwrap();
    store(&mut machine, &module).unwrap();
    for wrong in ["filter=median", "stats=1", "rto=perhaps"] {
        machine.order(&insert(wrong)).unwrap_err();
    }
    machine.order(&insert("")).unwrap();
    machine.order(&remove()).unwrap();
    let console = machine.console();
    for line in [
        "tcp_ack_no_such_thing can't be hooked (-2): nothing is changed",
        "filter=median is none of",
    ] {
        assert!(console.contains(line), "{console}");
    }
    machine.check_unharmed().unwrap();
}

// Debian has no such kernel, and half an hour is long for a build.
#[test]
#[ignore = "is for who asks: scripts/vm-kasan; cargo test kasan -- --ignored"]
fn live_vm_coming_and_going_of_the_module_harms_no_kernel_with_kasan_and_lockdep() {
    if live_vm(&[CHECKED_SERIES]) {
        comes_and_goes(CHECKED_SERIES);
        refuses(CHECKED_SERIES);
    }
}
