//! The host's agent: finds ports, attaches them, keeps policy in force, and says what it knows.
//!
//! Read in this order:
//! - [`run()`]: an agent's life, and who runs on which thread.
//! - `engine.rs`: the one decider; `desired.rs`: of what; `reconcile.rs`: what it does, as a pure
//!   function; `ports.rs`: the kernel's side of that; `account.rs`: what is told of it.
//! - Whom it hears: `links.rs` (interfaces over netlink), `file.rs` and `etcd.rs` (policy), signals,
//!   and `control.rs` (the operator, through a socket for root alone) with `wish.rs`; `bounded.rs`:
//!   how much of its descriptors those who connect can take.
//! - `source.rs`: the policy in force; `kept.rs`: a fleet's last one on disk; `guests.rs`: what
//!   libvirt and CNI call the guest behind an interface; `hold.rs`: ports that are off its hands.
//! - `publish.rs`: the state that those who ask are told ([`uc_client::AgentState`]).

mod account;
mod bounded;
mod control;
mod desired;
mod engine;
mod etcd;
mod file;
mod guests;
mod hold;
mod kept;
mod links;
mod log;
pub mod metrics;
mod notify;
mod ports;
mod publish;
mod reconcile;
mod run;
mod settings;
mod source;
mod watches;
mod wish;

pub use run::run;
pub use settings::Options;
