//! The two directions of a port's segments.

use uc_core::consts;

/// Which way the segments go that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Guest → network: ingress of the host's side of the port.
    FromGuest,
    /// Network → guest: egress of the host's side of the port.
    ToGuest,
}

impl Direction {
    /// Both, in the order in which they are attached.
    pub const BOTH: [Direction; 2] = [Direction::FromGuest, Direction::ToGuest];

    /// Returns the other direction.
    pub fn other(self) -> Direction {
        match self {
            Direction::FromGuest => Direction::ToGuest,
            Direction::ToGuest => Direction::FromGuest,
        }
    }

    /// Returns its number in the core, which is its index in arrays.
    pub(crate) fn index(self) -> usize {
        match self {
            Direction::FromGuest => consts::FROM_GUEST as usize,
            Direction::ToGuest => consts::TO_GUEST as usize,
        }
    }

    /// Returns its name in pins, JSON and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Direction::FromGuest => "from_guest",
            Direction::ToGuest => "to_guest",
        }
    }

    /// Returns the kernel's number of the TCX hook of this direction.
    pub(crate) fn tcx(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Direction::FromGuest => libbpf_sys::BPF_TCX_INGRESS,
            Direction::ToGuest => libbpf_sys::BPF_TCX_EGRESS,
        }
    }
}
