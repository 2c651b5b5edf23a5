//! A machine's processors, which are threads of this host: which they are, how long they waited for it,
//! and where they run.
//!
//! Where there are enough of them, guests run apart from everything else: the emulated network, its
//! receivers and QEMU's backends stay on one of this host's processors, and the guests have the others.
//! Left to itself, the host's scheduler wakes a backend, or the network's real-time thread, on the very
//! processor whose guest has just sent something, and the guest waits, though another is idle: on two
//! of them a guest that was to run for 4.4 s of 13 waited for 1.5 s of these.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use uc_experiment::{Case, Guests};

use crate::error::VmError;
use crate::machine::Machine;

impl Machine {
    /// The thread that executes its first processor's instructions.
    ///
    /// # Errors
    /// [`VmError::Stall`] when QEMU has none.
    pub fn processor(&self) -> Result<i32, VmError> {
        Ok(self.processors()?[0])
    }

    /// The threads that execute its processors' instructions, the first processor's first; one at
    /// least.
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

    /// How long its processor has been ready to run while this host ran something else: a stall that
    /// nobody ordered. The second number of schedstat, nanoseconds.
    ///
    /// # Errors
    /// [`VmError::Stall`] when QEMU has no processor.
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

    /// Lets its processors run where guests do.
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

/// How many of a case's guests may run at once. Those that take turns are one.
pub(crate) fn at_once(case: &Case) -> usize {
    let of_group = |group: &Guests| {
        let in_turn = group.hypervisor.as_ref().map_or(1, |shared| shared.guests);
        group.count.div_ceil(in_turn.max(1)) as usize
    };
    case.guests.iter().map(of_group).sum()
}

/// While it lives, its thread and what that starts run on the first of the processors that the thread
/// may use.
#[derive(Debug)]
pub(crate) struct Apart {
    all: CpuSet,
    guests: CpuSet,
}

impl Apart {
    /// For guests that want so many processors at once. `None` where there are no more than these, or
    /// no right to share them out: then the scheduler does it, and how long guests wait is counted.
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

    /// Lets the threads of a machine run where guests do.
    fn place(&self, processors: &[i32]) -> Result<(), Errno> {
        processors
            .iter()
            .try_for_each(|&thread| sched_setaffinity(Pid::from_raw(thread), &self.guests))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // These processors were the thread's before.
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
    fn a_thread_keeps_to_the_first_processor_while_guests_are_apart_and_has_all_again_after() {
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
    fn guests_that_take_turns_want_one_processor() {
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
