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

/// A network with its traffic.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of all random streams.
    pub seed: u64,
    /// Hosts, switches and links.
    pub topology: Topology,
    /// IP header size of every packet: 20 bytes, or 40 for IPv6.
    pub ip_header_bytes: u32,
    /// Flows, in the order of the record.
    pub flows: Vec<FlowPlan>,
    /// Groups whose flows share a window.
    pub groups: Vec<CoupledGroup>,
    /// Virtual machines that share CPU cores.
    pub consolidation: Consolidation,
    /// Host that grants the first windows of all flows on a link that receivers share, at its policy's
    /// rate; `None`: each receiver's host gives those of its own link.
    pub granter: Option<(HostId, StartPolicy)>,
}

/// One flow: the guest that sends, the hosts that receive (several for transfers, messages and web
/// traffic), and its traffic.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Name in messages; seeds its random streams.
    pub name: String,
    /// Host of the guest.
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
    /// Start policy at both ends, if the start law is `watch`.
    pub start_policy: Option<StartPolicy>,
    /// Position in the coupled groups; `None` for a flow with a window of its own.
    pub membership: Option<Membership>,
    /// Virtual machines of the flow's ends.
    pub virtual_part: Virtual,
    /// Time at which it begins.
    pub start: Nanos,
    /// Time at which a bulk flow ends; `None`: with the run.
    pub stop: Option<Nanos>,
    /// Traffic that it carries.
    pub application: Application,
}

impl FlowPlan {
    /// Returns whether the guest's port shadow, not its TCP, is in the coupled group.
    pub fn is_coupled_by_port(&self) -> bool {
        self.membership.is_some_and(|membership| membership.by_port)
    }
}

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// Endless data: as much as TCP takes.
    Bulk,
    /// One transfer of fixed size to each receiver.
    Transfer {
        /// Payload of a transfer.
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
        /// Mean time between two arrivals.
        mean_gap: Nanos,
        /// Distribution of transfer sizes.
        sizes: Sizes,
    },
    /// Transfers at given times, each over a connection of its own: one to each receiver, in their order.
    List(Vec<(Nanos, u64)>),
    /// Messages over connections that stay open, one to each receiver.
    Messages {
        /// Distribution of message sizes.
        sizes: Sizes,
        /// Interval between the starts of two messages; `None`: each begins when the one before it
        /// has arrived.
        every: Option<Nanos>,
    },
}

impl Application {
    /// Returns the traffic of a flow on `host`, of a group which is number `number` of its case. `turns`:
    /// start times of its transfers, if they begin in epochs.
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
                mean_gap: {
                    let rate = group.arrivals_per_s(network).unwrap_or_default();
                    Nanos((1e9 / rate).round().max(1.0) as u64)
                },
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

/// Transfers at given times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Payload of a transfer.
    pub bytes: u64,
    /// Payload of the receiver's request for a transfer; the receiver then opens the connection.
    /// `None`: the guest opens it and sends.
    pub request_bytes: Option<u64>,
    /// Start times, ascending.
    pub turns: Vec<Nanos>,
}

/// Requests and responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a response.
    pub response_bytes: u64,
    /// Number of rounds; 0: until the end of the run.
    pub rounds: u32,
    /// Time from a response's last byte to the next request.
    pub gap: Nanos,
    /// Flows with the same number send their requests together, once all of them have been
    /// answered: incast.
    pub barrier: Option<usize>,
}
