//! A VM's CPUs, which are threads of this host: their thread numbers, their waiting times, and
//! their placement.
//!
//! Where the host has enough CPUs, guests run apart from everything else: the emulated network, its
//! receivers and QEMU's backends stay on one of this host's CPUs, and the guests have the others.
//! Otherwise the host's scheduler wakes a backend, or the network's real-time thread, on the very
//! CPU whose guest has just sent something, and the guest waits although another CPU is idle: on
//! two CPUs a guest that was to run for 4.4 s of 13 waited for 1.5 s of these.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use uc_experiment::{Case, Guests};

use crate::vm::error::VmError;
use crate::vm::machine::Machine;

impl Machine {
    /// Returns the number of the thread that executes the instructions of the VM's first CPU.
    ///
    /// # Errors
    /// [`VmError::Stall`] when QEMU has none.
    pub fn processor(&self) -> Result<i32, VmError> {
        Ok(self.processors()?[0])
    }

    /// Returns the numbers of the threads that execute the instructions of the VM's CPUs, the first CPU's first; at
    /// least one.
    fn processors(&self) -> Result<Vec<i32>, VmError> {
        let failed = |source| self.not_found(source);
        let mut found = BTreeMap::new();
        let folder = format!("/proc/{}/task", self.pid());
        for thread in std::fs::read_dir(folder).map_err(failed)? {
            let thread = thread.map_err(failed)?;
            let name = std::fs::read_to_string(thread.path().join("comm")).map_err(failed)?;
            // "CPU 0/TCG"
            let number = name
                .strip_prefix("CPU ")
                .and_then(|name| name.split_once('/'));
            let Some(number) = number.and_then(|(number, _)| number.parse::<u32>().ok()) else {
                continue;
            };
            let thread = thread.file_name().to_string_lossy().parse();
            found.insert(
                number,
                thread.map_err(|error| failed(io::Error::other(error)))?,
            );
        }
        if found.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        Ok(found.into_values().collect())
    }

    /// Returns how long the VM's first CPU has been ready to run while this host ran something else, an unplanned
    /// stall: the second number of schedstat, in nanoseconds. 0 if it can't be read.
    ///
    /// # Errors
    /// [`VmError::Stall`] when QEMU has no CPU.
    pub fn waited(&self) -> Result<Duration, VmError> {
        let thread = self.processor()?;
        let path = format!("/proc/{}/task/{thread}/schedstat", self.pid());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let waited_ns = text
            .split_whitespace()
            .nth(1)
            .and_then(|text| text.parse().ok());
        Ok(Duration::from_nanos(waited_ns.unwrap_or(0)))
    }

    /// Lets the VM's CPUs run on the host's CPUs that `apart` reserves for guests.
    pub(crate) fn place(&self, apart: &Apart) -> Result<(), VmError> {
        let placed = apart.place(&self.processors()?);
        placed.map_err(|errno| self.not_found(errno.into()))
    }

    fn not_found(&self, source: io::Error) -> VmError {
        VmError::Stall {
            node: self.node().into(),
            action: "found",
            source,
        }
    }
}

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// Returns the maximum number of a case's guests that run at once. Guests that share a core count
/// as one.
pub(crate) fn at_once(case: &Case) -> usize {
    let of_group = |group: &Guests| {
        let in_turn = group.hypervisor.as_ref().map_or(1, |shared| shared.guests);
        group.count.div_ceil(in_turn.max(1)) as usize
    };
    case.guests.iter().map(of_group).sum()
}

/// A reservation: while it lives, its thread and what that starts run on the first of the CPUs that
/// the thread may use.
#[derive(Debug)]
pub(crate) struct Apart {
    all: CpuSet,
    guests: CpuSet,
}

impl Apart {
    /// Reserves for guests all CPUs that the calling thread may use, but the first. Returns `None` where fewer than
    /// `wanted` remain, or without the right to set affinities: then the scheduler decides, and the guests' waiting
    /// time is counted.
    pub(crate) fn begin(wanted: usize) -> Option<Self> {
        let all = sched_getaffinity(SELF).ok()?;
        let mut numbers = (0..CpuSet::count()).filter(|&number| all.is_set(number) == Ok(true));
        let first = set([numbers.next()?]).ok()?;
        let others: Vec<usize> = numbers.collect();
        if others.len() < wanted {
            return None;
        }
        let guests = set(others).ok()?;
        sched_setaffinity(SELF, &first).ok()?;
        Some(Self { all, guests })
    }

    /// Lets the threads of a VM run on the guests' CPUs.
    fn place(&self, processors: &[i32]) -> Result<(), Errno> {
        processors
            .iter()
            .try_for_each(|&thread| sched_setaffinity(Pid::from_raw(thread), &self.guests))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // These CPUs were the thread's before.
        let _ = sched_setaffinity(SELF, &self.all);
    }
}

fn set(numbers: impl IntoIterator<Item = usize>) -> Result<CpuSet, Errno> {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(number)?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use uc_experiment::Experiment;

    use super::*;

    fn mine() -> Vec<usize> {
        let set = sched_getaffinity(SELF).unwrap();
        let numbers = 0..CpuSet::count();
        numbers
            .filter(|&number| set.is_set(number) == Ok(true))
            .collect()
    }

    #[test]
    fn the_thread_stays_on_the_first_cpu_during_a_reservation_and_regains_all_after() {
        let before = mine();
        assert!(Apart::begin(before.len()).is_none(), "none is left");
        assert_eq!(mine(), before);
        let Some(apart) = Apart::begin(1) else {
            assert_eq!(before.len(), 1);
            return;
        };
        assert_eq!(mine(), before[..1]);
        let heir = std::thread::spawn(mine).join().unwrap();
        assert_eq!(heir, before[..1], "what it starts stays there, too");
        apart.place(&[0]).unwrap();
        assert_eq!(mine(), before[1..]);
        drop(apart);
        assert_eq!(mine(), before);
    }

    #[test]
    fn guests_that_share_a_core_want_one_cpu() {
        let case = |guests: &str| {
            let text = format!(
                "name = \"t/c\"\ntitle = \"c\"\nduration = \"2s\"\n[network]\nrate = \"10Mbit\"\n\
                 delay = \"1ms\"\nqueue = {{ kind = \"droptail\", limit = \"64kB\" }}\n[stack.s]\n\
                 [[case]]\nname = \"c\"\ntitle = \"c\"\nguests = [{guests}]"
            );
            Experiment::from_str("t.toml", &text).unwrap().cases[0].clone()
        };
        let three = "{ name = \"a\", stack = \"s\", count = 3";
        assert_eq!(at_once(&case(&format!("{three} }}"))), 3);
        assert_eq!(
            at_once(&case(&format!("{three}, hypervisor = {{ vms = 3 }} }}"))),
            3
        );
        let turns = format!("{three}, hypervisor = {{ vms = 3, guests = 3 }} }}");
        assert_eq!(at_once(&case(&turns)), 1);
        assert_eq!(
            at_once(&case(&format!(
                "{turns}, {{ name = \"b\", stack = \"s\" }}"
            ))),
            2
        );
    }
}
