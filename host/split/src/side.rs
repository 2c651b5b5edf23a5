//! The two ends of a split connection.

/// An end of a split connection: the guest or the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end in the guest.
    Guest,
    /// The far end, with which the guest communicates.
    Far,
}
