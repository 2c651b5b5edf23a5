//! How fast a machine's processor is emulated, and what its kernel must be told of the time.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::kernel;

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// The processor itself.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

impl Accel {
    /// QEMU's arguments for it. Emulated processors have a thread each, unless they are to take turns
    /// in one: QEMU 7.2 keeps what it has translated of an instruction that another thread changes in
    /// that moment, and a guest that changes its own kernel's code may stand still for good (docs/vm.md).
    pub(crate) fn arguments(self, in_turn: bool) -> [&'static str; 4] {
        match self {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accel::Tcg if in_turn => ["-accel", "tcg,thread=single,tb-size=64", "-cpu", "max"],
            Accel::Tcg => ["-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max"],
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "KVM",
            Accel::Tcg => "TCG",
        }
    }

    /// Those to be tried, in order: KVM only where the device can be opened and makes a machine. That
    /// one boots too shows when it does; a nested KVM may make machines that hang, and that is
    /// remembered until this host boots.
    pub fn candidates() -> Vec<Self> {
        if !is_known_to_hang() && makes_machines() {
            vec![Accel::Kvm, Accel::Tcg]
        } else {
            vec![Accel::Tcg]
        }
    }
}

/// KVM did not boot a machine in time: until the next boot nobody need try again.
pub(crate) fn remember_that_kvm_hangs() {
    let (Some(path), Some(boot)) = (hung_path(), boot_id()) else {
        return;
    };
    // Without the note the next run waits as long as this one.
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
    // SAFETY: the descriptor is open and the argument is a number; the answer is a new descriptor or
    // a failure.
    let machine = unsafe { libc::ioctl(kvm.as_raw_fd(), code, 0) };
    if machine < 0 {
        return false;
    }
    // SAFETY: the descriptor is ours and nobody else has it.
    unsafe { libc::close(machine) };
    true
}

/// The rate of the host's time stamp counter, which a guest under emulation sees as its own, in kHz.
/// A microvm has no timer that its kernel could measure it by: without the number its boot hangs
/// now and then.
pub fn tsc_khz() -> u64 {
    let (started, first) = moment();
    std::thread::sleep(Duration::from_millis(20));
    let (ended, last) = moment();
    let ticks = u128::from(last.wrapping_sub(first));
    (ticks * 1_000_000 / (ended - started).as_nanos().max(1)) as u64
}

/// Both clocks at one time: of several readings the one that was interrupted least.
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
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Other processors never get here: [`crate::machine`] refuses them first.
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
