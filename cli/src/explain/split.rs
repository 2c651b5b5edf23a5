//! Status of a split connection.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde::Serialize;
use uc_split::{CAVEAT, Status, is_split};

/// How this host makes the connections to far ends.
#[derive(Clone, Debug, Serialize)]
pub struct SplitBy {
    /// Congestion control of new ones; `None`: the host's.
    pub congestion_control: Option<String>,
    /// Whether new ones ask for Multipath TCP.
    pub mptcp: bool,
}

/// Returns how the connection is split; `None` if it is not.
///
/// # Errors
/// If this host's sockets can't be listed.
pub fn of(guest: SocketAddr, far: SocketAddr) -> Result<Option<SplitBy>> {
    // Without the process no connection is split.
    let Some(status) = Status::ask().ok() else {
        return Ok(None);
    };
    let split = is_split(guest, far).context("the sockets of this host can't be listed")?;
    Ok(split.then_some(SplitBy {
        congestion_control: status.setup.congestion_control,
        mptcp: status.setup.mptcp,
    }))
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = self.congestion_control.as_deref();
        write!(
            f,
            "split: the guest's connection ends at this host, which makes its own to the far end, with {} over \
             {}; {CAVEAT}",
            control.unwrap_or("the host's congestion control"),
            if self.mptcp { "Multipath TCP" } else { "TCP" },
        )
    }
}
