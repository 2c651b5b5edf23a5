//! How a record compares with new runs.

/// The answer about one record, in one line.
pub(super) enum Answer {
    /// The record is as it was, or as it was accepted.
    Good(String),
    /// The record differs, is missing, incomplete or stale.
    Bad(String),
}
