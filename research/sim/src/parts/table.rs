//! The table at which the threads meet, and tell each other what has happened.
//!
//! Between two meetings a thread works for microseconds, so they wait for each other in a loop at first.
//! A thread that waits long sleeps, so that the scheduler prefers it afterwards: the one that it waits for
//! may have lost its core to another program.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{available_parallelism, sleep, yield_now};
use std::time::Duration;

use crate::hosts::Report;

/// Number of turns of the loop before a waiting thread sleeps: 0.1 ms.
const TURNS: u32 = 10_000;
/// With fewer cores than threads, how often a waiting thread lets others run before it sleeps.
const YIELDS: u32 = 1_000;
const PAUSE: Duration = Duration::from_micros(50);

/// The reports of all parts.
pub(super) type Reports<'a> = Vec<RwLockReadGuard<'a, Report>>;

/// The table, with a seat for each part.
#[derive(Debug)]
pub(super) struct Table {
    seats: Vec<Seat>,
    /// Whether each thread has a core.
    has_cores: bool,
    /// Whether a thread has panicked.
    has_panicked: AtomicBool,
}

/// What a part tells the others.
#[derive(Debug, Default)]
struct Seat {
    /// Number of meetings to which the part has come.
    meetings: Apart<AtomicUsize>,
    /// The reports for the meetings with even and with odd numbers: who comes to a meeting has read the
    /// reports of the one before.
    reports: [Apart<RwLock<Report>>; 2],
}

/// A value in lines of the cache of its own, as cores fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// Notes when it is dropped whether the thread panics.
pub(super) struct Watch<'a>(&'a Table);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_panicked.store(true, Ordering::Release);
        }
    }
}

impl Table {
    /// Creates a table for a number of parts.
    pub(super) fn new(parts: usize) -> Table {
        let cores = available_parallelism().map_or(1, usize::from);
        Table {
            seats: (0..parts).map(|_| Seat::default()).collect(),
            has_cores: parts <= cores,
            has_panicked: AtomicBool::new(false),
        }
    }

    /// Lets the other threads panic if this one does before the end of the watch.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch(self)
    }

    /// Returns the report of a part for the next meeting, to be written.
    pub(super) fn report(&self, number: usize) -> RwLockWriteGuard<'_, Report> {
        let seat = &self.seats[number];
        let meeting = seat.meetings.0.load(Ordering::Relaxed) + 1;
        let report = seat.reports[meeting % 2].0.write();
        report.unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a part's report to the next meeting, waits until all parts have come, and returns their
    /// reports.
    pub(super) fn meet<'a>(
        &'a self,
        number: usize,
        report: RwLockWriteGuard<'a, Report>,
    ) -> Reports<'a> {
        let meetings = &self.seats[number].meetings.0;
        let meeting = meetings.load(Ordering::Relaxed) + 1;
        let mut own = Some(RwLockWriteGuard::downgrade(report));
        meetings.store(meeting, Ordering::Release);
        let reports = self.seats.iter().enumerate().map(|(other, seat)| {
            if let Some(own) = own.take_if(|_| other == number) {
                return own;
            }
            self.wait(|| seat.meetings.0.load(Ordering::Acquire) >= meeting);
            let report = seat.reports[meeting % 2].0.read();
            report.unwrap_or_else(PoisonError::into_inner)
        });
        reports.collect()
    }

    /// Waits, and panics if another thread has.
    pub(super) fn wait(&self, is_over: impl Fn() -> bool) {
        let mut turns = 0;
        while !is_over() {
            assert!(
                !self.has_panicked.load(Ordering::Acquire),
                "a thread of the run has panicked"
            );
            turns += 1;
            match self.has_cores {
                true if turns < TURNS => spin_loop(),
                false if turns < YIELDS => yield_now(),
                _ => sleep(PAUSE),
            }
        }
    }
}
