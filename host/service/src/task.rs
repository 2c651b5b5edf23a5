//! The task of a command's process, and what keeps it from its place or from an answer.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use uc_files::FileError;

/// What a command's one process in a network namespace is to do; it may change while the process runs. The default
/// is nothing.
pub trait Task: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// The command, such as `uc split`.
    const COMMAND: &'static str;
    /// Name of the place in a network namespace that only one process can have, such as `split`.
    const PLACE: &'static str;
    /// What the process has done so far, and can't do.
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
    /// No process has the place.
    #[error("no `{command}` runs in this network namespace; start one: {command} PORT")]
    Nobody {
        /// The command.
        command: &'static str,
    },
    /// A second process in one network namespace.
    #[error("`{command}` (process {pid}) runs in this network namespace already: end it first")]
    Taken {
        /// The command.
        command: &'static str,
        /// Number of the process that has the place.
        pid: i32,
    },
    /// The process does not answer.
    #[error(
        "`{command}` of this network namespace does not answer on {}: {source}; end the process that has this socket \
         (`ss --listening --unix --processes`), or run as root",
        place.display()
    )]
    Silent {
        /// The command.
        command: &'static str,
        /// Path of its socket.
        place: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The place's files can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel refused something.
    #[error(
        "`{command}` can't {action}: {source}; raise the limits of open files and processes (`ulimit -n`, `ulimit -u`)"
    )]
    Kernel {
        /// The command.
        command: &'static str,
        /// The operation that failed.
        action: &'static str,
        /// The kernel's error.
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
