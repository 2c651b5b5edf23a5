//! The guest's DCTCP, which `guest/dctcp.bpf.c` implements.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::control::{Control, Ops};
use crate::error::GuestError;
use crate::groups::from_bytes;
use crate::layout::uc_dctcp;

/// The object that clang compiled from `guest/dctcp.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o"));
/// Name of the `struct tcp_congestion_ops` in the object, and of the pinned congestion control.
const OPS: &str = "uc_dctcp";
/// Maximum number of processes with a private instance at the same time: a name has room for three digits.
const PRIVATE_NAMES_MAX: u32 = 999;

/// DCTCP, registered in the kernel. Dropping this value unregisters DCTCP, unless it was pinned.
#[derive(Debug)]
pub struct Dctcp {
    control: Control,
    connections: MapHandle,
}

/// The DCTCP state of one connection in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DctcpState {
    /// The estimate α of the marked fraction, in 1/2^30.
    pub alpha_q30: u32,
    /// Number of observation windows that have ended.
    pub windows: u32,
    /// Number of window reductions, for both marks and losses.
    pub reductions: u32,
    /// As a receiver: number of changes between marked and unmarked segments in the order of arrival.
    pub transitions: u32,
    /// Number of payload bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Number of payload bytes that the peer has acknowledged with ECE.
    pub marked_bytes: u64,
}

impl Dctcp {
    /// The name under which `uc guest load` registers DCTCP.
    pub const NAME: &str = OPS;

    /// Registers DCTCP under this name.
    ///
    /// # Errors
    /// [`GuestError::NameTaken`], and the errors of loading programs.
    pub fn register(name: &str) -> Result<Self, GuestError> {
        let ops = Ops {
            ops: OPS,
            name: Some(name),
        };
        let control = Control::register(OBJECT, &[ops], |_| Ok(()))?;
        let connections = control.map("connections")?;
        Ok(Self {
            control,
            connections,
        })
    }

    /// Registers DCTCP for this process alone, under the first free of the names `uc_dctcp.1`, `uc_dctcp.2` and so on.
    /// DCTCP is unregistered when the value is dropped or the process ends.
    ///
    /// # Errors
    /// As [`Self::register`].
    pub fn register_private() -> Result<Self, GuestError> {
        let mut number = 1;
        loop {
            match Self::register(&format!("{OPS}.{number}")) {
                Err(GuestError::NameTaken { .. }) if number < PRIVATE_NAMES_MAX => number += 1,
                other => return other,
            }
        }
    }

    /// Returns the name by which a socket chooses this DCTCP.
    pub fn name(&self) -> &str {
        &self.control.registered[0].name
    }

    /// Returns the state of this socket's connection; `None` if the socket has another congestion
    /// control, or fell back to NewReno because the peer lacks ECN.
    pub fn state(&self, socket: BorrowedFd<'_>) -> Result<Option<DctcpState>, GuestError> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let failed = |error| GuestError::from_libbpf("read a connection's DCTCP state", &error);
        let found = self
            .connections
            .lookup(&key, MapFlags::ANY)
            .map_err(failed)?;
        Ok(found.as_deref().and_then(parsed))
    }

    pub(crate) fn pin(&mut self, path: &Path) -> Result<(), GuestError> {
        let action = || format!("pin {}", path.display());
        let pinned = self.control.registered[0].link.pin(path);
        pinned.map_err(|error| GuestError::from_libbpf(action(), &error))
    }
}

/// Parses a map's value, which has the BPF program's layout; `None` if the length is wrong.
fn parsed(bytes: &[u8]) -> Option<DctcpState> {
    let raw: uc_dctcp = from_bytes(bytes)?;
    Some(DctcpState {
        alpha_q30: raw.alpha_q30,
        windows: raw.windows,
        reductions: raw.reductions,
        transitions: raw.transitions,
        acked_bytes: raw.total_acked_bytes,
        marked_bytes: raw.total_marked_bytes,
    })
}
