//! A flow of the record, and the sums over its closed connections.

use uc_experiment::{Completion, LawEvent};
use uc_net::Nanos;
use uc_tcp::Totals;

use super::progress::State;
use crate::hosts::{Hosts, Side, Slot};
use crate::hypervisor::Counts;
use crate::scenario::FlowPlan;

/// A flow of the run's record, with its connections.
#[derive(Debug)]
pub struct Flow {
    pub(super) plan: FlowPlan,
    pub(super) state: State,
    pub(super) started: bool,
    pub(super) stopped: bool,
    /// Open connections, each with the index in `completions` of the transfer that it serves.
    pub(super) open: Vec<(Slot, usize)>,
    pub(super) completions: Vec<Completion>,
    /// Counters of the flow's closed connections.
    pub(super) retired: Retired,
    /// Events of the law on connections that have closed, since they were last taken.
    pub(super) events: Vec<LawEvent>,
}

/// Sums of the counters of a flow's closed connections.
#[derive(Clone, Debug, Default)]
pub struct Retired {
    /// Counters of the guest's ends of the connections.
    pub guest: Totals,
    /// Payload delivered to the receiving application, in bytes.
    pub delivered_bytes: u64,
    /// Numbers of gaps between ACKs that reached the guest, in bins as in the record.
    pub ack_gaps: Vec<u32>,
    /// Segments at the guest's port, by reason code.
    pub port_counts: Vec<u64>,
    /// Segments at the receiver's port, by reason code.
    pub receiver_port_counts: Vec<u64>,
    /// Data segments received of which every byte had arrived before.
    pub needless_segments: u64,
    /// Effects of stalls on the guest's ends.
    pub stalls: Counts,
}

impl Flow {
    pub(super) fn new(plan: &FlowPlan, state: State) -> Flow {
        Flow {
            plan: plan.clone(),
            state,
            started: false,
            stopped: false,
            open: Vec::new(),
            completions: Vec::new(),
            retired: Retired::default(),
            events: Vec::new(),
        }
    }

    /// Returns the transfers so far, in order of their start.
    pub fn completions(&self) -> &[Completion] {
        &self.completions
    }

    /// Iterates over the open connections, the youngest last.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        self.open.iter().map(|(slot, _)| *slot)
    }

    /// Returns the sums over the closed connections.
    pub fn retired(&self) -> &Retired {
        &self.retired
    }

    /// Returns the plan that the flow follows.
    pub fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// Returns whether the flow has begun.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Returns whether a bulk flow was ended before the run was.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Appends the events of the law on all connections since the last call, in order of time.
    pub fn take_events(&mut self, hosts: &mut Hosts, events: &mut Vec<LawEvent>) {
        let known = events.len();
        events.append(&mut self.events);
        for (slot, _) in &self.open {
            events.extend(hosts.take_events(*slot));
        }
        events[known..].sort_by_key(|event| event.at_ns);
    }

    pub(super) fn begin_completion(&mut self, now: Nanos, bytes: u64) -> usize {
        self.completions.push(Completion {
            started_ns: now.0,
            finished_ns: None,
            bytes,
            ideal_ns: None,
        });
        self.completions.len() - 1
    }

    /// Assigns a transfer that begins now to the youngest connection.
    pub(super) fn serve(&mut self, now: Nanos, bytes: u64) {
        let completion = self.begin_completion(now, bytes);
        if let Some((_, serves)) = self.open.last_mut() {
            *serves = completion;
        }
    }

    pub(super) fn complete(&mut self, number: usize, now: Nanos) {
        if let Some(completion) = self.completions.get_mut(number) {
            completion.finished_ns = Some(now.0);
        }
    }

    pub(super) fn completion_of(&self, slot: Slot) -> usize {
        let found = self.open.iter().find(|(open, _)| *open == slot);
        found.map_or(usize::MAX, |(_, completion)| *completion)
    }
}

impl Retired {
    /// Adds the counters of a connection to the sums.
    pub fn add(&mut self, hosts: &Hosts, slot: Slot) {
        let guest = hosts.end(slot, Side::Guest);
        let receiver = hosts.end(slot, Side::Receiver);
        add_totals(&mut self.guest, guest.connection.totals());
        self.delivered_bytes += receiver.connection.totals().delivered_bytes;
        self.needless_segments += receiver.connection.totals().needless_received;
        if let Some(instruments) = &guest.instruments {
            add_each(&mut self.ack_gaps, instruments.gaps.bins().iter().copied());
        }
        if let Some(vm_end) = &guest.vm_end {
            self.stalls.add(vm_end.counts());
        }
        if let Some(port) = &guest.port {
            add_each(&mut self.port_counts, port.counts().map(|(_, count)| count));
        }
        if let Some(port) = &receiver.port {
            let counts = port.counts().map(|(_, count)| count);
            add_each(&mut self.receiver_port_counts, counts);
        }
    }
}

fn add_each<T: Default + Copy + std::ops::AddAssign>(
    sums: &mut Vec<T>,
    values: impl Iterator<Item = T>,
) {
    for (place, value) in values.enumerate() {
        if place == sums.len() {
            sums.push(T::default());
        }
        sums[place] += value;
    }
}

/// Adds the counters `more` of a connection's end to `sum`.
pub fn add_totals(sum: &mut Totals, more: &Totals) {
    sum.delivered_bytes += more.delivered_bytes;
    sum.acknowledged_bytes += more.acknowledged_bytes;
    sum.sent_bytes += more.sent_bytes;
    sum.retransmitted_bytes += more.retransmitted_bytes;
    sum.retransmits += more.retransmits;
    sum.timeouts += more.timeouts;
    sum.spurious_timeouts += more.spurious_timeouts;
    sum.backoffs += more.backoffs;
    sum.fast_recoveries += more.fast_recoveries;
    sum.ecn_cuts += more.ecn_cuts;
    sum.duplicate_acks += more.duplicate_acks;
    sum.ce_received += more.ce_received;
}
