//! A wired case with its emulated network running: what a run, or a test, puts traffic on.

use std::time::Duration;

use uc_experiment::Network;

use crate::error::{LabError, PortError};
use crate::plan::Plan;
use crate::ports::{Port, Ports};
use crate::relay::WireReport;
use crate::traffic;
use crate::wire::{Wire, WireSetup};
use crate::wiring::{Ends, Wiring};

/// Namespaces, interfaces and the emulator between them. Dropping it removes all of it.
#[derive(Debug)]
pub struct Lab {
    wire: Wire,
    /// The namespaces. They outlive the emulator, whose taps are in them.
    pub wiring: Wiring,
}

impl Lab {
    /// Builds `plan` and starts its network. `sample` is how often the queue is read.
    ///
    /// # Errors
    /// [`LabError`] with the namespace and the setting that failed; nothing is left then.
    pub fn build(
        plan: &Plan,
        network: &Network,
        seed: u64,
        sample: Duration,
    ) -> Result<Self, LabError> {
        Self::build_with(plan, network, seed, sample, Ends::Namespaces)
    }

    /// The same, with something else than namespaces at the guests' ends.
    ///
    /// # Errors
    /// As [`Lab::build`].
    pub fn build_with(
        plan: &Plan,
        network: &Network,
        seed: u64,
        sample: Duration,
        ends: Ends,
    ) -> Result<Self, LabError> {
        let mut wiring = Wiring::build_with(plan, ends)?;
        let taps = std::mem::take(&mut wiring.taps);
        let flows = traffic::tuples(plan);
        let setup = WireSetup::new(plan, network, taps, flows, seed, sample);
        Ok(Self {
            wire: Wire::start(setup)?,
            wiring,
        })
    }

    /// Hands every port that has a law to `ports`, inside the hosts' namespace.
    ///
    /// # Errors
    /// [`LabError::Port`] with the port and what the loader said.
    pub fn attach(&self, plan: &Plan, ports: &mut dyn Ports) -> Result<(), LabError> {
        let mut translated = Port::translated(plan);
        if translated.is_empty() {
            return Ok(());
        }
        self.wiring.hosts.enter(|| {
            translated.iter_mut().try_for_each(|port| {
                attach_one(port, ports).map_err(|source| LabError::Port {
                    ifname: port.ifname.into(),
                    node: port.node.into(),
                    source,
                })
            })
        })?
    }

    /// Whether the emulator still works. When it has ended by itself, [`Lab::finish`] says why.
    pub fn is_running(&self) -> bool {
        self.wire.is_running()
    }

    /// Stops the network, hands over what it saw, and removes everything.
    ///
    /// # Errors
    /// What ended the emulator early.
    pub fn finish(self) -> Result<WireReport, LabError> {
        self.wire.finish()
    }
}

fn attach_one(port: &mut Port<'_>, ports: &mut dyn Ports) -> Result<(), PortError> {
    port.ifindex = nix::net::if_::if_nametoindex(port.ifname)?;
    ports.attach(port)
}
