//! A scenario in motion: hosts and their applications under one clock.

use uc_net::Nanos;

use crate::app::Applications;
use crate::error::SimError;
use crate::hosts::Hosts;
use crate::scenario::Scenario;

/// A network with hosts and applications, at some moment of its time.
#[derive(Debug)]
pub struct World {
    /// The network, connections and timers.
    pub hosts: Hosts,
    /// The flows.
    pub applications: Applications,
}

impl World {
    /// The scenario at time zero; nothing has happened yet.
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

    /// Lets everything happen up to and including `until`.
    ///
    /// # Errors
    /// [`SimError::Stuck`], [`SimError::TooManyConnections`].
    pub fn run_until(&mut self, until: Nanos) -> Result<(), SimError> {
        while let Some(notice) = self.hosts.run(until)? {
            self.applications.tell(notice, &mut self.hosts)?;
        }
        Ok(())
    }
}
