//! The two directions of a port's segments.

use uc_core::consts;

/// Direction of the segments that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Guest → network: ingress of the host's side of the port.
    FromGuest,
    /// Network → guest: egress of the host's side of the port.
    ToGuest,
}

impl Direction {
    /// Both directions, in the order of their numbers in the core.
    pub const BOTH: [Direction; 2] = [Direction::FromGuest, Direction::ToGuest];

    /// Returns the opposite direction.
    pub fn other(self) -> Direction {
        match self {
            Direction::FromGuest => Direction::ToGuest,
            Direction::ToGuest => Direction::FromGuest,
        }
    }

    /// Returns the direction's number in the core, which is its index in arrays.
    pub(crate) fn index(self) -> usize {
        match self {
            Direction::FromGuest => consts::FROM_GUEST as usize,
            Direction::ToGuest => consts::TO_GUEST as usize,
        }
    }

    /// Returns the direction's name in pins, JSON and metrics.
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
