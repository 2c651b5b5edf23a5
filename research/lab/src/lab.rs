//! A wired case with its emulated network running, ready for the traffic of a run or a test.

use std::time::Duration;

use uc_experiment::Network;

use crate::error::{LabError, PortError};
use crate::flow;
use crate::plan::Plan;
use crate::ports::{Port, Ports};
use crate::relay::WireReport;
use crate::wire::Wire;
use crate::wire_setup::WireSetup;
use crate::wiring::{Ends, Wiring};

/// Namespaces, interfaces and the emulator between them. Dropping it removes everything.
#[derive(Debug)]
pub struct Lab {
    wire: Wire,
    /// Namespaces and taps. They outlive the emulator, which reads the taps.
    pub wiring: Wiring,
}

impl Lab {
    /// Builds `plan` and starts its network. `sample` is the interval at which the queue is read.
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

    /// Builds a lab like [`Lab::build`], with `ends` at the guests' ends of their links.
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
        let flows = flow::tuples(plan);
        let setup = WireSetup::new(plan, network, taps, flows, seed, sample);
        Ok(Self {
            wire: Wire::start(setup)?,
            wiring,
        })
    }

    /// Passes every port that has a law to `ports`, inside the hosts' namespace.
    ///
    /// # Errors
    /// [`LabError::Port`] with the port and the loader's error.
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

    /// Returns whether the emulator is running. If it has ended by itself, [`Lab::finish`] gives
    /// the reason.
    pub fn is_running(&self) -> bool {
        self.wire.is_running()
    }

    /// Stops the network, returns its report, and removes everything.
    ///
    /// # Errors
    /// The error that ended the emulator early.
    pub fn finish(self) -> Result<WireReport, LabError> {
        self.wire.finish()
    }
}

fn attach_one(port: &mut Port<'_>, ports: &mut dyn Ports) -> Result<(), PortError> {
    port.ifindex = nix::net::if_::if_nametoindex(port.ifname)?;
    ports.attach(port)
}
