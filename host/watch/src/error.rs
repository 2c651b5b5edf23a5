//! Errors of the watch, and their remedies.

use std::net::SocketAddr;
use std::path::PathBuf;

use uc_port::{KernelError, PortError};

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A port could not be attached to.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The file with the key of probes cannot be read.
    #[error("can't read the key in {path} ({source}); make one: uc watch --make-key {path}")]
    KeyUnreadable {
        /// Path that the user gave.
        path: PathBuf,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The key file has no valid key.
    #[error("{path} holds no key: 32 hexadecimal digits; make one: uc watch --make-key {path}")]
    NoKey {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// The key repeats one byte and can be guessed.
    #[error(
        "the key in {path} repeats one byte, so anybody can guess it; make another: \
             uc watch --make-key FILE"
    )]
    KeyGuessed {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// The key file is a device, a pipe or a folder.
    #[error("{path} is not a regular file, so it holds no key; make one: uc watch --make-key FILE")]
    KeyNotAFile {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// The new key's file exists; a key is never replaced, since other hosts may have it.
    #[error(
        "{path} exists, and a key is never replaced: use it with --key-file, or name \
             another file"
    )]
    KeyThere {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// Users other than the owner may read the key.
    #[error("others may read the key in {path}, and forge probes with it; run chmod 600 {path}")]
    KeyExposed {
        /// Path that the user gave.
        path: PathBuf,
    },
    /// Users other than the owner may have written the key.
    #[error(transparent)]
    KeyForeign(#[from] uc_files::FileError),
    /// The port is watched by another process.
    #[error("{name} is watched already; end that `uc watch` first")]
    AlreadyWatched {
        /// The port's name, or its index if the interface is gone.
        name: String,
    },
    /// A socket for questions to a granter, or for a granter's answers, can't be opened.
    #[error("{purpose} at {address} failed ({source}); give --granter {remedy}")]
    Granter {
        /// Operation that failed.
        purpose: &'static str,
        /// The granter's address and UDP port.
        address: SocketAddr,
        /// Error of the kernel.
        source: std::io::Error,
        /// The address that the user should give, in words.
        remedy: &'static str,
    },
    /// Any other error of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl WatchError {
    /// Creates an error from the kernel's refusal of `action`.
    pub(crate) fn kernel(action: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        KernelError::new(action, source).into()
    }

    /// Creates an error from one of libbpf-rs.
    pub(crate) fn libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        KernelError::libbpf(action, source).into()
    }
}
