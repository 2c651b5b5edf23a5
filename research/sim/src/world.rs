//! A running scenario: hosts and their applications under one clock.

use uc_net::Nanos;

use crate::app::Applications;
use crate::error::SimError;
use crate::hosts::Hosts;
use crate::scenario::Scenario;

/// A network with hosts and applications at a point of virtual time.
#[derive(Debug)]
pub struct World {
    /// Network, connections and timers of the run.
    pub hosts: Hosts,
    /// Flows of the run, with their applications.
    pub applications: Applications,
}

impl World {
    /// Creates the scenario at time zero.
    ///
    /// # Errors
    /// [`SimError::Network`] and [`SimError::NoRoute`]: what is wrong with the network.
    pub fn new(scenario: &Scenario) -> Result<World, SimError> {
        let mut hosts = Hosts::new(scenario)?;
        let applications = Applications::new(scenario, &mut hosts);
        Ok(World {
            hosts,
            applications,
        })
    }

    /// Processes all events up to and including `until`.
    ///
    /// # Errors
    /// Time does not advance, or too many connections are open.
    pub fn run_until(&mut self, until: Nanos) -> Result<(), SimError> {
        while let Some(notice) = self.hosts.run(until)? {
            self.applications.tell(notice, &mut self.hosts)?;
        }
        Ok(())
    }
}
