//! Errors of the hold and of duplicate ACKs at ports, and their remedies.

use std::io;

use uc_port::{KernelError, PortError};
use uc_service::ServiceError;

/// Why a port's packets can't be held, or its guest not be sent duplicate ACKs.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A second process for one port.
    #[error("port {name}: another `uc hold` runs for it; end that first")]
    Taken {
        /// Name of the interface.
        name: String,
    },
    /// The kernel is too old.
    #[error(
        "port {name}: this kernel has no TCX, by which the kernel itself takes a process's programs off \
         when it ends; `uc hold` needs Linux 6.6 or newer"
    )]
    NoTcx {
        /// Name of the interface.
        name: String,
    },
    /// A program or filter of others would not see the packets that are held.
    #[error(
        "port {name}: {other} runs behind the programs of `uc hold` and would not see the packets that \
         these hold; attach it before them by TCX (a port: `uc attach` without --via clsact), or remove it"
    )]
    Behind {
        /// Name of the interface.
        name: String,
        /// The program or filter.
        other: String,
    },
    /// The port's guests would not learn of the losses that the host repairs.
    #[error(
        "port {name}: it has no law that answers the losses which --buffer repairs, so its guests would never \
         slow down; `uc attach {name} --law ecn` attaches one"
    )]
    NoLaw {
        /// Name of the interface.
        name: String,
    },
    /// Duplicate ACKs: the interface is no port.
    #[error(
        "port {name} is not attached, so nothing times its flows; \
         `uc attach {name} --no-sack --no-timestamps` attaches it"
    )]
    NotAttached {
        /// Name of the interface.
        name: String,
    },
    /// Duplicate ACKs: the port's guests keep what makes them ignore these.
    #[error(
        "port {name}: no rule removes SACK and timestamps from its flows, and guests that have them ignore \
         duplicate ACKs without SACK blocks and timestamps; attach it with --no-sack --no-timestamps, or \
         have an agent send them: dupack = true in its policy"
    )]
    Deaf {
        /// Name of the interface.
        name: String,
    },
    /// The port programs that are pinned can't be opened.
    #[error("{why}")]
    Programs {
        /// The error of opening the pinned programs, and its remedy.
        why: String,
    },
    /// A command that excludes this one works at the port.
    #[error("{why}")]
    Reserved {
        /// The command, and the remedy.
        why: String,
    },
    /// A second process of the agent in one network namespace.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// All interfaces are gone.
    #[error("no port is left: the interfaces are gone; start `uc hold` again when they are back")]
    NoPorts,
    /// The process may not open packet sockets.
    #[error(
        "CAP_NET_RAW (for `uc hold` CAP_NET_ADMIN, too) or the address family AF_PACKET is missing: run as root, grant \
         them to the program with setcap, or put watch.conf into the service's folder (docs/install.md)"
    )]
    Capability,
    /// The kernel refused something.
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
            Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT) => Self::Capability,
            _ => KernelError::new(action, source).into(),
        }
    }

    /// Creates an error from one of libbpf-rs.
    pub(crate) fn libbpf(action: impl Into<String>, source: &libbpf_rs::Error) -> Self {
        KernelError::libbpf(action, source).into()
    }
}
