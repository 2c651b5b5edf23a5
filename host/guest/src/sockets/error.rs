//! Errors of reading guests' sockets, and why a port has none that can be read.

use std::io;

use uc_port::KernelError;

/// Errors of this crate. Each names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The process may not enter other network namespaces.
    #[error(
        "may not {action}: this needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; run it with sudo"
    )]
    NotPermitted {
        /// The operation that failed.
        action: String,
    },
    /// The kernel has no sock_diag for TCP.
    #[error(
        "this kernel can't tell of TCP sockets: it needs CONFIG_INET_TCP_DIAG (module tcp_diag: \
         `modprobe tcp_diag`)"
    )]
    NoDiag,
    /// Any other error of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl SocketError {
    pub(crate) fn from_kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action },
            _ => KernelError::new(action, source).into(),
        }
    }
}

/// Why the sockets behind a port can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The port is no end of a pair of interfaces.
    #[error("it is a {kind}, no veth: its guest has a kernel of its own, or shares an interface")]
    OtherKernel {
        /// The kind of the interface, as `ip -details link` prints it.
        kind: String,
    },
    /// The interface is gone.
    #[error("the interface is gone")]
    Gone,
    /// No visible process or name belongs to the namespace of the port's peer.
    #[error(
        "its peer's network namespace (link-netnsid {number}) has no process in /proc and no name in \
         /run/netns that are visible here; run uc in the host's PID and mount namespaces"
    )]
    Hidden {
        /// Number of the peer's network namespace in this one (link-netnsid).
        number: i32,
    },
}
