//! An end of a connection on a virtual machine: what its guest does about stalls, and what they did
//! to it.

use uc_core::steal::{Clock, Policy, Sample, Timer, consts};
use uc_net::Nanos;
use uc_tcp::{Connection, RttSample, Segment};

use super::machine::Machine;

/// An end of a connection on a virtual machine.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The machine's number.
    pub machine: usize,
    /// PVTCP, where the guest has it.
    policy: Option<Policy>,
    timer: Timer,
    counts: Counts,
}

/// What stalls did to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Timeouts at which an ACK of what they waited for was already in the driver domain.
    pub spurious_timeouts: u64,
    /// Retransmission timers that were put off.
    pub deferred_timers: u64,
    /// Round-trip times that weren't taken as measured.
    pub filtered_samples: u64,
}

impl Counts {
    /// Adds what another end counted.
    pub fn add(&mut self, more: &Counts) {
        self.spurious_timeouts += more.spurious_timeouts;
        self.deferred_timers += more.deferred_timers;
        self.filtered_samples += more.filtered_samples;
    }
}

impl Resident {
    /// An end on machine number `machine`.
    pub fn new(machine: usize, policy: Option<Policy>) -> Resident {
        Resident {
            machine,
            policy,
            timer: Timer::default(),
            counts: Counts::default(),
        }
    }

    /// What stalls did to it.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Its timers are due on `tick`, which is now: puts its retransmission timer off, if that is
    /// what the guest does.
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

    /// So many of its timers were spurious.
    pub fn note_spurious(&mut self, timeouts: u64) {
        self.counts.spurious_timeouts += timeouts;
    }

    /// What the round-trip time counts for that an arriving segment may show.
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
