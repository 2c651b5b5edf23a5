//! Errors of the host's duplicate ACKs.

use std::io;

use uc_port::PortError;
use uc_service::ServiceError;

/// Why a port's guest can't be sent duplicate ACKs.
#[derive(Debug, thiserror::Error)]
pub enum DupackError {
    /// The interface is no port.
    #[error(
        "port {name} is not attached, so nothing times its flows; \
         `uc attach {name} --no-sack --no-timestamps` attaches it"
    )]
    NotAttached {
        /// Name of the interface.
        name: String,
    },
    /// The port's guests keep what makes them ignore duplicate ACKs.
    #[error(
        "port {name}: no rule removes SACK and timestamps from its flows, and guests that have them ignore \
         duplicate ACKs without SACK blocks and timestamps; attach it with --no-sack --no-timestamps, or \
         have an agent send them: dupack = true in its policy"
    )]
    Deaf {
        /// Name of the interface.
        name: String,
    },
    /// A second process in one network namespace.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The process may not open packet sockets.
    #[error(
        "packet sockets need CAP_NET_RAW and the address family AF_PACKET: run as root, grant the capability \
         to the program with setcap, or put watch.conf into the service's folder (docs/install.md)"
    )]
    Capability,
    /// The kernel refused something.
    #[error("can't {action}: {source}")]
    Kernel {
        /// The operation that failed.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The flow table or a plan can't be read.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The port programs that are pinned can't be opened.
    #[error("{why}")]
    Programs {
        /// The error of opening them.
        why: String,
    },
}

impl DupackError {
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT) => Self::Capability,
            _ => Self::Kernel {
                action: action.into(),
                source,
            },
        }
    }
}
