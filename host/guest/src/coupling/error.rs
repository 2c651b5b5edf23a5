//! Errors of the host's loop.

use std::io;
use std::path::PathBuf;

/// Why the loop can't run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket can't be created.
    #[error("can't listen at {path} ({source}); does another process, or is its folder missing?")]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The process that opens the guests' sockets has ended.
    #[error("the process that opens the guests' sockets has ended")]
    Ended,
    /// Polling the channels failed.
    #[error("can't wait for the guests' channels: {0}")]
    Wait(io::Error),
}
