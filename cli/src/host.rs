//! The operator's commands: ports, flows, policy, the agent, and what guests load.

pub mod agent;
pub mod check;
pub mod confirm;
pub mod couple;
pub mod coupling;
pub mod dupack;
pub mod explain;
pub mod flows;
pub mod full;
pub mod given;
pub mod guest;
pub mod hold;
pub mod law;
pub mod laws;
mod least_timeout;
pub mod options;
mod pace;
pub mod parameters;
pub mod ports;
pub mod seen;
pub mod split;
pub mod status;
mod tasks;
pub mod top;
mod truth;
pub mod tune;
pub mod watch;
