//! Errors of reading guests' sockets, and reasons why a port's guest has no readable sockets.

use std::io;

use uc_port::KernelError;

/// Errors of reading guests' sockets. Each error's message names the object, the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The process may not enter other network namespaces.
    #[error(
        "may not {action}: this needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; run it with sudo"
    )]
    NotPermitted {
        /// Operation that failed, such as `list sockets`.
        action: String,
    },
    /// The kernel has no sock_diag for TCP.
    #[error(
        "this kernel can't list TCP sockets: it needs CONFIG_INET_TCP_DIAG (module tcp_diag: \
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
    /// The port is not one end of a pair of interfaces.
    #[error(
        "the port is a {kind}, not a veth: its guest has a kernel of its own, or shares an \
         interface"
    )]
    OtherKernel {
        /// The kind of the interface, as `ip -details link` prints it.
        kind: String,
    },
    /// The port's interface is gone.
    #[error("the port's interface no longer exists")]
    Gone,
    /// The namespace of the port's peer has no process and no name that are visible here.
    #[error(
        "the network namespace of the port's peer (link-netnsid {number}) has no process in /proc \
         and no name in \
         /run/netns that are visible here; run uc in the host's PID and mount namespaces"
    )]
    Hidden {
        /// Number by which the port's network namespace knows the peer's (link-netnsid).
        number: i32,
    },
}
