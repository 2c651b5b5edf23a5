//! An end of a connection on a virtual machine: its guest's handling of stalls, and their effects.

use uc_core::steal::{Clock, Policy, Sample, Timer, consts};
use uc_net::Nanos;
use uc_tcp::{Connection, RttSample, Segment};

use super::machine::Machine;

/// The state of an end on a virtual machine.
#[derive(Clone, Debug)]
pub struct VmEnd {
    /// Number of the end's VM among all VMs.
    pub machine: usize,
    /// PVTCP policy; `None`: the guest has no PVTCP.
    policy: Option<Policy>,
    timer: Timer,
    counts: Counts,
}

/// Counts how often an end was affected by times in which its VM did not run, and how often PVTCP
/// reacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Retransmission timeouts at which the awaited ACK already waited in the driver domain.
    pub spurious_timeouts: u64,
    /// Number of retransmission timers that PVTCP deferred.
    pub deferred_timers: u64,
    /// Round-trip time samples that PVTCP replaced or ignored.
    pub filtered_samples: u64,
}

impl Counts {
    /// Adds the counters of another end to these.
    pub fn add(&mut self, more: &Counts) {
        self.spurious_timeouts += more.spurious_timeouts;
        self.deferred_timers += more.deferred_timers;
        self.filtered_samples += more.filtered_samples;
    }
}

impl VmEnd {
    /// Creates the state of an end on VM number `machine`.
    pub fn new(machine: usize, policy: Option<Policy>) -> VmEnd {
        VmEnd {
            machine,
            policy,
            timer: Timer::default(),
            counts: Counts::default(),
        }
    }

    /// Returns the effects of stalls on the end.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lets PVTCP defer the end's retransmission timer by a tick, if the timer is due on the current `tick`.
    pub fn defer(&mut self, connection: &mut Connection, machine: &mut Machine, tick: u64) {
        let (Some(policy), Some(deadline)) = (&self.policy, connection.retransmission_deadline())
        else {
            return;
        };
        let due_tick = machine.due_tick(deadline);
        let (clock, kind) = (&mut machine.clock, consts::RETRANSMISSION);
        if due_tick <= tick && clock.defers(policy, &mut self.timer, kind, due_tick, tick) {
            self.counts.deferred_timers += 1;
            connection.put_off_retransmission(machine.time_of(tick + 1));
        }
    }

    /// Counts this many timeouts of the end as spurious.
    pub fn note_spurious(&mut self, timeouts: u64) {
        self.counts.spurious_timeouts += timeouts;
    }

    /// Returns how to use the round-trip time sample that an arriving segment may give: as measured, unless PVTCP
    /// replaces or ignores it.
    #[inline]
    pub fn judge(
        &mut self,
        connection: &Connection,
        machine: &mut Machine,
        now: Nanos,
        segment: &Segment,
    ) -> RttSample {
        if machine.clock.spikes == 0 || self.policy.is_none() {
            return RttSample::Measured;
        }
        self.judge_after_stall(connection, machine, now, segment)
    }

    fn judge_after_stall(
        &mut self,
        connection: &Connection,
        machine: &mut Machine,
        now: Nanos,
        segment: &Segment,
    ) -> RttSample {
        let (Some(policy), Some(since)) = (&self.policy, connection.timed_since(now, segment))
        else {
            return RttSample::Measured;
        };
        let (sent_tick, tick) = (machine.tick_at(since), machine.tick_at(now));
        let clock: &mut Clock = &mut machine.clock;
        let sample = match clock.judge(policy, sent_tick, tick) {
            Sample::Measured => return RttSample::Measured,
            Sample::Smoothed => RttSample::Smoothed,
            Sample::Nothing => RttSample::Ignored,
        };
        self.counts.filtered_samples += 1;
        sample
    }
}
