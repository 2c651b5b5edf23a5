//! A client of this host's agent. It asks for the agent's state, and has the agent withdraw ports, return them, read
//! its policy again, or confirm a policy. All calls block. The crate does not contain the daemon, so commands that are
//! built without the daemon can ask one that runs.
//!
//! - [`Client`]: one request and its answer over the agent's socket.
//! - [`AgentState`]: the answer to `GET /status`; [`Ports`], [`Done`], [`Refusal`]: a change.
//! - [`lock`]: the agent's lock, which names its socket.

mod asked;
mod client;
mod error;
pub mod lock;
pub mod state;

pub use asked::{Confirmation, Done, Ports, Refusal};
pub use client::Client;
pub use error::AgentError;
pub use state::AgentState;
