//! The network between hosts: links, queue disciplines, faults and topology.
//!
//! The crate has no clock. Every call takes `now`, and the behaviour of a link depends on the times
//! at which packets were given to it, never on the times of other calls: a driver on the real clock
//! that wakes up late sees the same departures as a simulator that stops at every event.
//!
//! Read in this order:
//! 1. [`packet`]: the network's interface to packets.
//! 2. [`queue`]: DropTail, step marking and RED; each decides when a packet arrives.
//! 3. [`link`] and `link_model`: a queue, a transmitter at a rate, a propagation delay; one direction. When
//!    a packet comes, the time at which it arrives at the far end is known.
//! 4. [`topology`] and [`shapes`]: hosts, switches, links; star, single switch, dumbbell,
//!    parking lot, leaf–spine; `fat_tree`.
//! 5. [`routes`]: the fewest hops, and ECMP where several paths have as few; `path`: the one of a connection.
//! 6. [`network`], with `arrival_queue`, `packet_store` and `sources`: injects, forwards and delivers, in the
//!    order of (time, sequence). A driver on the real clock uses [`advance`](Network::advance) with a sink; a simulator uses
//!    [`next_delivery`](Network::next_delivery) or [`next_arrival`](Network::next_arrival) and answers
//!    each packet before time goes on.
//!
//! All arithmetic on packets is in integers. The one exception is the derivation of RED's
//! parameters ([`queue::red::RedParameters`]), which happens once, before time zero.

mod arrival_queue;
pub mod error;
mod fat_tree;
pub mod fault;
pub mod link;
mod link_model;
pub mod network;
pub mod packet;
mod packet_store;
mod path;
pub mod queue;
pub mod random;
pub mod routes;
pub mod serializer;
pub mod shapes;
pub mod sink;
mod sources;
pub mod stats;
pub mod topology;

pub use error::{NetError, SpecError};
pub use fat_tree::FatTree;
pub use fault::{Fault, FaultRule};
pub use link::Link;
pub use link_model::LinkSpec;
pub use network::Network;
pub use packet::{Ecn, Packet};
pub use path::Path;
pub use queue::red::{RedParameters, RedSpec};
pub use queue::{Backlog, DropReason, Length, QueueSpec, Verdict};
pub use shapes::{Dumbbell, LeafSpine, ParkingLot, SingleSwitch, Star};
pub use sink::{Arrival, Delivery, Observer, Sink};
pub use stats::{FlowCounts, FlowTable, LinkReport, LinkStats};
pub use topology::{HostId, LinkId, LinkPlan, Node, SwitchId, Topology};
pub use uc_words::{BitsPerSec, Nanos};
