//! Asking the host's agent: what it knows, who it is, and to let go of ports. Blocking, and without
//! the daemon, so a command that has no daemon in it still finds one that runs.
//!
//! - [`Client`]: one request and its answer over the agent's socket.
//! - [`AgentState`]: the answer to `GET /status`; [`Ports`], [`Done`], [`Refusal`]: a change.
//! - [`lock`]: the agent's lock, by which it is found.

mod asked;
mod client;
mod error;
pub mod lock;
pub mod state;

pub use asked::{Confirmation, Done, Ports, Refusal};
pub use client::Client;
pub use error::AgentError;
pub use state::AgentState;
