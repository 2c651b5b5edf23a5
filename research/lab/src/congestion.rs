//! Congestion controls that an experiment names and this kernel may lack.
//!
//! `dctcp` is the kernel's own where it has one, else the one of [`uc_guest`], registered for this run alone under a
//! private name. `ctrltcp` and `ctrlcubic` are Reno and CUBIC that share windows, registered for this run alone, too:
//! all coupled flows share one window, whatever their receiver, and each namespace is a guest. Guests with a `coupling`
//! use them in place of their `reno` and `cubic`, with their weights and priorities.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use uc_experiment::{CouplingRules, GroupSize, Shares};
use uc_guest::{CouplingPolicy, Ctrltcp, Dctcp, DctcpState, cookie};

use crate::error::LabError;
use crate::names::{CTRLCUBIC, CTRLTCP, DCTCP, GUEST_PORT_FIRST};
use crate::netns::Namespace;
use crate::plan::{Guest, Plan};

/// The congestion controls that the stacks of a case need and the kernel lacks.
#[derive(Debug, Default)]
pub struct CongestionControls {
    dctcp: Option<Dctcp>,
    ctrltcp: Option<Ctrltcp>,
}

impl CongestionControls {
    /// Loads the controls that `plan` names and the kernel lacks.
    ///
    /// # Errors
    /// [`LabError::Guest`] when one can't be loaded.
    pub fn prepare(plan: &Plan) -> Result<Self, LabError> {
        let guests = plan.guests.iter().map(|guest| &guest.stack);
        let stacks = guests.chain(plan.servers.iter().map(|server| &server.stack));
        let mut named: Vec<_> = stacks.map(|stack| &stack.congestion_control[..]).collect();
        if plan.guests.iter().any(Guest::couples) {
            named.push(CTRLTCP);
        }
        Self::for_names(&named, &plan.coupling)
    }

    /// Loads the controls in `named` that the kernel lacks; coupled flows follow the rules in `coupling`.
    ///
    /// # Errors
    /// As [`CongestionControls::prepare`].
    pub fn for_names(named: &[&str], coupling: &CouplingRules) -> Result<Self, LabError> {
        let mut controls = Self::default();
        if named.contains(&DCTCP) && !kernel_has(DCTCP)? {
            controls.dctcp = Some(Dctcp::register_private().map_err(LabError::Guest)?);
        }
        if named.contains(&CTRLTCP) || named.contains(&CTRLCUBIC) {
            let ctrltcp = Ctrltcp::register_private(&policy(coupling));
            controls.ctrltcp = Some(ctrltcp.map_err(LabError::Guest)?);
        }
        Ok(controls)
    }

    /// Returns the name by which a socket selects the experiment's congestion control `name`: a private name if this
    /// run loaded it, else `name`.
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

    /// Returns the name by which a guest's sockets select their congestion control.
    pub fn of_guest<'a>(&'a self, guest: &'a Guest) -> &'a str {
        self.kernel_name(match &guest.stack.congestion_control[..] {
            "reno" if guest.couples() => CTRLTCP,
            "cubic" if guest.couples() => CTRLCUBIC,
            other => other,
        })
    }

    /// Sets the weight of each coupled guest and the priorities of its flows, before they connect.
    ///
    /// # Errors
    /// [`LabError::Guest`] when they can't be written.
    pub fn weigh(&self, plan: &Plan, namespaces: &[Namespace]) -> Result<(), LabError> {
        let Some(ctrltcp) = &self.ctrltcp else {
            return Ok(());
        };
        for (guest, namespace) in plan.guests.iter().zip(namespaces) {
            let Some(coupling) = guest.coupling.as_ref().filter(|_| guest.couples()) else {
                continue;
            };
            let groups = ctrltcp.groups();
            let netns = namespace.enter(cookie)?.map_err(LabError::Guest)?;
            let weighed = groups.set_weight(netns, coupling.weight);
            weighed.map_err(LabError::Guest)?;
            for flow in 0..guest.flows {
                let priority = guest.part_of(flow).priority;
                if priority > 1 {
                    let port = GUEST_PORT_FIRST + flow as u16;
                    let set = groups.set_priority(netns, port, priority);
                    set.map_err(LabError::Guest)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the DCTCP state of a connection; `None` if it has another control, or if this run loaded no DCTCP.
    pub fn dctcp_state(&self, socket: BorrowedFd<'_>) -> io::Result<Option<DctcpState>> {
        let Some(dctcp) = &self.dctcp else {
            return Ok(None);
        };
        dctcp.state(socket).map_err(io::Error::other)
    }
}

/// Returns the rules of the run's only group: all coupled flows are in it, whatever their receiver.
fn policy(rules: &CouplingRules) -> CouplingPolicy {
    CouplingPolicy {
        prefix4: 0,
        prefix6: 0,
        aggressiveness_q16: (rules.aggressiveness * 65536.0).round() as u32,
        by_guests: rules.size == GroupSize::Guests,
        by_rate: rules.shares == Shares::Rate,
        burst_segments: rules.burst.unwrap_or_default(),
        ..CouplingPolicy::default()
    }
}

/// Returns whether the kernel has a congestion control. Selects it on a socket, as the traffic will, which loads its
/// module if there is one.
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
