//! What can go wrong with the watch, and what the operator can do about it.

use std::path::PathBuf;

use uc_port::PortError;

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A port could not be attached to.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The key's file cannot be read.
    #[error("can't read the key in {path} ({source}); make one: uc watch --make-key {path}")]
    KeyUnreadable {
        /// As the user wrote it.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The key's file holds no key.
    #[error("{path} holds no key: 32 hexadecimal digits; make one: uc watch --make-key {path}")]
    NoKey {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// Anybody guesses that key.
    #[error(
        "the key in {path} is one byte again and again, which anybody guesses; make one: \
             uc watch --make-key FILE"
    )]
    KeyGuessed {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// What a key is read from is a device, a pipe or a folder.
    #[error("{path} is no regular file, so it holds no key; make one: uc watch --make-key FILE")]
    KeyNotAFile {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// A key is never replaced: other hosts may have it.
    #[error(
        "{path} is there already, and a key is never replaced: give it to --key-file, or name \
             another file"
    )]
    KeyThere {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// Others may read the key.
    #[error("others may read the key in {path}, and make probes with it: chmod 600 {path}")]
    KeyExposed {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// The port is watched by another process.
    #[error("{name} is watched already; end that `uc watch` first")]
    AlreadyWatched {
        /// The port's name, or its index if the interface is gone.
        name: String,
    },
    /// Anything else that the kernel refused.
    #[error("could not {action}: {source}")]
    Kernel {
        /// What was tried, and on what.
        action: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl WatchError {
    /// The kernel's refusal of `action`.
    pub(crate) fn kernel(action: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        WatchError::Kernel {
            action: action.into(),
            source: source.into(),
        }
    }

    /// Makes an error of one of libbpf-rs.
    pub(crate) fn libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        WatchError::kernel(action, std::io::Error::other(format!("{source:#}")))
    }
}
