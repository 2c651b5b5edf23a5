//! Emulation of a VM's CPU, and the clock parameters of its kernel.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::vm::kernel;

/// The executor of a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// KVM: the CPU itself runs the guest.
    Kvm,
    /// QEMU translates the guest's instructions.
    Tcg,
}

impl Accel {
    /// Returns QEMU's arguments. Each emulated CPU has a thread, unless `in_turn`, which runs all
    /// of them in one: QEMU 7.2 keeps its translation of an instruction that another thread changes
    /// at that time, and a guest that changes its own kernel's code may then hang for good
    /// (docs/vm.md).
    pub(crate) fn arguments(self, in_turn: bool) -> [&'static str; 4] {
        match self {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accel::Tcg if in_turn => ["-accel", "tcg,thread=single,tb-size=64", "-cpu", "max"],
            Accel::Tcg => ["-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max"],
        }
    }

    /// Returns the executor's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "KVM",
            Accel::Tcg => "TCG",
        }
    }

    /// Returns the executors to try, in order: KVM only if the device can be opened and creates a
    /// VM. Whether that VM boots shows later; a nested KVM may create VMs that hang, which is
    /// remembered until this host boots.
    pub fn candidates() -> Vec<Self> {
        if !is_known_to_hang() && makes_machines() {
            vec![Accel::Kvm, Accel::Tcg]
        } else {
            vec![Accel::Tcg]
        }
    }
}

/// Records that KVM did not boot a VM in time, so that it is not tried until the next boot.
pub(crate) fn remember_that_kvm_hangs() {
    let (Some(path), Some(boot)) = (hung_path(), boot_id()) else {
        return;
    };
    // Without the record the next run waits as long as this one.
    let _ = fs::write(path, boot);
}

fn is_known_to_hang() -> bool {
    let noted = hung_path().and_then(|path| fs::read_to_string(path).ok());
    noted.is_some() && noted == boot_id()
}

fn hung_path() -> Option<PathBuf> {
    let kernels = kernel::cache_folder().ok()?;
    Some(kernels.parent()?.join("kvm-hangs-since-boot"))
}

fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

fn makes_machines() -> bool {
    let Ok(kvm) = OpenOptions::new().read(true).write(true).open("/dev/kvm") else {
        return false;
    };
    // linux/kvm.h: KVM_CREATE_VM is _IO(0xAE, 1); type 0 is the default machine.
    let code = nix::request_code_none!(0xAE, 0x01);
    // SAFETY: the descriptor is open and the argument is a number; the result is a new descriptor
    // or a failure.
    let machine = unsafe { libc::ioctl(kvm.as_raw_fd(), code, 0) };
    if machine < 0 {
        return false;
    }
    // SAFETY: the descriptor was just returned and has no other owner.
    unsafe { libc::close(machine) };
    true
}

/// Measures the rate of the host's time stamp counter, which a guest under emulation sees as its
/// own, in kHz. A microvm has no timer by which its kernel could measure it: without the number its
/// boot hangs now and then.
pub fn tsc_khz() -> u64 {
    let (started, first) = moment();
    std::thread::sleep(Duration::from_millis(20));
    let (ended, last) = moment();
    let ticks = u128::from(last.wrapping_sub(first));
    (ticks * 1_000_000 / (ended - started).as_nanos().max(1)) as u64
}

/// Reads the monotonic clock and the time stamp counter at one time: the least interrupted of several readings.
fn moment() -> (Instant, u64) {
    let readings = (0..16).map(|_| {
        let (before, at, after) = (tsc(), Instant::now(), tsc());
        (after.wrapping_sub(before), at, before)
    });
    let best = readings.min_by_key(|(took, ..)| *took);
    best.map_or_else(|| (Instant::now(), tsc()), |(_, at, ticks)| (at, ticks))
}

#[cfg(target_arch = "x86_64")]
fn tsc() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns 0: other architectures never get here, [`crate::vm::machine`] refuses them first.
#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_of_the_counter_agree() {
        let (first, second) = (tsc_khz(), tsc_khz());
        assert!((500_000..10_000_000).contains(&first), "{first} kHz");
        assert!(
            first.abs_diff(second) < first / 1000,
            "{first} and {second}"
        );
    }
}
