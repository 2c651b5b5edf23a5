//! How this host splits a connection.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde::Serialize;
use uc_split::{CAVEAT, Status, is_split};

/// How this host opens its connections to far ends.
#[derive(Clone, Debug, Serialize)]
pub struct SplitBy {
    /// Congestion control of new connections to far ends; `None`: the host's default.
    pub congestion_control: Option<String>,
    /// Whether new connections to far ends ask for Multipath TCP.
    pub mptcp: bool,
}

/// Returns how this host splits the connection; `None` if it does not split it.
///
/// # Errors
/// This host's sockets can't be listed.
pub fn of(guest: SocketAddr, far: SocketAddr) -> Result<Option<SplitBy>> {
    // Without the process no connection is split.
    let Some(status) = Status::ask().ok() else {
        return Ok(None);
    };
    let split = is_split(guest, far)
        .context("could not list this host's TCP sockets to find split connections")?;
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
