//! The two ends of a split connection.

/// An end of a split connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The guest.
    Guest,
    /// The far end, with which the guest communicates.
    Far,
}
