//! The threads of the parts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uc_net::{Division, Nanos};

use super::member::Member;
use super::table::Table;
use crate::error::SimError;
use crate::world::World;

/// The state that the threads share.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) members: Vec<Mutex<Member>>,
    table: Table,
    /// Number of the command, from 1; the maximum: there is none any more.
    command: AtomicUsize,
    /// Time up to which the command is to run.
    until: AtomicU64,
    /// Number of threads that still carry out the command.
    busy: AtomicUsize,
}

/// Locks a part. After a panic the run does not go on.
pub(super) fn lock(member: &Mutex<Member>) -> MutexGuard<'_, Member> {
    member.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crew {
    /// Creates the parts, of which the thread that leads runs the first.
    pub(super) fn new(mut worlds: Vec<World>, division: Option<&Division>) -> Crew {
        let stops = worlds.iter_mut().map(|world| world.hosts.first_stop());
        let stops: Vec<_> = stops.collect();
        let lookahead = division.map_or(Nanos::ZERO, |division| division.lookahead);
        let members = worlds.into_iter().enumerate();
        let members =
            members.map(|(number, world)| Member::new(world, number, lookahead, stops.clone()));
        Crew {
            members: members.map(Mutex::new).collect(),
            table: Table::new(stops.len()),
            command: AtomicUsize::new(0),
            until: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
        }
    }

    /// Ends the other threads.
    pub(super) fn dismiss(&self) {
        self.command.store(usize::MAX, Ordering::Release);
    }

    /// Has all parts process the events up to and including `until`.
    pub(super) fn run_until(&self, until: Nanos) -> Result<(), SimError> {
        self.until.store(until.0, Ordering::Relaxed);
        self.busy.store(self.members.len() - 1, Ordering::Relaxed);
        self.command.fetch_add(1, Ordering::Release);
        let _watch = self.table.watch();
        let outcome = lock(&self.members[0]).run_until(until, &self.table);
        self.table.wait(|| self.busy.load(Ordering::Acquire) == 0);
        outcome
    }

    /// Runs a part until the work ends.
    pub(super) fn work(&self, number: usize) {
        let mut known = 0;
        loop {
            self.table
                .wait(|| self.command.load(Ordering::Acquire) != known);
            known = self.command.load(Ordering::Acquire);
            if known == usize::MAX {
                return;
            }
            let _watch = self.table.watch();
            let until = Nanos(self.until.load(Ordering::Relaxed));
            // The first part has the same outcome.
            let _outcome = lock(&self.members[number]).run_until(until, &self.table);
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }
}
