//! The task of a command's process, and the errors of taking its place and of asking it.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use uc_files::FileError;

/// What a command's one process in a network namespace is to do; it may change while the process runs. The default
/// is nothing.
pub trait Task: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// The command that performs the task, such as `uc split`.
    const COMMAND: &'static str;
    /// Name of the place in a network namespace that only one process can have, such as `split`.
    const PLACE: &'static str;
    /// The process's report on itself: counters since its start, limits, and ports that it can't serve, as far as the
    /// command has them.
    type Done: Clone + Debug + Serialize + DeserializeOwned;

    /// Returns whether the process may end when it has nothing to do, because nothing is left of its earlier
    /// tasks.
    fn is_idle(_done: &Self::Done) -> bool {
        true
    }
}

/// Why a process has no status, or can't take its place.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No process of the command runs in this network namespace.
    #[error("no `{command}` runs in this network namespace; start one: {command} PORT")]
    Nobody {
        /// The command, such as `uc split`.
        command: &'static str,
    },
    /// A process in the network namespace has the task's place already.
    #[error("`{command}` (process {pid}) runs in this network namespace already: end it first")]
    Taken {
        /// The command, such as `uc split`.
        command: &'static str,
        /// Process id of the process that has the place.
        pid: i32,
    },
    /// The command's process does not answer.
    #[error(
        "`{command}` of this network namespace does not answer on {}: {source}; end the process that has this socket \
         (`ss --listening --unix --processes`), or run as root",
        place.display()
    )]
    Silent {
        /// The command, such as `uc split`.
        command: &'static str,
        /// Path of the socket on which the command's process should answer.
        place: PathBuf,
        /// Error of the connection to the socket.
        source: io::Error,
    },
    /// The files of the command's socket or lock can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel refused an operation of the command.
    #[error(
        "`{command}` can't {action}: {source}; raise the limits of open files and processes (`ulimit -n`, `ulimit -u`)"
    )]
    Kernel {
        /// The command, such as `uc split`.
        command: &'static str,
        /// Operation that failed, such as `listen`.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Returns the error of a process that does not answer.
pub(crate) fn silent<T: Task>(place: &Path, source: io::Error) -> ServiceError {
    ServiceError::Silent {
        command: T::COMMAND,
        place: place.to_owned(),
        source,
    }
}
