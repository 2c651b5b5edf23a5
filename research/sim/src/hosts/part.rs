//! The hosts of one of several parts, which run at the same time with the result of one.
//!
//! Each part has an end for every connection, in the same places and with the same timers, but only those
//! on its own hosts send and receive. What an application does is done in every part, at the same place
//! among the events.

use std::collections::BTreeSet;
use std::sync::Arc;

use uc_net::order::{Cause, Rename, Renames};
use uc_net::{Crossing, Division, HostId, Nanos};

use super::share::{Before, Closing, Halt, Mark, Report, Share};
use super::{Hosts, Notice, Side, Slot};
use crate::end::{Coming, End, Stage};
use crate::error::SimError;
use crate::packet::Packet;
use crate::scenario::Scenario;

impl Hosts {
    /// Makes these hosts part `number` of several, after the applications have requested their first
    /// wakes.
    pub fn become_part(&mut self, scenario: &Scenario, division: &Arc<Division>, number: usize) {
        self.network.renumber_part(number);
        self.timers.become_part();
        let wakers: Vec<usize> = (scenario.flows.iter())
            .map(|flow| division.part_of_host(flow.guest))
            .collect();
        let mut halts = BTreeSet::new();
        for (flow, (&waker, &timer)) in wakers.iter().zip(&self.wakes).enumerate() {
            let armed = self.timers.armed(timer);
            if waker != number {
                self.timers.set(timer, None);
            } else if let Some((at, _)) = armed {
                halts.insert((at, Halt::Wake(flow)));
            }
        }
        self.share = Some(Box::new(Share {
            number,
            division: Arc::clone(division),
            wakers,
            deed: 0,
            coming: Vec::new(),
            marks: Vec::new(),
            closings: Vec::new(),
            half_closed: Vec::new(),
            late: Vec::new(),
            halts,
            first_halt: None,
            woken: Nanos::MAX,
        }));
    }

    /// Returns whether a host is in this part; always true of hosts that are not divided.
    #[inline]
    pub(super) fn has(&self, host: HostId) -> bool {
        let share = self.share.as_ref();
        share.is_none_or(|share| share.division.part_of_host(host) == share.number)
    }

    /// Returns whether the end at this place is in this part.
    #[inline]
    pub(super) fn has_end(&self, place: usize) -> bool {
        self.has(self.ends[place].route.from)
    }

    /// Counts an operation of an application, in every part alike.
    pub(super) fn count_deed(&mut self) {
        let Some(share) = &mut self.share else { return };
        share.deed += 1;
        let cause = self.network.cause().of_deed(share.deed);
        self.set_cause(cause);
    }

    /// Sets the cause of what happens now.
    pub(super) fn set_cause(&mut self, cause: Cause) {
        self.network.set_cause(cause);
        self.timers.set_cause(self.now, cause);
    }

    /// Forgets what has come to an end, which is a new one or waits for something else.
    pub(super) fn forget_coming(&mut self, place: usize) {
        if let Some(share) = &mut self.share
            && let Some(coming) = share.coming.get_mut(place)
        {
            *coming = Coming::default();
        }
    }

    /// Notes that a flow is to be woken at `at`. Returns whether that is in this part.
    pub(super) fn wakes_here(&mut self, flow: usize, at: Nanos) -> bool {
        let Some(share) = &mut self.share else {
            return true;
        };
        share.woken = share.woken.min(at);
        let is_here = share.wakers[flow] == share.number;
        if is_here {
            share.halts.insert((at, Halt::Wake(flow)));
        }
        is_here
    }

    /// Returns the first time of those at which flows of any part are woken, of those requested since the
    /// last call.
    pub fn take_woken(&mut self) -> Option<Nanos> {
        let share = self.share.as_mut()?;
        let woken = std::mem::replace(&mut share.woken, Nanos::MAX);
        (woken < Nanos::MAX).then_some(woken)
    }

    /// Handles a stage that is over as a part does. Returns the notice if the application is to get it at
    /// once.
    pub(super) fn notice_in_part(&mut self, slot: Slot, side: Side, over: Stage) -> Option<Notice> {
        let cause = self.network.cause();
        let (place, ends) = (slot.end(side), self.ends.len());
        let share = self.share.as_mut()?;
        match over {
            Stage::Reading => return Some(Notice::Reached(slot, side)),
            Stage::Closing => {
                share.coming.resize(ends, Coming::default());
                share.coming[place].is_closed = true;
                share.half_closed.push((place, None));
                share.closings.push(Closing {
                    at: self.now,
                    cause,
                    connection: slot.index(),
                });
            }
            Stage::Opening | Stage::Silent => {}
        }
        None
    }

    /// Sets the clock to a time before which no event is left.
    pub fn reach(&mut self, now: Nanos) {
        if now > self.now {
            self.now = now;
            self.instant_events = 0;
        }
        self.network.reach(now);
    }

    /// Sets the cause of what applications do now.
    pub fn act_because(&mut self, cause: Cause) {
        if let Some(share) = &mut self.share {
            share.deed = 0;
        }
        self.set_cause(cause);
    }

    /// Writes into a report what has happened since the last one.
    pub fn report(&mut self, report: &mut Report) {
        report.stop = self.first_stop();
        report.closings.clear();
        report.marks.clear();
        report.armed.clear();
        let Some(share) = &mut self.share else { return };
        report.closings.append(&mut share.closings);
        report.marks.append(&mut share.marks);
        for (place, known) in &mut share.half_closed {
            let armed = self.timers.armed(self.ends[*place].timer);
            if *known != Some(armed) {
                *known = Some(armed);
                report.armed.push((*place, armed));
            }
        }
    }

    /// Writes into a report what has happened in the window, which is over.
    pub fn report_window(&mut self, report: &mut Report) {
        let timer = self.timers.first().map(|(at, _)| at);
        let times = [
            self.network.next_event(),
            timer,
            self.network.first_leaving(),
        ];
        report.next = times.into_iter().flatten().min();
        self.network.swap_log(&mut report.packets);
        self.timers.swap_log(&mut report.timers);
        self.network.swap_leaving(&mut report.leaving);
    }

    /// Gives the packets of this part their final numbers.
    pub fn rename_packets(&mut self, renames: &[Rename]) {
        self.network.rename(renames);
    }

    /// Gives the timers of a part their final numbers, here also where they were
    /// [copied](Hosts::copy_armed).
    pub fn rename_timers(&mut self, renames: &[Rename]) {
        self.timers.rename(renames);
    }

    /// Makes the next numbers of packets and of timers at least these.
    pub fn number_from(&mut self, packets: u64, timers: u64) {
        self.network.number_from(packets);
        self.timers.number_from(timers);
    }

    /// Takes packets from another part.
    pub fn take_crossing(&mut self, packets: &[Crossing<Packet>], renames: &Renames) {
        self.network.take_crossing(packets, renames);
    }

    /// Notes that both ends of a connection are closed.
    pub fn forget_closed(&mut self, slot: Slot) {
        if let Some(share) = &mut self.share {
            let half_closed = &mut share.half_closed;
            half_closed.retain(|&(place, _)| place / 2 != slot.index());
        }
    }

    /// Exchanges a connection's ends with what they were at a closing, as far as they had events after it
    /// in this window; the second call changes them back.
    pub fn swap_late(&mut self, closing: &Closing, renames: &Renames) {
        let Some(share) = &mut self.share else { return };
        for side in [Side::Guest, Side::Receiver] {
            let place = Slot::new(closing.connection).end(side);
            let is_later = |before: &&mut Before| {
                let cause = renames.translate(before.cause);
                before.place == place && (before.at, cause) > (closing.at, closing.cause)
            };
            if let Some(before) = share.late.iter_mut().find(is_later) {
                std::mem::swap(&mut before.end, &mut self.ends[place]);
            }
        }
    }

    /// Notes a mark for the instruments of a sender in another part.
    pub(super) fn send_mark(&mut self, mark: Mark) {
        if let Some(share) = &mut self.share {
            share.marks.push(mark);
        }
    }

    /// Records a mark at the instruments of its sender, if that is in this part.
    pub fn receive_mark(&mut self, mark: Mark) {
        let place = mark.sender.place();
        if self.has_end(place) {
            self.record_mark(place, mark.seq, mark.payload_bytes);
        }
    }

    /// Arms the timer of a closed connection's end in another part as that part has reported it. It stays
    /// armed, and its place may come to this part.
    pub fn copy_armed(&mut self, place: usize, armed: Option<(Nanos, u64)>) {
        self.timers.copy(self.ends[place].timer, armed);
    }

    /// Gives the place of an end that was in another part to an end that is in another part, too, which
    /// needs neither a connection nor a port here. Returns whether it could.
    pub(super) fn pass_on(
        &mut self,
        place: usize,
        flow: usize,
        (from, to): (HostId, HostId),
    ) -> Result<bool, SimError> {
        if self.has(from) || place >= self.ends.len() || self.has_end(place) {
            return Ok(false);
        }
        let address = self.ends[place].route.address.next_life();
        let path = self.network.path(from, to, || address.path_key())?;
        let end = &mut self.ends[place];
        (end.route.from, end.route.path) = (from, path);
        (end.route.address, end.route.flow) = (address, flow as u32);
        self.timers.copy(end.timer, None);
        Ok(true)
    }

    /// Disarms the timer of an end that is in another part from now on.
    pub(super) fn leave_to_others(&mut self, end: &End) {
        if !self.has(end.route.from) {
            self.timers.copy(end.timer, None);
        }
    }
}
