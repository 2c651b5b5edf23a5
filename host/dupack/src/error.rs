//! Errors of the host's duplicate ACKs.

use std::io;

use uc_port::PortError;

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
         give its policy no_sack and no_timestamps"
    )]
    Deaf {
        /// Name of the interface.
        name: String,
    },
    /// A second process for one port.
    #[error("port {name}: another `uc dupack` runs for it; end that first")]
    Taken {
        /// Name of the interface.
        name: String,
    },
    /// The process may not open packet sockets.
    #[error("CAP_NET_RAW is missing: run as root, or grant it to the program with setcap")]
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
}

impl DupackError {
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Capability,
            _ => Self::Kernel {
                action: action.into(),
                source,
            },
        }
    }
}
