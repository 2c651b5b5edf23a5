//! Congestion controls that an experiment names and this kernel may lack.
//!
//! `dctcp` is the kernel's own where it has one, else the one that [`uc_guest`] brings, registered
//! for this run alone under a name that nobody else has.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use uc_guest::{Dctcp, DctcpState};

use crate::error::LabError;
use crate::plan::Plan;

/// The name that an experiment and the kernel have for it.
pub(crate) const DCTCP: &str = "dctcp";

/// What the stacks of a case need beyond the kernel's own congestion controls.
#[derive(Debug, Default)]
pub struct CongestionControls {
    dctcp: Option<Dctcp>,
}

impl CongestionControls {
    /// Loads what `plan` names and the kernel lacks.
    ///
    /// # Errors
    /// [`LabError::Guest`] when it can't be loaded.
    pub fn prepare(plan: &Plan) -> Result<Self, LabError> {
        let guests = plan.guests.iter().map(|guest| &guest.stack);
        let mut stacks = guests.chain([&plan.server.stack]);
        let named = stacks.any(|stack| stack.congestion_control == DCTCP);
        if !named || kernel_has(DCTCP)? {
            return Ok(Self::default());
        }
        let dctcp = Dctcp::register_private().map_err(LabError::Guest)?;
        Ok(Self { dctcp: Some(dctcp) })
    }

    /// How a socket asks the kernel for the congestion control of that name.
    pub fn kernel_name<'a>(&'a self, name: &'a str) -> &'a str {
        match &self.dctcp {
            Some(dctcp) if name == DCTCP => dctcp.name(),
            _ => name,
        }
    }

    /// What a DCTCP that we brought keeps of this connection; `None` for every other.
    ///
    /// # Errors
    /// The kernel's.
    pub fn dctcp_state(&self, socket: BorrowedFd<'_>) -> io::Result<Option<DctcpState>> {
        let Some(dctcp) = &self.dctcp else {
            return Ok(None);
        };
        dctcp.state(socket).map_err(io::Error::other)
    }
}

/// Asks by a socket, as the traffic will: that loads a module where there is one.
fn kernel_has(name: &str) -> Result<bool, LabError> {
    let failed = |errno: nix::Error| LabError::Socket {
        node: "the lab".into(),
        action: "looking for a congestion control",
        source: errno.into(),
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).map_err(failed)?;
    match setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(name)) {
        Ok(()) => Ok(true),
        Err(nix::Error::ENOENT) => Ok(false),
        Err(errno) => Err(failed(errno)),
    }
}
