//! The platform of the guests' TCP: namespaces of this kernel, or another implementation.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use uc_experiment::FlowSample;
use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::flow::FiveTuple;
use crate::lab::Lab;
use crate::plan::Plan;
use crate::sampler;
use crate::tcp_info::TcpInfo;
use crate::traffic::Traffic;
use crate::wiring::Ends;

/// A check whether the run is to go on; called about every 20 ms while something is waited for. An
/// error ends the run.
pub type GoOn<'a> = &'a dyn Fn() -> Result<(), LabError>;

/// A platform that runs the guests of a run. One value serves one run.
pub trait Home {
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

/// The running flows of a case. Dropping it ends them.
pub trait Load {
    /// Returns the flows, in the order of the record.
    fn flows(&self) -> Vec<Running>;

    /// Waits until every flow is connected, and returns the number of retransmitted SYNs. Flows
    /// send as soon as they are connected.
    ///
    /// # Errors
    /// The guest that could not connect, or the error of `go_on`.
    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError>;

    /// Checks that every flow goes on.
    ///
    /// # Errors
    /// The first failure of a flow.
    fn check(&mut self) -> Result<(), LabError>;

    /// Returns the current state of every flow, in the order of the record.
    ///
    /// # Errors
    /// The guest whose flow could not be read.
    fn sample(&mut self) -> Result<Vec<Sighting>, LabError>;

    /// Returns the guests' counters of the whole run, and the retransmission timeouts of each flow
    /// where they are known.
    ///
    /// # Errors
    /// The guest that could not be read.
    fn finish(&mut self) -> Result<Counted, LabError>;
}

/// A running flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Index of its guest in the plan.
    pub guest: usize,
    /// Name of the flow's group.
    pub group: String,
    /// Number of the flow in its group.
    pub index: u32,
    /// Connection in the guest's direction.
    pub tuple: FiveTuple,
}

/// One flow at one time.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// Time of the sample.
    pub at: Nanos,
    /// State at its sender and its receiver; the run fills in the sample's time.
    pub sample: FlowSample,
    /// Whether ECN was negotiated.
    pub negotiated_ecn: bool,
}

/// The guests' counters at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// Timeouts of each flow; `None` where they are not counted.
    pub timeouts: Vec<Option<u32>>,
}

/// The platform of the live backend: namespaces of this kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespaces;

impl Home for Namespaces {
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
        self.traffic.flows().iter().map(running).collect()
    }

    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError> {
        self.traffic.wait_connected(go_on)
    }

    fn check(&mut self) -> Result<(), LabError> {
        self.traffic.check()
    }

    fn sample(&mut self) -> Result<Vec<Sighting>, LabError> {
        let congestion = &self.lab.wiring.congestion;
        let of_flow = |flow: &crate::traffic::Flow| {
            let failed = |action| {
                let node = self.plan.guests[flow.guest].label.clone();
                move |source| LabError::Socket {
                    node,
                    action,
                    source,
                }
            };
            let (at, socket) = (clock::now(), flow.socket.as_fd());
            let info = TcpInfo::read(socket).map_err(failed("reading TCP_INFO"))?;
            let dctcp = congestion.dctcp_state(socket);
            let dctcp = dctcp.map_err(failed("reading its DCTCP"))?;
            Ok(Sighting {
                at,
                sample: FlowSample {
                    delivered_bytes: flow.delivered_bytes(),
                    ..sampler::of_sender(&info, dctcp)
                },
                negotiated_ecn: info.negotiated_ecn(),
            })
        };
        self.traffic.flows().iter().map(of_flow).collect()
    }

    fn finish(&mut self) -> Result<Counted, LabError> {
        Ok(Counted {
            counters: self.traffic.counters(),
            ..Counted::default()
        })
    }
}
