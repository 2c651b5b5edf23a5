//! One part. All parts do the same steps: what one of them needs of the others is in their reports.

use std::ops::{Deref, DerefMut};

use uc_net::Nanos;
use uc_net::order::{Renames, settle};

use super::table::{Reports, Table};
use crate::error::SimError;
use crate::hosts::{Closing, Notice, Slot, Stop};
use crate::world::World;

/// A part of a scenario.
#[derive(Debug)]
pub struct Member {
    world: World,
    number: usize,
    lookahead: Nanos,
    /// Time of the first event of all parts.
    next: Option<Nanos>,
    /// First stop of each part.
    stops: Vec<Option<Stop>>,
    /// Final numbers of the last window, by part; empty within a window.
    renames: Vec<Renames>,
    closings: Vec<Closing>,
    /// Whether one end of a connection was closed, by its slot.
    half_closed: Vec<bool>,
}

impl Deref for Member {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Member {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Member {
    /// Creates part `number` of several, whose first stops are `stops`.
    pub(super) fn new(
        world: World,
        number: usize,
        lookahead: Nanos,
        stops: Vec<Option<Stop>>,
    ) -> Member {
        Member {
            world,
            number,
            lookahead,
            next: Some(Nanos::ZERO),
            renames: vec![Renames::default(); stops.len()],
            stops,
            closings: Vec::new(),
            half_closed: Vec::new(),
        }
    }

    /// Processes all events up to and including `until`, as all other parts do at the same time.
    ///
    /// # Errors
    /// [`SimError::Stuck`], [`SimError::TooManyConnections`].
    pub(super) fn run_until(&mut self, until: Nanos, table: &Table) -> Result<(), SimError> {
        while let Some(start) = self.next.filter(|&next| next <= until) {
            let mut end = (start + self.lookahead).min(until + Nanos(1));
            self.world.hosts.begin_window(start, end);
            while let Some((part, stop)) = self.first_stop().filter(|(_, stop)| stop.at < end) {
                let notice = self.world.hosts.run_to(&stop, part == self.number);
                let reports = self.meet(table, notice, false);
                self.hear(&reports)?;
                if let Some(notice) = reports.iter().find_map(|report| report.notice) {
                    self.world.hosts.act_because(stop.cause);
                    self.tell(notice)?;
                }
                // Its place among the stops is known when all have met again.
                if let Some(woken) = self.world.hosts.take_woken() {
                    end = end.min(woken);
                }
            }
            let outcome = self.world.hosts.end_window(end);
            let reports = self.meet(table, outcome.map(|()| None), true);
            self.exchange(&reports);
            self.hear(&reports)?;
            self.renames.iter_mut().for_each(Renames::clear);
        }
        self.world.hosts.reach(until);
        Ok(())
    }

    /// Returns the first stop of all parts, and the part that has it.
    fn first_stop(&self) -> Option<(usize, Stop)> {
        let stops = self.stops.iter().enumerate();
        let known = stops.filter_map(|(part, stop)| Some((part, (*stop)?)));
        known.min_by_key(|(_, stop)| *stop)
    }

    /// Tells the others the outcome of the events up to a stop or to the end of the window, and returns what
    /// all tell.
    fn meet<'a>(
        &mut self,
        table: &'a Table,
        outcome: Result<Option<Notice>, SimError>,
        is_window_over: bool,
    ) -> Reports<'a> {
        let mut report = table.report(self.number);
        let hosts = &mut self.world.hosts;
        hosts.report(&mut report);
        if is_window_over {
            hosts.report_window(&mut report);
        }
        (report.notice, report.error) = match outcome {
            Ok(notice) => (notice, None),
            Err(error) => (None, Some(error)),
        };
        table.meet(self.number, report)
    }

    /// Gives the numbers of the window their final values, and takes the packets that come from other
    /// parts.
    fn exchange(&mut self, reports: &Reports<'_>) {
        let logs = reports
            .iter()
            .map(|report| (&report.packets, &report.timers));
        let logs: Vec<_> = logs.collect();
        settle(&logs, &mut self.renames);
        let hosts = &mut self.world.hosts;
        hosts.rename_packets(&self.renames[self.number].packets);
        let (mut packets, mut timers) = (0, 0);
        for (part, (renames, report)) in self.renames.iter().zip(reports).enumerate() {
            hosts.rename_timers(&renames.timers);
            if part != self.number {
                hosts.take_crossing(&report.leaving[self.number], renames);
            }
            let last = report.packets.last().map(|number| renames.packet(number));
            packets = packets.max(last.map_or(0, |last| last + 1));
            let last = report.timers.last().map(|number| renames.timer(number));
            timers = timers.max(last.map_or(0, |last| last + 1));
        }
        hosts.number_from(packets, timers);
        self.next = reports.iter().filter_map(|report| report.next).min();
    }

    /// Takes what the others have told.
    fn hear(&mut self, reports: &Reports<'_>) -> Result<(), SimError> {
        if let Some(error) = reports.iter().find_map(|report| report.error.clone()) {
            return Err(error);
        }
        let mut closings = std::mem::take(&mut self.closings);
        for (part, report) in reports.iter().enumerate() {
            let renames = &self.renames[part];
            self.stops[part] = report.stop.map(|stop| Stop {
                cause: renames.translate(stop.cause),
                ..stop
            });
            closings.extend(report.closings.iter().map(|closing| Closing {
                cause: renames.translate(closing.cause),
                ..*closing
            }));
            if part == self.number {
                continue;
            }
            let hosts = &mut self.world.hosts;
            report
                .marks
                .iter()
                .for_each(|&mark| hosts.receive_mark(mark));
            for &(place, armed) in &report.armed {
                let armed = armed.map(|(at, number)| (at, renames.timer(number)));
                hosts.copy_armed(place, armed);
            }
        }
        closings.sort_by_key(|closing| (closing.at, closing.cause));
        for closing in closings.drain(..) {
            self.close(&closing)?;
        }
        self.closings = closings;
        Ok(())
    }

    /// Notes that an end was closed, and notifies the application if it is the second of its connection.
    fn close(&mut self, closing: &Closing) -> Result<(), SimError> {
        let place = closing.connection;
        if place >= self.half_closed.len() {
            self.half_closed.resize(place + 1, false);
        }
        let is_second = self.half_closed[place];
        self.half_closed[place] = !is_second;
        if !is_second {
            return Ok(());
        }
        let slot = Slot::new(place);
        self.world.hosts.forget_closed(slot);
        self.world
            .hosts
            .swap_late(closing, &self.renames[self.number]);
        self.tell(Notice::Closed(slot))?;
        self.world
            .hosts
            .swap_late(closing, &self.renames[self.number]);
        Ok(())
    }

    /// Delivers a notice to the application concerned.
    fn tell(&mut self, notice: Notice) -> Result<(), SimError> {
        let World {
            hosts,
            applications,
        } = &mut self.world;
        applications.tell(notice, hosts)
    }
}
