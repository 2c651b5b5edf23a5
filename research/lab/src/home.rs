//! Where the guests' TCP runs: in namespaces of this kernel, or in whatever else brings it.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use uc_experiment::{Arm, FlowSample};
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

/// Whether a run shall go on; asked whenever something is waited for, about every 20 ms.
pub type GoOn<'a> = &'a dyn Fn() -> Result<(), LabError>;

/// What brings the guests of a run. One value serves one run.
pub trait Home {
    /// The arm that it is.
    fn arm(&self) -> Arm;

    /// What the lab puts at the guests' ends of their links.
    fn ends(&self) -> Ends;

    /// Brings the guests up on a lab that is wired, with programs on its ports, and starts their
    /// flows in an order that the seed decides.
    ///
    /// # Errors
    /// Whatever kept a guest from it, with its label.
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
    /// Which connections they are, in the order of the record.
    fn flows(&self) -> Vec<Running>;

    /// Waits until every flow is connected, and says how many SYNs were sent again. Flows that are
    /// connected send already.
    ///
    /// # Errors
    /// The guest that could not, or what `go_on` answers.
    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError>;

    /// Whether every flow still goes on.
    ///
    /// # Errors
    /// The first failure of a flow.
    fn check(&mut self) -> Result<(), LabError>;

    /// The state of every flow now, in the same order.
    ///
    /// # Errors
    /// The guest whose flow could not be read.
    fn sample(&mut self) -> Result<Vec<Sighting>, LabError>;

    /// What the guests counted in the whole run, and how often each flow's retransmission timer
    /// expired where that is known.
    ///
    /// # Errors
    /// The guest that could not be asked.
    fn finish(&mut self) -> Result<Counted, LabError>;
}

/// A flow that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Index of its guest in the plan.
    pub guest: usize,
    /// Its group's name.
    pub group: String,
    /// Its number inside the group.
    pub index: u32,
    /// The connection as the guest sends it.
    pub tuple: FiveTuple,
}

/// One flow at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// When.
    pub at: Nanos,
    /// What its sender and its receiver say of it; its time is for the run to fill in.
    pub sample: FlowSample,
    /// Whether ECN was negotiated.
    pub negotiated_ecn: bool,
}

/// What guests know at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// By name.
    pub counters: BTreeMap<String, u64>,
    /// Timeouts of each flow; none where nobody counts them.
    pub timeouts: Vec<Option<u32>>,
}

/// The live arm's: namespaces of this kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespaces;

impl Home for Namespaces {
    fn arm(&self) -> Arm {
        Arm::Live
    }

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

/// Flows whose sockets are ours.
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
