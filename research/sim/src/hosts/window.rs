//! The events of a part in a window of time, in which all other parts run, too.

use uc_net::Nanos;
use uc_net::order::{Cause, RANK_MAX};

use super::share::{Before, Halt};
use super::{Hosts, Notice, Owner, Stop};
use crate::end::Coming;
use crate::error::SimError;
use crate::packet::Packet;

impl Hosts {
    /// Begins a window of time: events from `start` to before `end` follow.
    pub fn begin_window(&mut self, start: Nanos, end: Nanos) {
        self.network.begin_window(start, end);
        self.timers.begin_window(start, end);
        if let Some(share) = &mut self.share {
            share.late.clear();
        }
    }

    /// Processes the events before `end`, and ends the window there.
    ///
    /// # Errors
    /// [`SimError::Stuck`].
    pub fn end_window(&mut self, end: Nanos) -> Result<(), SimError> {
        self.run_before(end)?;
        self.look_ahead();
        if self.network.is_full() || self.timers.is_full() || !self.notices.is_empty() {
            return Err(SimError::Stuck {
                at: self.now,
                events: 1 << uc_net::order::PLACE_BITS,
            });
        }
        Ok(())
    }

    /// Processes the events before a stop and, if it is this part's, the stop, whose notice it returns.
    ///
    /// # Errors
    /// [`SimError::Stuck`].
    pub fn run_to(&mut self, stop: &Stop, is_own: bool) -> Result<Option<Notice>, SimError> {
        let Stop { at, cause } = *stop;
        let bounds = if cause.is_timer() {
            (RANK_MAX, cause.rank())
        } else {
            (cause.rank(), (at.0, 0))
        };
        self.run_events(at, bounds)?;
        self.reach(at);
        if !is_own {
            return Ok(None);
        }
        if let Some(share) = &mut self.share
            && let Some(halt) = share.first_halt.take()
        {
            share.halts.remove(&halt);
        }
        if cause.is_timer() {
            let first = self.timers.first();
            return first.map_or(Ok(None), |(at, timer)| self.fire(at, timer));
        }
        let (came, number) = cause.rank();
        let arrival = self
            .network
            .next_arrival_in_part(at, (came, number.saturating_add(1)));
        arrival.map_or(Ok(None), |arrival| self.arrive(arrival))
    }

    /// Processes the events before `end`.
    fn run_before(&mut self, end: Nanos) -> Result<(), SimError> {
        let Some(limit) = end.0.checked_sub(1).map(Nanos) else {
            return Ok(());
        };
        self.run_events(limit, (RANK_MAX, (end.0, 0)))?;
        self.reach(limit);
        Ok(())
    }

    /// Processes arrivals up to and including `limit`, at `limit` those of a rank below `below`, and the timers
    /// of a time and number before `before`.
    #[inline]
    fn run_events(
        &mut self,
        limit: Nanos,
        (below, before): ((u64, u64), (u64, u64)),
    ) -> Result<(), SimError> {
        loop {
            let until = self.timers.next_at().min(limit);
            let below = if until < limit { RANK_MAX } else { below };
            let notice = if let Some(arrival) = self.network.next_arrival_in_part(until, below) {
                self.arrive(arrival)?
            } else {
                let first = self.timers.first_number();
                let is_due = first.is_some_and(|(at, number)| (at.0, number) < before);
                let Some((at, timer)) = self.timers.first().filter(|_| is_due) else {
                    return Ok(());
                };
                self.fire(at, timer)?
            };
            debug_assert_eq!(notice, None, "a notice within a window");
            if let Some(notice) = notice {
                self.notices.push_back(notice);
            }
        }
    }

    /// Delivers a packet. Returns the notice that follows.
    #[inline]
    fn arrive(&mut self, arrival: uc_net::Arrival) -> Result<Option<Notice>, SimError> {
        self.advance_to(arrival.at)?;
        self.timers.set_cause(self.now, self.network.cause());
        if let Some(packet) = self.network.arrived(&arrival) {
            self.keep_if_closed(packet.to.place());
        }
        Ok(self.deliver(arrival))
    }

    /// Handles the first timer. Returns the notice that follows.
    fn fire(
        &mut self,
        at: Nanos,
        timer: crate::timers::TimerId,
    ) -> Result<Option<Notice>, SimError> {
        self.advance_to(at)?;
        if let Some((at, number)) = self.timers.first_number() {
            self.set_cause(Cause::timer(at, number));
        }
        if let Owner::End(place) = self.owners[timer.index()] {
            self.keep_if_closed(place);
        }
        Ok(self.ring(timer))
    }

    /// Stores a copy of a closed end before the present event changes it.
    #[inline]
    fn keep_if_closed(&mut self, place: usize) {
        let Some(share) = &mut self.share else { return };
        let coming = share.coming.get(place);
        if coming.is_some_and(|coming| coming.is_closed) {
            share.late.push(Before {
                at: self.now,
                cause: self.timers.cause(),
                place,
                end: self.ends[place].clone(),
            });
        }
    }

    /// Notes the packets that have come to their last link and may complete what an application waits
    /// for.
    fn look_ahead(&mut self) {
        let (ends, notes_marks) = (&self.ends, self.notes_marks);
        let Some(share) = &mut self.share else { return };
        let (coming, halts) = (&mut share.coming, &mut share.halts);
        coming.resize(ends.len(), Coming::default());
        self.network.take_coming(|at, number, packet: &Packet| {
            let place = packet.to.place();
            let end = ends.get(place);
            if let Some(end) = end.filter(|end| end.route.address == packet.to)
                && end.comes(&mut coming[place], &packet.segment, notes_marks)
            {
                halts.insert((at, Halt::Arrival(number)));
            }
        });
    }

    /// Returns the first stop of this part.
    pub fn first_stop(&mut self) -> Option<Stop> {
        let (network, timers, wakes) = (&self.network, &self.timers, &self.wakes);
        let share = self.share.as_mut()?;
        loop {
            let &(at, _) = share.halts.first()?;
            let due = share.halts.range((at, Halt::Arrival(0))..);
            let causes = due.take_while(|halt| halt.0 == at).filter_map(|&halt| {
                let cause = match halt.1 {
                    Halt::Arrival(number) => network.cause_of(number),
                    Halt::Wake(flow) => {
                        // Another time may have been requested since.
                        let armed = timers.armed(wakes[flow]).filter(|armed| armed.0 == at);
                        Cause::timer(at, armed?.1)
                    }
                };
                Some((cause, halt))
            });
            if let Some((cause, halt)) = causes.min() {
                share.first_halt = Some(halt);
                return Some(Stop { at, cause });
            }
            share.halts.retain(|halt| halt.0 > at);
        }
    }
}
