//! The host's agent: finds ports, attaches them, keeps the policy in force, and reports its state.
//!
//! Read in this order:
//! - [`run()`]: an agent's life, and its threads.
//! - `engine.rs`: the only decider; `desired.rs`: the desired state; `reconcile.rs`: the steps to
//!   it, as a pure function; `ports.rs`: those steps in the kernel; `record.rs`: state and log.
//! - Sources of events: `links.rs` (interfaces over netlink), `file.rs` and `etcd.rs` (policy),
//!   signals, and `control.rs` (the operator, through a socket for root alone) with `request.rs`;
//!   `bounded.rs`: limits on the connections of clients.
//! - `source.rs`: the policy in force; `confirm.rs`: policies to be confirmed; `stored_policy.rs`: a fleet's last one on disk; `guests.rs`: names
//!   that libvirt and CNI give to the guest behind an interface; `withdrawn.rs`: ports detached by an
//!   operator.
//! - `rollout.rs`: a fleet's policy is tried on canaries first; `verdicts.rs`: what they say of it, in
//!   etcd.
//! - `confined.rs`: the processes without rights that parse what others wrote: `guest_names.rs` the files of
//!   libvirt and CNI, [`metrics`] the requests of scrapers.
//! - `watches.rs`, `splits.rs`, `dupacks.rs`, `packets.rs`: what processes of their own do for ports, `uc watch`,
//!   `uc split`, `uc dupack` and `uc hold`; `process.rs`: such a process; `command.rs`: one that does so for all
//!   ports together; `at_ports.rs`: one that does so at each port by itself.
//! - `tunes.rs`: the TCP of tenants' containers, by programs at their sockets.
//! - `publish.rs`: the state that clients read ([`uc_client::AgentState`]).

mod at_ports;
mod bounded;
mod command;
mod confined;
mod confirm;
mod control;
mod desired;
mod dupacks;
mod engine;
mod etcd;
mod event;
#[cfg(test)]
#[path = "../tests/faults/mod.rs"]
mod faults;
mod file;
pub mod guest_names;
mod guests;
mod handover;
mod links;
mod log;
mod memory;
pub mod metrics;
mod notify;
mod packets;
mod ports;
mod process;
mod publish;
mod reconcile;
mod record;
mod reload;
mod request;
mod rollout;
mod run;
mod settings;
mod source;
mod splits;
mod stored_policy;
mod tunes;
mod verdicts;
mod watches;
mod withdrawn;

pub use confined::{Part, confined};
pub use run::run;
pub use settings::Options;
pub use withdrawn::give_back;
