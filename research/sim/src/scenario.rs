//! What is simulated, as plain data: a network and the flows that use it.

use std::sync::Arc;

use uc_core::Policy;
use uc_core::watch::StartPolicy;
use uc_experiment::application::Sizes;
use uc_experiment::{Guests, Pattern};
use uc_net::{HostId, Nanos, Topology};
use uc_tcp::Config;

use crate::consolidation::{Consolidation, Virtual};
use crate::membership::{CoupledGroup, Membership};

/// What a receiver sends to ask for a block of an incast: a small query.
const QUERY_BYTES: u64 = 64;

/// A network with its traffic.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where all random streams come from.
    pub seed: u64,
    /// Hosts, switches, links.
    pub topology: Topology,
    /// The IP header of every packet: 20 bytes, or 40 for IPv6.
    pub ip_header_bytes: u32,
    /// The flows, in the order of the record.
    pub flows: Vec<FlowPlan>,
    /// The groups whose flows share a window.
    pub groups: Vec<CoupledGroup>,
    /// Which of the hosts are virtual machines that share processor cores.
    pub consolidation: Consolidation,
}

/// One flow: a guest, its receivers, and what passes between them. The guest opens the connection
/// and sends the data.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name in messages; seeds its random streams.
    pub name: String,
    /// Where the guest sits.
    pub guest: HostId,
    /// Where its receivers sit: one; several for transfers, of which each gets one in this order,
    /// and for messages and web transfers, each of which goes to one of them at random.
    pub receivers: Vec<HostId>,
    /// The guest's TCP.
    pub guest_config: Arc<Config>,
    /// The receiver's TCP.
    pub receiver_config: Arc<Config>,
    /// The policy of the guest's port; no core on it where absent.
    pub policy: Option<Policy>,
    /// The same of the receivers' ports.
    pub receiver_policy: Option<Policy>,
    /// How its connections start, where that is `watch`; at both ends.
    pub start_policy: Option<StartPolicy>,
    /// Its place in the coupled groups; none for one that keeps its own window.
    pub membership: Option<Membership>,
    /// Its ends' part in virtual machines.
    pub virtual_part: Virtual,
    /// When it begins.
    pub start: Nanos,
    /// When a bulk flow ends; with the run where absent.
    pub stop: Option<Nanos>,
    /// What it carries.
    pub application: Application,
}

impl FlowPlan {
    /// Whether not the guest's TCP but its port's shadow is in the coupled group.
    pub fn is_coupled_by_port(&self) -> bool {
        self.membership.is_some_and(|membership| membership.by_port)
    }
}

/// What a flow carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As much as TCP takes.
    Bulk,
    /// So many bytes, once to each receiver.
    Transfer {
        /// Payload.
        bytes: u64,
        /// How many of them go on at once, at most; at least one does.
        parallel: u32,
    },
    /// The receiver asks, the guest answers, over one connection.
    Exchange(Exchange),
    /// Transfers at given moments, each over a connection of its own.
    Epochs(Epochs),
    /// Connections of their own for transfers that arrive as a Poisson process.
    Web {
        /// Mean time between two arrivals.
        mean_gap: Nanos,
        /// How large they are.
        sizes: Sizes,
    },
    /// Messages over connections that stay open, one to each receiver.
    Messages {
        /// How large they are.
        sizes: Sizes,
        /// From the beginning of one to that of the next; where absent, each begins when the one
        /// before it has arrived.
        every: Option<Nanos>,
    },
}

impl Application {
    /// What a flow of a group carries, which is number `number` of its case. `turns`: when its
    /// transfers begin, where they begin in epochs.
    pub fn of(group: &Guests, number: usize, turns: Vec<Nanos>) -> Application {
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
                gap: Nanos(gap.0),
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
            Written::Web { rate, sizes } => Application::Web {
                mean_gap: Nanos((1e9 / rate).round() as u64),
                sizes: sizes.clone(),
            },
            Written::Messages { sizes, every } => Application::Messages {
                sizes: sizes.clone(),
                every: every.map(|every| Nanos(every.0)),
            },
        }
    }
}

/// Transfers at given moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Payload of one.
    pub bytes: u64,
    /// Payload of the request for one, by the receiver, which then opens the connection; where
    /// absent the guest opens it and sends.
    pub request_bytes: Option<u64>,
    /// When they begin, rising.
    pub turns: Vec<Nanos>,
}

/// Requests and responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of a response.
    pub response_bytes: u64,
    /// How many; 0: until the end of the run.
    pub rounds: u32,
    /// From a response's last byte to the next request.
    pub gap: Nanos,
    /// Flows with the same number ask together, once all of them have been answered: incast.
    pub barrier: Option<usize>,
}
