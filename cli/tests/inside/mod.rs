//! Tests that run inside a VM with an older kernel. The VM runs this test program itself, with the name of a test that
//! is ignored everywhere else.

pub mod guests;
pub mod ports;
pub mod site;
pub mod starts;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use uc_lab::vm::image::place_of;
use uc_lab::vm::series::slowdown;
use uc_lab::vm::{Links, Programs, Template};

use crate::common::bench::release;
use crate::common::uc::{UC, inside as programs};

/// Path of `uc` in a guest.
const INSIDE: &str = "/bin/uc";
/// Timeout for the whole run: more than it takes on emulated processors of a busy machine.
const LIMIT: Duration = Duration::from_secs(1200);

/// Boots a kernel and runs the ignored test of this name in it, which may run these programs. Panics with its
/// output unless it succeeds and the kernel reported no fault.
pub fn run_in(series: &str, test: &str, others: &[&str]) {
    let started = Instant::now();
    let own = std::env::current_exe().unwrap();
    let others = others.iter().map(|name| uc_lab::need::find(name).unwrap());
    let programs = others.fold(programs().with(&own), Programs::with);
    let template = Template::boot(series, &programs, false).unwrap();
    let mut machine = template.machine("a guest", Links::default()).unwrap();
    let (accel, boot) = (template.accel().name(), started.elapsed());
    println!("{series}: {accel}, there after {boot:.1?}");
    let arguments = [&place_of(&own), "--exact", test, "--ignored", "--nocapture"];
    let ran = machine.run(&arguments, LIMIT * slowdown(series));
    let console = machine.console();
    let ran = ran.unwrap_or_else(|error| panic!("{series}: {error}\nconsole: {console}"));
    println!("{}\n{series}: {:.1?} in all", ran.stdout, started.elapsed());
    let text = format!("{series}: {}\nconsole: {console}", ran.stderr);
    // A test that failed may have failed because of the kernel's fault.
    let unharmed = machine.check_unharmed();
    unharmed.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(ran.status, Some(0), "{text}");
    assert!(ran.stdout.contains("1 passed"), "{text}");
}

/// Returns the version of the running kernel: 5.10 is (5, 10).
pub fn kernel() -> (u32, u32) {
    let release = release();
    let mut numbers = release.split(['.', '-']).map(str::parse);
    let mut next = || numbers.next().unwrap().unwrap();
    (next(), next())
}

/// Links `uc` to the path at which the tests' helpers look for it.
pub fn at_home() {
    let home = PathBuf::from(UC);
    std::fs::create_dir_all(home.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(INSIDE, home).unwrap();
}

/// Returns `uc` in the guest's own namespace.
pub fn uc(arguments: &[&str]) -> Command {
    let mut command = Command::new(INSIDE);
    command.args(arguments);
    command
}

/// Runs `f` and prints how long it took.
pub fn timed<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let answer = f();
    println!("{what}: {:.1?}", started.elapsed());
    answer
}
