//! The schedule of sending: the probes of every waiting handshake, then the handshake.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use uc_core::watch::offset_ns;

use crate::layout::uc_held;

/// The key of a flow, as in the programs' maps.
pub(crate) type Key = Vec<u8>;

/// A task that the holder performs at a set time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// A probe of the handshake that waits under this key.
    Probe {
        /// The probe's number, from 0.
        index: u8,
        /// Key of the handshake that the probe is for.
        key: Key,
    },
    /// Send the handshake packet that waited for its probes.
    Release {
        /// Number of times that the packet was sent but did not reach its port.
        attempts: u8,
        /// Key of the handshake.
        key: Key,
    },
}

/// Tasks sorted by their time (`CLOCK_MONOTONIC`, ns).
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    tasks: BinaryHeap<Reverse<(u64, Task)>>,
}

impl Schedule {
    /// Adds the probes of one handshake. Returns the time in ns at which the handshake is due without a granter.
    pub fn plan(&mut self, key: &Key, held: &uc_held) -> u64 {
        let probes = u32::from(held.probes);
        for index in 0..probes {
            let after_ns = offset_ns(held.span_ns, probes, index, held.random);
            let task = Task::Probe {
                index: index as u8,
                key: key.clone(),
            };
            self.add(held.held_ns + u64::from(after_ns), task);
        }
        let span_ns = if probes > 0 { held.span_ns } else { 0 };
        held.held_ns + held.wait_ns.max(span_ns.into())
    }

    /// Adds the release of the handshake that waits under this key.
    pub fn release(&mut self, at_ns: u64, key: Key) {
        self.add(at_ns, Task::Release { attempts: 0, key });
    }

    /// Adds a task that is due at `at_ns`.
    pub fn add(&mut self, at_ns: u64, task: Task) {
        self.tasks.push(Reverse((at_ns, task)));
    }

    /// Returns the time in ns at which the next task is due; `None` without a task.
    pub fn next_ns(&self) -> Option<u64> {
        self.tasks.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Removes and returns the earliest task if it is due; otherwise returns `None`.
    pub fn due(&mut self, now_ns: u64) -> Option<Task> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.tasks.pop().map(|Reverse((_, task))| task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(probes: u8, span_ns: u32, wait_ns: u64) -> uc_held {
        uc_held {
            held_ns: 1_000_000,
            wait_ns,
            span_ns,
            random: 12_345,
            probes,
            pad: 0,
            frame_bytes: 0,
            frame: [0; 144],
            ask_bytes: 0,
        }
    }

    fn times(held: &uc_held) -> Vec<(u64, Task)> {
        let mut schedule = Schedule::default();
        let at_ns = schedule.plan(&vec![1], held);
        schedule.release(at_ns, vec![1]);
        let mut seen = Vec::new();
        while let Some(at_ns) = schedule.next_ns() {
            seen.push((at_ns, schedule.due(at_ns).unwrap()));
        }
        seen
    }

    #[test]
    fn probes_leave_in_order_with_uneven_gaps_before_the_handshake() {
        let seen = times(&held(10, 500_000, 0));
        assert_eq!(seen.len(), 11);
        let gaps: Vec<u64> = seen[..10]
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect();
        let mut different = gaps.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 5, "{gaps:?}");
        assert!(seen[9].0 < 1_500_000, "all of them within the span");
        let last = &seen[10];
        assert_eq!(last.0, 1_500_000);
        assert!(matches!(last.1, Task::Release { attempts: 0, .. }));
    }

    #[test]
    fn a_handshake_waits_for_its_pacing_slot_after_its_probes() {
        assert_eq!(
            times(&held(10, 500_000, 700_000)).last().unwrap().0,
            1_700_000
        );
        assert_eq!(
            times(&held(0, 500_000, 700_000)),
            times(&held(0, 0, 700_000))
        );
        assert_eq!(times(&held(0, 500_000, 0))[0].0, 1_000_000);
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        let mut schedule = Schedule::default();
        let at_ns = schedule.plan(&vec![1], &held(0, 0, 10));
        schedule.release(at_ns, vec![1]);
        assert_eq!(schedule.due(1_000_009), None);
        assert!(schedule.due(1_000_010).is_some());
        assert_eq!(schedule.next_ns(), None);
    }
}
