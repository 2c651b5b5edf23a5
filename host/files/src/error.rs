//! Errors of files and locks, and their remedies.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a file is not read or written, or a lock not taken.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file or socket that could not be used.
    #[error("could not {action}: {source}{}", missing_rights(.source))]
    Io {
        /// The operation that failed, and its object.
        action: String,
        /// Error of the operation.
        source: io::Error,
    },
    /// The file can't be read.
    #[error("could not read {}: {source}; name a file that this user can read", path.display())]
    Read {
        /// Path of the file, or of the folder that was checked.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The file is a secret that other users may read.
    #[error(
        "{} is a secret that other users may read (mode {mode:o}); run chmod 600 on it",
        path.display()
    )]
    Readable {
        /// Path of the file that others may read.
        path: PathBuf,
        /// Mode bits of the file, as `stat` prints them.
        mode: u32,
    },
    /// The file could have been written by another user.
    #[error(
        "{} may be written by users other than its owner (mode {mode:o}), or another user owns it; \
         chown root and chmod go-w it",
        path.display()
    )]
    Exposed {
        /// Path of the file, or of a folder or link on the way to it.
        path: PathBuf,
        /// Mode bits of the file, as `stat` prints them.
        mode: u32,
    },
    /// Others than root may write a folder of pins or locks.
    #[error(
        "{} may be written by users other than root (mode {mode:o}), who could take programs off \
         ports; run chown root and chmod go-w on it",
        path.display()
    )]
    ExposedFolder {
        /// Path of the folder that others may write to.
        path: PathBuf,
        /// Mode bits of the folder, as `stat` prints them.
        mode: u32,
    },
    /// The lock on the pins stays with a process that attaches or detaches ports.
    #[error(
        "another process has been attaching or detaching ports for {} s (it holds {path}); \
         `fuser {path}` names it: wait for it, or end it",
        most.as_secs()
    )]
    Busy {
        /// Path of the lock's file.
        path: PathBuf,
        /// Time for which this process waited for the lock.
        most: Duration,
    },
}

impl FileError {
    /// Makes a [`FileError::Io`] of an action, such as "open FILE", and the system's error.
    pub fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action: action.into(),
            source: source.into(),
        }
    }

    /// Makes a [`FileError::Read`] of the path and the system's error.
    pub(crate) fn unread(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns true if the error is that a file to be read does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}

/// Returns the remedy to append to an error message: `sudo`, if a permission is missing and the user is not root;
/// otherwise an empty text.
fn missing_rights(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied if !nix::unistd::geteuid().is_root() => "; run it with sudo",
        _ => "",
    }
}
