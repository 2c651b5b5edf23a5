//! The tasks that an agent gives to the commands that it runs, and the status that these report: types for the
//! commands, for the agent, and for readers of its state.

pub mod dupack;
pub mod hold;
pub mod split;

use std::net::SocketAddr;
use std::time::Duration;

/// A flow: the index of its port, the guest's end and the remote one.
pub type Key = (u32, SocketAddr, SocketAddr);

/// Returns a time in microseconds, as the settings have it in JSON.
fn to_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
