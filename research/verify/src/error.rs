//! Errors in a replay file.

/// Why a replay file can't be read. Each message is one line: where, what, remedy.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file is not TOML, or has a key or value that a plan does not have.
    #[error("not a plan: {message}")]
    Plan {
        /// Line, column, and the text there.
        message: String,
    },
    /// A number is outside the range that its key allows.
    #[error("not a plan: {key} {message}")]
    Range {
        /// Key of the number in the plan that is wrong.
        key: &'static str,
        /// Remedy: the values that are allowed.
        message: &'static str,
    },
}
