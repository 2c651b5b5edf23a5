//! The guest's coupled congestion controls, which `guest/ctrltcp.bpf.c` implements.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use zerocopy::IntoBytes;

use crate::control::{Control, Ops, map_of};
use crate::error::GuestError;
use crate::groups::{Groups, from_bytes};
use crate::layout::{uc_ccc_policy, uc_ctrl, uc_ctrl_policy};

/// The object that clang compiled from `guest/ctrltcp.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ctrltcp.bpf.o"));
/// Maximum number of processes with a private instance at the same time: a name has room for two digits.
const PRIVATE_NAMES_MAX: u32 = 99;

/// Which connections form a group, and how a group behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CouplingPolicy {
    /// Number of leading bits of an IPv4 remote address that identify a group, 0 to 32. 32: one group per remote host;
    /// 0: one group for all IPv4 connections.
    pub prefix4: u8,
    /// Number of leading bits of an IPv6 remote address that identify a group, 0 to 128. 128: one group per remote
    /// host; 0: one group for all IPv6 connections.
    pub prefix6: u8,
    /// Whether each network namespace has groups of its own.
    pub apart: bool,
    /// Aggressiveness a in 1/2^16: a group of n flows competes like 1 + a·(n − 1) TCP flows.
    pub aggressiveness_q16: u32,
    /// Whether n in the aggressiveness counts guests instead of flows.
    pub by_guests: bool,
    /// Whether the group's flows share the rate instead of the window.
    pub by_rate: bool,
    /// Maximum number of segments that a flow may send at once into a share that other flows'
    /// packets still fill; 0 means 2.
    pub burst_segments: u16,
}

impl Default for CouplingPolicy {
    /// Returns a policy with one group per remote host for the whole machine, as aggressive as one
    /// TCP.
    fn default() -> Self {
        Self {
            prefix4: 32,
            prefix6: 128,
            apart: false,
            aggressiveness_q16: 0,
            by_guests: false,
            by_rate: false,
            burst_segments: 0,
        }
    }
}

impl CouplingPolicy {
    fn raw(&self) -> uc_ctrl_policy {
        uc_ctrl_policy {
            group: uc_ccc_policy {
                aggressiveness_q16: self.aggressiveness_q16,
                burst_segments: self.burst_segments,
                shares: self.by_rate.into(),
                size: self.by_guests.into(),
                ..uc_ccc_policy::default()
            },
            prefix4: self.prefix4.min(32),
            prefix6: self.prefix6.min(128),
            apart: self.apart.into(),
            ..uc_ctrl_policy::default()
        }
    }
}

/// Reno and CUBIC whose connections share windows. Dropping this value unregisters both, unless they were pinned.
#[derive(Debug)]
pub struct Ctrltcp {
    control: Control,
    connections: MapHandle,
    groups: Groups,
}

/// The state of one connection that shares its group's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoupledState {
    /// Whether the connection has joined a group.
    pub joined: bool,
    /// The connection's window in the group's last answer, in bytes.
    pub given_bytes: u32,
    /// Priority of the connection within its network namespace, 1 to 255.
    pub priority: u8,
    /// Weight of the connection's network namespace within the group.
    pub weight: u32,
}

impl Ctrltcp {
    /// Beginning of both names under which `uc guest load` registers Reno and CUBIC.
    pub const NAME: &str = "uc_ctrl";

    /// The longer of the endings `tcp` and `cubic`; it limits the length of a name's beginning.
    pub(crate) const LONGEST_ENDING: &str = "cubic";

    /// Returns the two names with this beginning: of the congestion control over Reno, and of the one over CUBIC.
    pub fn names_of(name: &str) -> [String; 2] {
        [format!("{name}tcp"), format!("{name}cubic")]
    }

    /// Registers `<name>tcp` over Reno and, if the kernel has CUBIC, `<name>cubic`. Both share the same groups.
    ///
    /// # Errors
    /// [`GuestError::NameTaken`], and the errors of loading programs.
    pub fn register(name: &str, policy: &CouplingPolicy) -> Result<Self, GuestError> {
        let [reno, cubic] = Self::names_of(name);
        let ops = [
            Ops {
                ops: "uc_ctrltcp",
                name: Some(&reno),
            },
            Ops {
                ops: "uc_ctrlcubic",
                name: kernel_has_cubic().then_some(&cubic),
            },
        ];
        let prepare = |object: &Object| {
            let policies = map_of(object, "policies")?;
            let raw = policy.raw();
            let written = policies.update(&[0; 4], raw.as_bytes(), MapFlags::ANY);
            written.map_err(|error| GuestError::from_libbpf("write the coupling's policy", &error))
        };
        let control = Control::register(OBJECT, &ops, prepare)?;
        Ok(Self {
            connections: control.map("connections")?,
            groups: Groups::of(|name| control.map(name))?,
            control,
        })
    }

    /// Registers both congestion controls for this process alone, under names with the first free beginning of
    /// `uc_ctrl.1`, `uc_ctrl.2` and so on. They are unregistered when the value is dropped or the process ends.
    ///
    /// # Errors
    /// As [`Self::register`].
    pub fn register_private(policy: &CouplingPolicy) -> Result<Self, GuestError> {
        let mut number = 1;
        loop {
            match Self::register(&format!("{}.{number}", Self::NAME), policy) {
                Err(GuestError::NameTaken { .. }) if number < PRIVATE_NAMES_MAX => number += 1,
                other => return other,
            }
        }
    }

    /// Returns the name by which a socket chooses the congestion control over Reno.
    pub fn name(&self) -> &str {
        &self.control.registered[0].name
    }

    /// Returns the name by which a socket chooses the congestion control over CUBIC; `None` if the kernel lacks CUBIC.
    pub fn cubic_name(&self) -> Option<&str> {
        let cubic = self.control.registered.get(1)?;
        Some(&cubic.name)
    }

    /// Returns the groups, whose weights can be set.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the state of this socket's connection; `None` if the socket has another congestion
    /// control or no connection.
    pub fn state(&self, socket: BorrowedFd<'_>) -> Result<Option<CoupledState>, GuestError> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let found = self
            .connections
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| GuestError::from_libbpf("read a connection's coupling", &error))?;
        Ok(found.and_then(|bytes| {
            let raw: uc_ctrl = from_bytes(&bytes)?;
            Some(CoupledState {
                joined: raw.joined != 0,
                given_bytes: raw.flow.given_bytes,
                priority: raw.priority,
                weight: raw.weight,
            })
        }))
    }

    /// Pins each congestion control at the path that `place` returns for its name, and the groups' maps in `folder`.
    pub(crate) fn pin(
        &mut self,
        place: impl Fn(&str) -> std::path::PathBuf,
        folder: &Path,
    ) -> Result<(), GuestError> {
        self.groups.pin(folder)?;
        for one in &mut self.control.registered {
            let path = place(&one.name);
            let action = || format!("pin {}", path.display());
            let pinned = one.link.pin(&path);
            pinned.map_err(|error| GuestError::from_libbpf(action(), &error))?;
        }
        Ok(())
    }
}

fn kernel_has_cubic() -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(path)
        .is_ok_and(|names| names.split_whitespace().any(|name| name == "cubic"))
}
