//! Errors of the hold and of duplicate ACKs at ports, and their remedies.

use std::io;

use uc_port::{KernelError, PortError};
use uc_service::ServiceError;

/// Why a port's packets can't be held, or its guest not be sent duplicate ACKs.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The port or the host lacks something, or another program is in the way; the message names the remedy.
    #[error("{0}")]
    Refused(String),
    /// A program or filter of others would not see the packets that are held.
    #[error(
        "port {name}: {other} runs behind the programs of `uc hold` and would not see the packets that \
         these hold; attach it before them by TCX, or remove it; if it is `uc attach`'s own, attach the port \
         again without --via clsact"
    )]
    Behind {
        /// Name of the port's interface.
        name: String,
        /// The program or filter that runs at the wrong position.
        other: String,
    },
    /// A process of the command runs in the network namespace already, or the command's status can't be served.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The interfaces of all ports are gone.
    #[error("no port is left: the interfaces are gone; start `uc hold` again when they are back")]
    NoPorts,
    /// Any other error of the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A program can't be loaded or attached.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl HoldError {
    /// Creates an error from the kernel's refusal of `action`.
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT) => Self::Refused(
                "CAP_NET_RAW (for `uc hold` CAP_NET_ADMIN, too) or the address family AF_PACKET is \
                 missing: run as root, grant them to the program with setcap, or put watch.conf \
                 into the service's folder (docs/install.md)"
                    .into(),
            ),
            _ => KernelError::new(action, source).into(),
        }
    }

    /// Creates an error from one of libbpf-rs.
    pub(crate) fn libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        KernelError::libbpf(action, source).into()
    }
}
