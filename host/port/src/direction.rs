//! The two directions of a port's segments.

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

    /// File name of the pins.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Direction::FromGuest => "from_guest",
            Direction::ToGuest => "to_guest",
        }
    }

    /// The hook's number.
    pub(crate) fn tcx(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Direction::FromGuest => libbpf_sys::BPF_TCX_INGRESS,
            Direction::ToGuest => libbpf_sys::BPF_TCX_EGRESS,
        }
    }
}
