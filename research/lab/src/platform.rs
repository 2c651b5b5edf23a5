//! The platform of the guests' TCP: namespaces of this kernel, or another implementation.

use std::os::fd::AsFd;

use uc_experiment::FlowSample;
use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::lab::Lab;
use crate::load::{Counted, GoOn, Load, Running, Sighting};
use crate::plan::Plan;
use crate::sampler;
use crate::tcp_counters;
use crate::tcp_info::TcpInfo;
use crate::traffic::Traffic;
use crate::wiring::Ends;

/// A platform that runs the guests of a run. One value serves one run.
pub trait Platform {
    /// Returns what the lab puts at the guests' ends of their links.
    fn ends(&self) -> Ends;

    /// Starts the guests on a wired lab with programs on its ports, and starts their flows in an
    /// order drawn from the seed.
    ///
    /// # Errors
    /// The failure of a guest, with its label.
    fn start<'a>(
        &'a mut self,
        plan: &'a Plan,
        lab: &'a Lab,
        seed: u64,
        go_on: GoOn<'_>,
    ) -> Result<Box<dyn Load + 'a>, LabError>;
}

/// The platform of the live backend: namespaces of this kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespaces;

impl Platform for Namespaces {
    fn ends(&self) -> Ends {
        Ends::Namespaces
    }

    fn start<'a>(
        &'a mut self,
        plan: &'a Plan,
        lab: &'a Lab,
        seed: u64,
        _go_on: GoOn<'_>,
    ) -> Result<Box<dyn Load + 'a>, LabError> {
        let traffic = Traffic::start(plan, &lab.wiring, seed)?;
        Ok(Box::new(Here { traffic, plan, lab }))
    }
}

/// Flows whose sockets belong to this process.
struct Here<'a> {
    traffic: Traffic,
    plan: &'a Plan,
    lab: &'a Lab,
}

impl Load for Here<'_> {
    fn flows(&self) -> Vec<Running> {
        let running = |flow: &crate::traffic::Flow| Running {
            guest: flow.guest,
            group: flow.part.group.clone(),
            index: flow.index,
            tuple: flow.tuple,
        };
        let flows = self.traffic.flows().iter().map(running);
        let arriving = self.traffic.arriving().iter();
        let arriving = arriving.map(|flow| flow.running.clone());
        flows.chain(arriving).collect()
    }

    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError> {
        self.traffic.wait_connected(go_on)
    }

    fn begin(&mut self, started: Nanos) -> Result<(), LabError> {
        self.traffic.begin(started, &self.lab.wiring)
    }

    fn check(&mut self) -> Result<(), LabError> {
        self.traffic.check()
    }

    fn sample(&mut self) -> Result<Vec<Sighting>, LabError> {
        let congestion = &self.lab.wiring.congestion;
        let failed = |guest: usize, action| {
            let node = self.plan.guests[guest].label.clone();
            move |source| LabError::Socket {
                node,
                action,
                source,
            }
        };
        let of_flow = |flow: &crate::traffic::Flow| {
            let (at, socket) = (clock::now(), flow.socket.as_fd());
            let info = TcpInfo::read(socket).map_err(failed(flow.guest, "reading TCP_INFO"))?;
            let dctcp = congestion.dctcp_state(socket);
            let dctcp = dctcp.map_err(failed(flow.guest, "reading its DCTCP"))?;
            Ok(Sighting {
                at,
                sample: FlowSample {
                    delivered_bytes: flow.delivered_bytes(),
                    ..sampler::of_sender(&info, dctcp)
                },
                negotiated_ecn: info.negotiated_ecn(),
            })
        };
        let of_arriving = |flow: &crate::transfers::ArrivingFlow| {
            let sighting = flow.transfers.sample(congestion);
            sighting.map_err(failed(flow.running.guest, "reading its connections"))
        };
        let arriving = self.traffic.arriving().iter().map(of_arriving);
        let flows = self.traffic.flows().iter().map(of_flow);
        flows.chain(arriving).collect()
    }

    fn finish(&mut self) -> Result<Counted, LabError> {
        Ok(Counted {
            counters: self.traffic.counters(),
            timeouts: self.timeouts()?,
            completions: self.traffic.completions(),
        })
    }
}

impl Here<'_> {
    /// Returns the timeouts of each flow since its namespace was made: all of a guest's if it has one
    /// flow, `None` if it has several.
    fn timeouts(&self) -> Result<Vec<Option<u32>>, LabError> {
        let of_guest = |guest: usize| {
            if self.plan.guests[guest].flows != 1 {
                return Ok(None);
            }
            let counters = self.lab.wiring.guests[guest].enter(tcp_counters::read)?;
            let counters =
                counters.map_err(|source| LabError::resource("read counters of TCP", source))?;
            let count = counters.get(tcp_counters::TIMEOUTS).copied().unwrap_or(0);
            Ok(Some(u32::try_from(count).unwrap_or(u32::MAX)))
        };
        let flows = self.traffic.flows().iter().map(|flow| flow.guest);
        let arriving = self
            .traffic
            .arriving()
            .iter()
            .map(|flow| flow.running.guest);
        flows.chain(arriving).map(of_guest).collect()
    }
}
