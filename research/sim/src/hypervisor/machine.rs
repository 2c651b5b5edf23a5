//! A virtual machine: its clock, and the events that wait while it isn't running.

use std::collections::{BTreeSet, VecDeque};

use uc_core::steal::{Clock, Policy};
use uc_net::Nanos;

use crate::packet::{Address, Packet};

/// Settings of a VM that shares a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePlan {
    /// Time from one timer interrupt to the next.
    pub tick: Nanos,
    /// Phase of the tick at the start of the run, below one tick.
    pub tick_offset: Nanos,
    /// Maximum number of packets that wait for the VM in the driver domain.
    pub backlog_packets: usize,
    /// Start and downtime of a migration; `None`: the VM does not migrate.
    pub migration: Option<(Nanos, Nanos)>,
}

/// An application's operation on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The application opens the connection.
    Open,
    /// The application queues this many bytes more; `u64::MAX` stands for endless data.
    Write(u64),
    /// The application ends the data of the connection.
    Finish,
    /// The application discards unsent data and ends the data of the connection.
    Stop,
}

/// The state of a virtual machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of the core on which the VM runs.
    pub core: usize,
    /// The VM's clock, as its operating system knows it.
    pub clock: Clock,
    /// Indices of the ends of connections on the VM.
    pub members: BTreeSet<usize>,
    /// Packets that wait in the driver domain: they arrived while the VM wasn't running.
    pub backlog: VecDeque<Packet>,
    /// Operations of the VM's applications that wait until the VM runs.
    pub deeds: VecDeque<(Address, Deed)>,
    tick_ns: u64,
    offset_ns: u64,
    backlog_packets: usize,
    dropped: u64,
    has_core: bool,
    migrates: bool,
}

impl Machine {
    /// Creates the VM at time zero on this core; `has_core`: whether the VM runs.
    pub fn new(plan: &MachinePlan, core: usize, has_core: bool) -> Machine {
        let mut machine = Machine {
            core,
            clock: Clock::default(),
            members: BTreeSet::new(),
            backlog: VecDeque::new(),
            deeds: VecDeque::new(),
            tick_ns: plan.tick.0.max(1),
            offset_ns: plan.tick_offset.0,
            backlog_packets: plan.backlog_packets,
            dropped: 0,
            has_core,
            migrates: false,
        };
        machine.note_ticks(Nanos::ZERO);
        machine
    }

    /// Returns whether the VM has the core and is not migrating.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.has_core && !self.migrates
    }

    /// Returns whether the VM is not migrating, so that it could run.
    pub fn is_here(&self) -> bool {
        !self.migrates
    }

    /// Returns the number of the last tick at `now`. Ticks count from 1: 0 stands for no tick in the core.
    #[inline]
    pub fn tick_at(&self, now: Nanos) -> u64 {
        (now.0 + self.offset_ns) / self.tick_ns + 1
    }

    /// Returns the time of a tick.
    pub fn time_of(&self, tick: u64) -> Nanos {
        let since_ns = tick.saturating_sub(1).saturating_mul(self.tick_ns);
        Nanos(since_ns.saturating_sub(self.offset_ns))
    }

    /// Returns the tick on which a timer fires: the first at or after the timer's deadline.
    #[inline]
    pub fn due_tick(&self, deadline: Nanos) -> u64 {
        let since_ns = deadline.0.saturating_add(self.offset_ns);
        since_ns.div_ceil(self.tick_ns) + 1
    }

    /// Returns when a timer with this deadline fires.
    #[inline]
    pub fn due(&self, deadline: Nanos) -> Nanos {
        self.time_of(self.due_tick(deadline))
    }

    /// Records that the VM has had every tick up to now.
    fn note_ticks(&mut self, now: Nanos) {
        let tick = self.tick_at(now);
        self.clock.tick(&Policy::paper(), tick, tick);
    }

    /// Gives the VM the core or takes it away, and starts or ends its migration; `None`: no change. Returns whether the
    /// VM runs now; `None`: as before.
    pub fn set(
        &mut self,
        has_core: Option<bool>,
        migrates: Option<bool>,
        now: Nanos,
    ) -> Option<bool> {
        let before = self.is_running();
        self.has_core = has_core.unwrap_or(self.has_core);
        self.migrates = migrates.unwrap_or(self.migrates);
        let after = self.is_running();
        if before && !after {
            self.note_ticks(now);
        }
        (before != after).then_some(after)
    }

    /// Resumes the VM: its clock advances by all pending ticks at once. Returns the current tick.
    pub fn wake(&mut self, now: Nanos) -> u64 {
        let (tick, expected) = (self.tick_at(now), self.clock.tick + 1);
        self.clock.tick(&Policy::paper(), tick, expected);
        tick
    }

    /// Stores a packet that the VM can't process now. Returns whether there was room; otherwise counts the packet as
    /// dropped.
    pub fn hold(&mut self, packet: Packet) -> bool {
        let has_room = self.backlog.len() < self.backlog_packets;
        if has_room {
            self.backlog.push_back(packet);
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// Returns the number of packets for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(microseconds: u64) -> Nanos {
        Nanos::from_micros(microseconds)
    }

    fn machine(tick_offset: Nanos) -> Machine {
        let plan = MachinePlan {
            tick: us(1_000),
            tick_offset,
            backlog_packets: 2,
            migration: None,
        };
        Machine::new(&plan, 0, true)
    }

    #[test]
    fn timers_fire_on_the_first_tick_at_their_deadline_or_after_it() {
        let machine = machine(us(300));
        assert_eq!(machine.due(us(0)), us(700));
        assert_eq!(machine.due(us(700)), us(700));
        assert_eq!(machine.due(us(701)), us(1_700));
        assert_eq!(machine.tick_at(us(699)) + 1, machine.tick_at(us(700)));
        assert_eq!(machine.time_of(machine.tick_at(us(5_000))), us(4_700));
    }

    #[test]
    fn the_clock_jumps_by_the_ticks_of_the_stall() {
        let mut machine = machine(us(0));
        assert_eq!(machine.set(Some(false), None, us(30_200)), Some(false));
        assert_eq!(machine.set(Some(true), None, us(90_200)), Some(true));
        let tick = machine.wake(us(90_200));
        assert!(machine.clock.is_spiked(tick));
        assert_eq!(machine.clock.jump_ticks_max, 60);
    }

    #[test]
    fn a_stall_within_a_tick_or_up_to_the_next_is_no_jump() {
        let mut machine = machine(us(0));
        for (from, to) in [(10_200, 10_900), (11_500, 12_100), (13_900, 14_999)] {
            machine.set(Some(false), None, us(from));
            machine.set(Some(true), None, us(to));
            let tick = machine.wake(us(to));
            assert!(!machine.clock.is_spiked(tick), "{from} to {to}");
        }
    }

    #[test]
    fn a_migrated_machine_runs_once_it_has_arrived_and_has_the_core() {
        let mut machine = machine(us(0));
        assert_eq!(machine.set(None, Some(true), us(1_000)), Some(false));
        assert_eq!(machine.set(Some(false), None, us(2_000)), None);
        assert_eq!(machine.set(None, Some(false), us(3_000)), None);
        assert_eq!(machine.set(Some(true), None, us(4_000)), Some(true));
    }
}
