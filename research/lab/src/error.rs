//! Errors of the live backend. Every message names the object, the place and the remedy.

use std::io;

use crate::need::Need;

/// Error type of a [`crate::Ports`] implementation, which this crate only passes on.
pub type PortError = Box<dyn std::error::Error + Send + Sync>;

/// Why a live run can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The host, or what the experiment asks of it, does not allow the run; the message names the remedy.
    #[error("{0}")]
    Refused(String),
    /// This host or process cannot run the live backend at all.
    #[error(transparent)]
    Need(#[from] Need),
    /// A network namespace could not be made or entered.
    #[error("{action} a network namespace failed: {source}; check CAP_SYS_ADMIN and ulimit -n")]
    Namespace {
        /// Action that failed: "making", "entering", "opening".
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A thread or an event descriptor of the lab could not be made.
    #[error("the lab could not {action}: {source}; check ulimit -u and ulimit -n")]
    Resource {
        /// Operation that failed, for the message.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A sysctl could not be written or read back.
    #[error("setting {key} = \"{value}\" in the namespace of {node} failed: {source}; {mend}")]
    Sysctl {
        /// Key with dots, as sysctl(8) writes it.
        key: String,
        /// Value that was written.
        value: String,
        /// Owner of the namespace: a guest's label, "the server" or "the hosts".
        node: String,
        /// Error of the kernel.
        source: io::Error,
        /// Remedy of the error.
        mend: &'static str,
    },
    /// A socket call of the traffic failed.
    #[error("{node}: {action} failed: {source}{}", remedy(source))]
    Socket {
        /// Guest's label or "the server".
        node: String,
        /// Operation that failed, for the message.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A congestion control that the kernel lacks could not be loaded.
    #[error("a stack's congestion control is not in this kernel and could not be loaded: {0}")]
    Guest(#[source] uc_guest::GuestError),
    /// A flow ended before the run did.
    #[error("{guest}: the connection ended before the run did: {source}")]
    Ended {
        /// Label of the guest.
        guest: String,
        /// Error of its socket.
        source: io::Error,
    },
    /// The experiment has keys that the live backend can't set.
    #[error(transparent)]
    Experiment(#[from] uc_experiment::Error),
    /// The emulator refuses the experiment's network.
    #[error("the emulator can't build [network] of the experiment: {0}")]
    Network(#[source] uc_net::NetError),
    /// The program on a port could not be attached.
    #[error("attaching to port {ifname} of {node} failed: {source}")]
    Port {
        /// Host-side interface of the port.
        ifname: String,
        /// Guest's label or "the server".
        node: String,
        /// Error of the loader.
        source: PortError,
    },
    /// A process or thread that serves the ports beside their programs ended before the flows did.
    #[error("a process or thread that serves the ports ended before the flows did: {0}")]
    Beside(PortError),
    /// Guests that are not namespaces could not be started, or failed.
    #[error(transparent)]
    Platform(PortError),
    /// The caller set the cancel flag.
    #[error("the run was cancelled")]
    Cancelled,
}

impl LabError {
    /// Returns what makes the error of a socket call, `action`, of this node.
    pub(crate) fn socket(node: String, action: &'static str) -> impl Fn(io::Error) -> LabError {
        move |source| LabError::Socket {
            node: node.clone(),
            action,
            source,
        }
    }

    /// The kernel's refusal of `action`, which says what the lab tried to do.
    pub(crate) fn resource(action: &'static str, source: io::Error) -> LabError {
        LabError::Resource { action, source }
    }
}

/// Returns the remedy of a socket's error, after a semicolon; empty if none is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => {
            "; raise the hard limit of open files (`ulimit -Hn`), or lower the number of connections"
        }
        _ => "",
    }
}
