//! Ports, starts and congestion controls in real guests with older or newer kernels than this
//! machine's, which test those kernels' verifiers and hooks.

use uc_lab::vm::series::CHECKED_SERIES;

use crate::common::live_vm;
use crate::inside::site::Site;
use crate::inside::{guests, ports, starts, timed};

fn everything_in(series: &str) {
    if live_vm(&[series]) {
        crate::inside::run_in(series, "live_vm_ports::everything_inside_a_guest", &["tc"]);
    }
}

#[test]
fn live_vm_ports_starts_and_congestion_controls_work_in_5_10_or_say_why_not() {
    everything_in("5.10");
}

#[test]
fn live_vm_ports_starts_and_congestion_controls_work_in_6_1_or_say_why_not() {
    everything_in("6.1");
}

#[test]
fn live_vm_ports_starts_and_congestion_controls_work_in_6_12() {
    everything_in("6.12");
}

// The tree can't guarantee a kernel that changes every few weeks.
#[test]
#[ignore = "is for who asks: scripts/vm-kernels newest; cargo test newest -- --ignored"]
fn live_vm_ports_starts_and_congestion_controls_work_in_debians_newest() {
    everything_in("newest");
}

// Debian has no such kernel, and half an hour is long for a build.
#[test]
#[ignore = "is for who asks: scripts/vm-kasan; cargo test kasan -- --ignored"]
fn live_vm_ports_starts_and_congestion_controls_harm_no_kernel_with_kasan_and_lockdep() {
    everything_in(CHECKED_SERIES);
}

/// Runs every check on ports inside a guest. Only the tests of this file start it.
#[test]
#[ignore = "is run in a guest by the tests with kernels' numbers in their names"]
fn everything_inside_a_guest() {
    crate::inside::at_home();
    let site = Site::build(5);
    let mut running = ports::Running::new(&site);
    timed("all by hand", || ports::attach_by_hand(&mut running));
    timed("all watched", || starts::watch(&site));
    timed("all by a policy", || ports::keep_by_policy(&mut running));
    timed("all replaced", || ports::replace(&mut running));
    timed("flows handed over", ports::hand_over);
    timed("all upgraded", || ports::upgrade(&running));
    timed("all drain", || ports::drain(&mut running));
    timed("all finished", || running.finish());
    timed("all gone", || ports::be_gone(&site));
    guests::load();
    timed("the truth of a container", || guests::tell_the_truth(&site));
    guests::tune();
}
