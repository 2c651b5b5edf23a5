//! The input of the simulator as plain data: a network and the flows that use it.

use std::sync::Arc;

use uc_core::Policy;
use uc_core::dupack;
use uc_core::watch::StartPolicy;
use uc_experiment::application::Sizes;
use uc_experiment::{Guests, Network, Pattern};
use uc_net::{HostId, Nanos, Topology};
use uc_tcp::Config;

use crate::consolidation::{Consolidation, Virtual};
use crate::membership::{CoupledGroup, Membership};

/// Size of a receiver's request for a block of an incast: a small query.
const QUERY_BYTES: u64 = 64;

/// A network, and the traffic that it carries.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of all random streams of the run.
    pub seed: u64,
    /// Hosts, switches and links of the network.
    pub topology: Topology,
    /// IP header size of every packet: 20 bytes, or 40 for IPv6.
    pub ip_header_bytes: u32,
    /// Flows, in the order of the record.
    pub flows: Vec<FlowPlan>,
    /// Groups whose flows share a window.
    pub groups: Vec<CoupledGroup>,
    /// Virtual machines that share CPU cores.
    pub consolidation: Consolidation,
    /// Host that grants the first windows of all flows on a link that receivers share, and its policy with the link's
    /// rate. `None`: each receiver's host grants those on its own link.
    pub granter: Option<(HostId, StartPolicy)>,
}

/// One flow: the guest that sends, the hosts that receive (several for transfers, messages and web
/// traffic), and its traffic.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Name of the flow in messages; also seeds the flow's random streams.
    pub name: String,
    /// Host on which the guest runs.
    pub guest: HostId,
    /// Hosts that receive the guest's flows, one or more. Transfers take them in this order;
    /// messages and web transfers go to one of them at random.
    pub receivers: Vec<HostId>,
    /// TCP settings of the guest.
    pub guest_config: Arc<Config>,
    /// TCP settings of the receiver.
    pub receiver_config: Arc<Config>,
    /// Policy of the guest's port; `None`: a port without the core.
    pub policy: Option<Policy>,
    /// Policy of the duplicate ACKs that the guest's port sends; `None`: it sends none.
    pub dupacks: Option<dupack::Policy>,
    /// Settings of `hold` at the guest's port; `None`: nothing is held.
    pub hold: Option<uc_hold_core::Settings>,
    /// Policy of the receivers' ports; `None`: ports without the core.
    pub receiver_policy: Option<Policy>,
    /// Start policy at both ends, if the start law is `watch`; otherwise `None`.
    pub start_policy: Option<StartPolicy>,
    /// Position in the coupled groups; `None` for a flow with a window of its own.
    pub membership: Option<Membership>,
    /// Virtual machines of the flow's ends.
    pub virtual_part: Virtual,
    /// Time at which the flow begins.
    pub start: Nanos,
    /// Time at which a bulk flow ends; `None`: with the run.
    pub stop: Option<Nanos>,
    /// Traffic that the flow carries.
    pub application: Application,
}

impl FlowPlan {
    /// Returns whether the shadow at the guest's port is in the coupled group, not the guest's TCP.
    pub fn is_coupled_by_port(&self) -> bool {
        self.membership.is_some_and(|membership| membership.by_port)
    }
}

/// The kind of traffic that a flow carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// Endless data: as much as TCP takes.
    Bulk,
    /// One transfer of fixed size to each receiver.
    Transfer {
        /// Number of payload bytes of a transfer.
        bytes: u64,
        /// Maximum number of transfers at once; at least one.
        parallel: u32,
    },
    /// Requests of the receiver and responses of the guest over one connection.
    Exchange(Exchange),
    /// Transfers at given times, each over a connection of its own.
    Epochs(Epochs),
    /// Transfers that arrive as a Poisson process, each over a connection of its own.
    Web {
        /// Mean time between the arrivals of two transfers.
        mean_gap: Nanos,
        /// Distribution of the sizes of transfers.
        sizes: Sizes,
    },
    /// Transfers at given times, each over a connection of its own: one to each receiver, in their order.
    List(Vec<(Nanos, u64)>),
    /// Messages over connections that stay open, one to each receiver.
    Messages {
        /// Distribution of the sizes of messages.
        sizes: Sizes,
        /// Interval between the starts of two messages; `None`: each begins when the one before it
        /// has arrived.
        every: Option<Nanos>,
    },
}

impl Application {
    /// Returns the traffic of a flow on host number `host`. `group` is group number `number` of its case; `turns`:
    /// start times of the flow's transfers, if they begin in epochs.
    pub fn of(
        group: &Guests,
        network: &Network,
        number: usize,
        host: usize,
        turns: Vec<Nanos>,
    ) -> Application {
        use uc_experiment::Application as Written;
        match &group.application {
            Written::Bulk => Application::Bulk,
            Written::Transfer { size } => Application::Transfer {
                bytes: size.0.into(),
                parallel: match group.pattern {
                    Some(Pattern::Shuffle { parallel }) => parallel,
                    _ => 1,
                },
            },
            Written::Request {
                request,
                response,
                rounds,
                gap,
            } => Application::Exchange(Exchange {
                request_bytes: request.0.into(),
                response_bytes: response.0.into(),
                rounds: *rounds,
                gap: *gap,
                barrier: None,
            }),
            Written::Incast { block, rounds } => Application::Exchange(Exchange {
                request_bytes: QUERY_BYTES,
                response_bytes: block.0.into(),
                rounds: *rounds,
                gap: Nanos::ZERO,
                barrier: Some(number),
            }),
            Written::Epochs { size, request, .. } => Application::Epochs(Epochs {
                bytes: size.0.into(),
                request_bytes: request.map(|request| request.0.into()),
                turns,
            }),
            Written::Web { sizes, .. } => Application::Web {
                mean_gap: group.web(network).map_or(Nanos::MAX, |(gap, _)| gap),
                sizes: sizes.clone(),
            },
            Written::List(_) => {
                let listed = group.listed_from(host as u32).into_iter();
                Application::List(listed.map(|(_, size, at)| (at, size.0.into())).collect())
            }
            Written::Messages { sizes, every } => Application::Messages {
                sizes: sizes.clone(),
                every: *every,
            },
        }
    }
}

/// Transfers that start at given times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Number of payload bytes of each transfer.
    pub bytes: u64,
    /// Payload of the receiver's request for a transfer, in bytes; the receiver then opens the connection. `None`: the
    /// guest opens the connection and sends.
    pub request_bytes: Option<u64>,
    /// Start times of the transfers, ascending.
    pub turns: Vec<Nanos>,
}

/// Requests that are answered by responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number of payload bytes of a request.
    pub request_bytes: u64,
    /// Number of payload bytes of a response.
    pub response_bytes: u64,
    /// Number of rounds; 0: until the end of the run.
    pub rounds: u32,
    /// Time from a response's last byte to the next request.
    pub gap: Nanos,
    /// Number of the flow's barrier: its flows send their requests together, once all of them have been answered
    /// (incast). `None`: the flow waits for no other.
    pub barrier: Option<usize>,
}
