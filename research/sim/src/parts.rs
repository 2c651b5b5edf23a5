//! A running scenario in parts, one for each thread, with the result of one part, to the byte.
//!
//! All parts run through the same window of time, at most a lookahead long: until its end no event of one
//! part can have an effect in another ([`Division`]). Then the threads meet: packets change parts, and
//! numbers get their final values ([`uc_net::order`]). Where an application gets a notice, it may act at
//! another host at once. Such a stop is known a lookahead before, so the threads meet there, too, and what
//! the application does is done in all parts.

mod crew;
mod member;
mod table;

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use uc_net::{Division, HostId, LinkId, Nanos};

use crate::error::SimError;
use crate::scenario::{Application, Scenario};
use crate::world::World;

use crew::{Crew, lock};
pub use member::Member;

/// Length of the TCP and Ethernet headers without options.
const SHORTEST_HEADERS_BYTES: u32 = 14 + 20;

/// A scenario in one or several parts.
#[derive(Debug)]
pub struct Parts {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    division: Option<Arc<Division>>,
}

/// Returns the division of a scenario into `parts` parts.
///
/// # Errors
/// The reason why it runs as one.
pub fn division(
    scenario: &Scenario,
    duration: Nanos,
    parts: usize,
) -> Result<Division, &'static str> {
    if !scenario.groups.is_empty() {
        return Err("connections share a window");
    }
    if !scenario.consolidation.cores.is_empty() {
        return Err("virtual machines share cores");
    }
    for flow in &scenario.flows {
        if flow.start_policy.is_some() {
            return Err("hosts control the starts of flows");
        }
        if flow.hold.is_some() {
            return Err("ports hold packets");
        }
        match &flow.application {
            Application::Exchange(_) => return Err("receivers send requests"),
            Application::Messages { .. } => return Err("messages share connections"),
            Application::Epochs(epochs) if epochs.request_bytes.is_some() => {
                return Err("receivers send requests");
            }
            Application::Bulk
            | Application::Transfer { .. }
            | Application::Epochs(_)
            | Application::Web { .. } => {}
        }
    }
    if duration > uc_net::order::TIME_MAX {
        return Err("the run is longer than two hours");
    }
    let shortest_bytes = SHORTEST_HEADERS_BYTES + scenario.ip_header_bytes;
    Division::new(&scenario.topology, parts, shortest_bytes)
}

impl Parts {
    /// Creates the scenario at time zero, in one part without a division.
    ///
    /// # Errors
    /// As [`World::new`], and [`SimError::Thread`].
    pub fn new(scenario: &Scenario, division: Option<Division>) -> Result<Parts, SimError> {
        let division = division.map(Arc::new);
        let worlds: Vec<World> = match &division {
            None => vec![World::new(scenario)?],
            Some(division) => World::parts(scenario, division)?,
        };
        let crew = Arc::new(Crew::new(worlds, division.as_deref()));
        // first, so that the threads that could be started are dismissed if one cannot
        let mut all = Parts {
            threads: Vec::new(),
            crew,
            division,
        };
        for number in 1..all.crew.members.len() {
            let crew = Arc::clone(&all.crew);
            let thread = std::thread::Builder::new().spawn(move || crew.work(number));
            let failed = |error: std::io::Error| SimError::Thread(error.to_string());
            all.threads.push(thread.map_err(failed)?);
        }
        Ok(all)
    }

    /// Returns the worlds of all parts, in their order.
    pub fn worlds(&self) -> impl Iterator<Item = MutexGuard<'_, Member>> {
        self.crew.members.iter().map(lock)
    }

    /// Returns the world of a part.
    pub fn world(&self, part: usize) -> MutexGuard<'_, Member> {
        lock(&self.crew.members[part])
    }

    /// Returns whether there is more than one part.
    pub fn are_several(&self) -> bool {
        self.division.is_some()
    }

    /// Returns the part that has a host.
    pub fn part_of_host(&self, host: HostId) -> usize {
        let division = self.division.as_ref();
        division.map_or(0, |division| division.part_of_host(host))
    }

    /// Returns the part that has a link.
    pub fn part_of_link(&self, link: LinkId) -> usize {
        let division = self.division.as_ref();
        division.map_or(0, |division| division.part_of_link(link))
    }

    /// Processes all events up to and including `until`.
    ///
    /// # Errors
    /// [`SimError::Stuck`], [`SimError::TooManyConnections`].
    pub fn run_until(&mut self, until: Nanos) -> Result<(), SimError> {
        if self.are_several() {
            return self.crew.run_until(until);
        }
        World::run_until(&mut self.world(0), until)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.crew.dismiss();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed why.
            let _ended = thread.join();
        }
    }
}
