//! Errors of the host's loop over its guests' channels.

use std::io;
use std::path::PathBuf;

/// Why the host's loop that couples guests ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A guest's socket can't be created.
    #[error(
        "can't listen on the Unix socket {path}: {source}; end the process that listens there, or \
         create the folder"
    )]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The process that opens the guests' sockets has ended.
    #[error("the process that opens the guests' sockets has ended; run the command again")]
    Ended,
    /// Polling the channels failed.
    #[error("can't wait for the guests' channels: {0}")]
    Wait(io::Error),
}
