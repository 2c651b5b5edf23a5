//! What can be wrong with a replay file.

/// One line: the place, the thing, the mend.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No TOML, or a key or value that a plan does not have.
    #[error("not a plan: {message}")]
    Plan {
        /// Line, column, and what stands there.
        message: String,
    },
    /// A number that makes no sense.
    #[error("not a plan: {key} {message}")]
    Range {
        /// The key.
        key: &'static str,
        /// What would be right.
        message: &'static str,
    },
}
