//! The error of a call of the kernel.

use std::io;

/// A call of the kernel, of libbpf or of netlink that failed, for none of the reasons that have a remedy.
#[derive(Debug, thiserror::Error)]
#[error("could not {action}: {source}")]
pub struct KernelError {
    /// The operation that failed, and its object.
    pub action: String,
    /// Error of the kernel.
    pub source: io::Error,
}

impl KernelError {
    /// Creates the error of an operation; `action` names the operation, such as `load a program`.
    pub fn new(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self {
            action: action.into(),
            source: source.into(),
        }
    }

    /// Creates the error of `action` from one of libbpf-rs, which has several lines.
    pub fn libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        Self::new(action, io::Error::other(format!("{source:#}")))
    }
}
