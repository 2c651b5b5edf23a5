//! Congestion controls that an experiment names and this kernel may lack.
//!
//! `dctcp` is the kernel's own where it has one, else the one that [`uc_guest`] brings, registered
//! for this run alone under a name that nobody else has. `ctrltcp` and `ctrlcubic` are Reno and CUBIC
//! whose connections to one host share a window, in this run alone too: each namespace is a guest of
//! the group that all senders to the server are.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use uc_guest::{CouplingPolicy, Ctrltcp, Dctcp, DctcpState};

use crate::error::LabError;
use crate::plan::Plan;

/// The name that an experiment and the kernel have for it.
pub(crate) const DCTCP: &str = "dctcp";

/// The names that an experiment has for the coupled ones; no kernel has them.
const CTRLTCP: &str = "ctrltcp";
const CTRLCUBIC: &str = "ctrlcubic";

/// What the stacks of a case need beyond the kernel's own congestion controls.
#[derive(Debug, Default)]
pub struct CongestionControls {
    dctcp: Option<Dctcp>,
    ctrltcp: Option<Ctrltcp>,
}

impl CongestionControls {
    /// Loads what `plan` names and the kernel lacks.
    ///
    /// # Errors
    /// [`LabError::Guest`] when it can't be loaded.
    pub fn prepare(plan: &Plan) -> Result<Self, LabError> {
        let guests = plan.guests.iter().map(|guest| &guest.stack);
        let stacks = guests.chain([&plan.server.stack]);
        let named: Vec<_> = stacks.map(|stack| &stack.congestion_control[..]).collect();
        Self::for_names(&named)
    }

    /// Loads what is named and the kernel lacks.
    ///
    /// # Errors
    /// As [`CongestionControls::prepare`].
    pub fn for_names(named: &[&str]) -> Result<Self, LabError> {
        let mut controls = Self::default();
        if named.contains(&DCTCP) && !kernel_has(DCTCP)? {
            controls.dctcp = Some(Dctcp::register_private().map_err(LabError::Guest)?);
        }
        if named.contains(&CTRLTCP) || named.contains(&CTRLCUBIC) {
            let ctrltcp = Ctrltcp::register_private(&CouplingPolicy::default());
            controls.ctrltcp = Some(ctrltcp.map_err(LabError::Guest)?);
        }
        Ok(controls)
    }

    /// How a socket asks the kernel for the congestion control of that name.
    pub fn kernel_name<'a>(&'a self, name: &'a str) -> &'a str {
        let dctcp = self.dctcp.as_ref();
        let ctrltcp = self.ctrltcp.as_ref();
        let brought = match name {
            DCTCP => dctcp.map(Dctcp::name),
            CTRLTCP => ctrltcp.map(Ctrltcp::name),
            CTRLCUBIC => ctrltcp.and_then(Ctrltcp::cubic_name),
            _ => None,
        };
        brought.unwrap_or(name)
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
