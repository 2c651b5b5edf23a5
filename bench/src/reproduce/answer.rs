//! Whether a record is reproduced.

/// The result for one record. The text is a line for people.
pub(super) enum Answer {
    /// The record is reproduced, or was accepted.
    Good(String),
    /// The record differs, is missing, incomplete or stale.
    Bad(String),
}
