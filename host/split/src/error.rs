//! Errors of split connections.

use std::io;

use uc_service::ServiceError;

/// Why the command can't split connections.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// Something of the host is missing or in the way; the message names the remedy.
    #[error("{0}")]
    Refused(String),
    /// A process splits connections in the network namespace already, or the status can't be served.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A resource of the kernel is missing.
    #[error("could not {action}: {source}")]
    Resource {
        /// Operation that failed, such as `use the guests' addresses`.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl SplitError {
    /// Creates the error of a program that can't be started, or fails, with its output in one line.
    pub(crate) fn failed(program: &str, because: &str) -> Self {
        Self::Refused(format!("`{program}` fails: {because}"))
    }

    /// Creates a [`SplitError::Resource`] from the kernel's error.
    pub(crate) fn resource(action: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self::Resource { action, source }
    }
}
