//! The interface between the lab's ports and whatever attaches programs to them.

mod beside;
pub mod programs;
mod starts;

use std::collections::BTreeMap;
use std::net::IpAddr;

use uc_experiment::{BitsPerSec, CouplingRules, Dupack, Hold, Law, Parameters, Profile, Watch};

use crate::error::PortError;
use crate::flow::FiveTuple;
use crate::names::GUEST_PORT_FIRST;
use crate::plan::{Guest, Plan, Server};

/// The port of one guest, or of a receiver: the host-side interface of its link.
#[derive(Debug, Clone)]
pub struct Port<'a> {
    /// Interface name in the hosts' namespace.
    pub ifname: &'a str,
    /// Interface index in the hosts' namespace; it has no meaning in others.
    pub ifindex: u32,
    /// Owner of the port, for messages.
    pub node: &'a str,
    /// IP address of the guest or server behind the port.
    pub address: IpAddr,
    /// Congestion control law that the port applies.
    pub law: Law,
    /// Parameters of the port's law.
    pub parameters: Parameters,
    /// TCP sender that the law's shadow imitates.
    pub profile: Profile,
    /// Start law `watch` with its settings; `None`: flows start as their TCP does.
    pub start: Option<Watch>,
    /// Rate at which another host grants the first windows of all flows with a start law; `None`: none does.
    pub grants: Option<BitsPerSec>,
    /// Settings for packets that the port holds; `None`: it holds none.
    pub hold: Option<Hold>,
    /// Settings for duplicate ACKs that the port sends its guest; `None`: it sends none.
    pub dupack: Option<Dupack>,
    /// Role of the guest or server behind the port.
    pub part: Part,
    /// Sharing of windows by the port's flows; `None`: each has its own.
    pub sharing: Option<Sharing>,
}

/// The role in the traffic of the guest or server behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A client: connects, and sends.
    Client,
    /// A web server: receives requests, and sends.
    WebServer,
    /// A receiver of data.
    Receiver,
}

/// The sharing of windows by a port's flows. All ports of a run are in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// Weight of the port's guest in the group.
    pub weight: u8,
    /// TCP ports of the guest's flows with a priority above 1, each with its priority.
    pub priorities: Vec<(u16, u8)>,
    /// Rules of the group.
    pub rules: CouplingRules,
    /// Whether the group's window is the sum of its flows' own laws' windows.
    pub is_sum: bool,
    /// Whether the group's flows go to several receivers, so that no address names the group.
    pub is_spread: bool,
}

impl Sharing {
    fn of(guest: &Guest, plan: &Plan) -> Option<Sharing> {
        let by_port = guest.is_coupled_by_port;
        let coupling = guest.coupling.as_ref().filter(|_| by_port)?;
        let priority = |flow| (GUEST_PORT_FIRST + flow as u16, guest.part_of(flow).priority);
        let priorities = (0..guest.flows).map(priority);
        Some(Sharing {
            weight: coupling.weight,
            priorities: priorities.filter(|&(_, priority)| priority > 1).collect(),
            rules: plan.coupling,
            is_sum: guest.shares_sum,
            is_spread: plan.servers.len() > 1,
        })
    }
}

impl<'a> Port<'a> {
    /// Returns every port of `plan` that has a law. Interface indices are 0; the caller sets them.
    pub(crate) fn translated(plan: &'a Plan) -> Vec<Self> {
        let guests = plan.guests.iter().filter_map(|guest| {
            Some(Port {
                ifname: &guest.port,
                ifindex: 0,
                node: &guest.label,
                address: guest.address,
                law: guest.law?,
                parameters: guest.parameters.clone(),
                profile: guest.profile,
                start: guest.start.clone(),
                grants: plan.grants,
                hold: guest.hold,
                dupack: guest.dupack,
                part: if guest.pages.is_some() {
                    Part::WebServer
                } else {
                    Part::Client
                },
                sharing: Sharing::of(guest, plan),
            })
        });
        let of_server = |server: &'a Server| {
            Some(Port {
                ifname: server.port.as_deref()?,
                ifindex: 0,
                node: &server.label,
                address: server.address,
                law: server.law?,
                parameters: Parameters::default(),
                profile: Profile::Linux,
                start: server.start.clone(),
                grants: plan.grants,
                hold: None,
                dupack: None,
                part: Part::Receiver,
                sharing: None,
            })
        };
        guests
            .chain(plan.servers.iter().filter_map(of_server))
            .collect()
    }
}

/// The state of a translated flow at its host, at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowSample {
    /// Window of the law's shadow, in bytes.
    pub window_bytes: u32,
    /// Estimate α of law `dctcp`, in 1/2^30; `None` under another law.
    pub alpha_q30: Option<u32>,
}

/// An implementation that attaches programs to ports and reads their state. One value serves one
/// run.
pub trait Ports: Send {
    /// Attaches to one port. Called on a thread inside the namespace that holds the ports, once for
    /// each guest whose group has a law and for each receiver if they have one, before any traffic.
    /// Whatever is attached is to be released when the value is dropped; the interface itself
    /// vanishes with the run.
    ///
    /// # Errors
    /// Whatever kept the program from the port; the run ends with it.
    fn attach(&mut self, port: &Port<'_>) -> Result<(), PortError>;

    /// Returns the state of a flow's shadow; `None` where no law translates the flow. `flow` is in the guest's
    /// direction. Called at every sample, in the caller's namespace.
    fn shadow(&mut self, flow: &FiveTuple) -> Option<ShadowSample>;

    /// Returns all counters of the programs, by name. Called once, when the flows have stopped and
    /// the ports still exist.
    ///
    /// # Errors
    /// A process or thread that serves the ports ended before the flows did; the run ends with it.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, PortError>;
}

/// An implementation for runs without programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPorts;

impl Ports for NoPorts {
    fn attach(&mut self, port: &Port<'_>) -> Result<(), PortError> {
        Err(format!(
            "{} has a law, and this program was built or called without port programs",
            port.node
        )
        .into())
    }

    fn shadow(&mut self, _flow: &FiveTuple) -> Option<ShadowSample> {
        None
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, PortError> {
        Ok(BTreeMap::new())
    }
}
