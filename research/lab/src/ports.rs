//! Where the lab hands its guests' ports to whoever attaches programs to them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use uc_experiment::{CouplingRules, Law, Parameters, Profile, Watch};

use crate::error::PortError;
use crate::flow::FiveTuple;
use crate::plan::{Guest, Plan, SERVER};
use crate::traffic::GUEST_PORT_FIRST;

/// The port of one guest, or of the server: the host-side interface of its link.
#[derive(Debug, Clone)]
pub struct Port<'a> {
    /// The interface's name in the namespace of the hosts.
    pub ifname: &'a str,
    /// Its index there; in other namespaces the number means nothing.
    pub ifindex: u32,
    /// Whose port it is, for messages.
    pub node: &'a str,
    /// The address of who is behind it.
    pub address: IpAddr,
    /// The law for it.
    pub law: Law,
    /// The law's parameters.
    pub parameters: Parameters,
    /// How literally.
    pub profile: Profile,
    /// How flows start there, where a start law says so.
    pub start: Option<Watch>,
    /// What is behind it: whoever sends the data, and how.
    pub part: Part,
    /// Whose window its flows share, if any.
    pub sharing: Option<Sharing>,
}

/// The part of a port's guest in the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It connects, and sends.
    Client,
    /// It is asked, and sends.
    WebServer,
    /// It receives.
    Receiver,
}

/// How a port's flows share windows. All ports of a run are in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// Its guest's weight in the group.
    pub weight: u8,
    /// TCP ports of the guest whose flows have a priority above the least.
    pub priorities: Vec<(u16, u8)>,
    /// What the group is like.
    pub rules: CouplingRules,
    /// Its window is the sum of what its flows' own laws make.
    pub is_sum: bool,
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
        })
    }
}

impl<'a> Port<'a> {
    /// Every port of `plan` that has a law; the interfaces' indexes are yet to be found.
    pub(crate) fn translated(plan: &'a Plan) -> Vec<Self> {
        let guests = plan.guests.iter().filter_map(|guest| {
            Some(Port {
                ifname: &guest.port,
                ifindex: 0,
                node: &guest.label,
                address: guest.address,
                law: guest.law?,
                parameters: guest.parameters,
                profile: guest.profile,
                start: guest.start,
                part: if guest.pages.is_some() {
                    Part::WebServer
                } else {
                    Part::Client
                },
                sharing: Sharing::of(guest, plan),
            })
        });
        let server = &plan.server;
        let of_server = server.law.map(|law| Port {
            ifname: &server.port,
            ifindex: 0,
            node: SERVER,
            address: server.address,
            law,
            parameters: Parameters::default(),
            profile: Profile::Linux,
            start: server.start,
            part: Part::Receiver,
            sharing: None,
        });
        guests.chain(of_server).collect()
    }
}

/// What a host knows of one translated flow at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowSample {
    /// The window of the law's shadow.
    pub window_bytes: u32,
    /// The estimate α of law `dctcp`, in 1/2^30.
    pub alpha_q30: Option<u32>,
}

/// Attaches programs to ports and reads what they keep. One value serves one run.
pub trait Ports: Send {
    /// Attaches to one port. Called on a thread inside the namespace that holds the ports, once for
    /// each guest whose group has a law and for the server if it has one, before anything flows.
    /// What is attached is to be released when the value is dropped; the interface itself vanishes
    /// with the run.
    ///
    /// # Errors
    /// Whatever kept the program from the port; the run ends with it.
    fn attach(&mut self, port: &Port<'_>) -> Result<(), PortError>;

    /// The shadow of the flow, named as the guest sends it; `None` where no law translates it.
    /// Called at every sample, in the caller's namespace.
    fn shadow(&mut self, flow: &FiveTuple) -> Option<ShadowSample>;

    /// Everything that the programs counted, by name. Called once, when the flows have stopped and
    /// the ports still exist.
    fn counters(&mut self) -> BTreeMap<String, u64>;
}

/// For runs without programs.
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

    fn counters(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}
