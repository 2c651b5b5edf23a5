//! Errors of the live backend. Every message names the object, the place and the remedy.

use std::io;
use std::net::SocketAddr;

use crate::need::Need;

/// Error type of a [`crate::Ports`] implementation, which this crate only passes on.
pub type PortError = Box<dyn std::error::Error + Send + Sync>;

/// Why a live run can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
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
        /// Action that failed.
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
    /// A stack has SACK without RACK, and the kernel does not have the one without the other.
    #[error(
        "the stack of {node} has sack without rack, and Linux {release} has RACK in every flow with \
         SACK, as all kernels since 6.17; leave out `rack = false`, or set `sack = false`, or run it on \
         machines with an older kernel (--on vm)"
    )]
    SackWithoutRack {
        /// Owner of the namespace.
        node: String,
        /// Release of the kernel in use.
        release: String,
    },
    /// A sysctl was written but reads back with another value.
    #[error(
        "{key} in the namespace of {node} reads \"{found}\" after \"{value}\" was written; \
         this kernel does not accept the value, change the stack in the experiment"
    )]
    SysctlIgnored {
        /// Key with dots, as sysctl(8) writes it.
        key: String,
        /// Value that was written.
        value: String,
        /// Value that was read back.
        found: String,
        /// Owner of the namespace.
        node: String,
    },
    /// `ip` or `ethtool` failed.
    #[error("`{command}` failed in the namespace of {node}: {detail}")]
    Command {
        /// Command line, and the batch line where there is one.
        command: String,
        /// Owner of the namespace.
        node: String,
        /// Exit status and standard error.
        detail: String,
    },
    /// An interface was brought up and did not begin to run.
    #[error(
        "{interface} in the namespace of {node} is up but not running after {seconds} s; \
         reduce the load on this host"
    )]
    NotRunning {
        /// Name of the interface.
        interface: String,
        /// Owner of the namespace.
        node: String,
        /// Time limit that passed, in seconds.
        seconds: u64,
    },
    /// A tap could not be opened, read or written.
    #[error("tap {name}: {action} failed: {source}; check /dev/net/tun and CAP_NET_ADMIN")]
    Tap {
        /// Name of the tap's interface.
        name: String,
        /// Action that failed.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A socket call of the traffic failed.
    #[error("{node}: {action} failed: {source}")]
    Socket {
        /// Guest's label or "the server".
        node: String,
        /// Action that failed.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel does not have a congestion control.
    #[error(
        "{node}: congestion control {name} is not available: {source}; \
         load it with `modprobe tcp_{name}` or choose another for the stack"
    )]
    CongestionControl {
        /// Guest's label or "the server".
        node: String,
        /// Name as in the experiment.
        name: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A congestion control that the kernel lacks could not be loaded.
    #[error("a stack's congestion control is not in this kernel and could not be loaded: {0}")]
    Guest(#[source] uc_guest::GuestError),
    /// A guest could not reach the server in time.
    #[error(
        "{guest} did not connect to {server} within {seconds} s ({detail}); \
         the network of this case drops every SYN, or the port's program does"
    )]
    Connect {
        /// Label of the guest.
        guest: String,
        /// Address of the server.
        server: SocketAddr,
        /// Time limit that passed, in seconds.
        seconds: u64,
        /// Last error of the kernel.
        detail: String,
    },
    /// The receiver got other bytes than the sender wrote.
    #[error(
        "{guest}: the stream is corrupt at byte {at_byte}: something on the path changed payload"
    )]
    Corrupt {
        /// Label of the guest.
        guest: String,
        /// Position in the stream, from 0.
        at_byte: u64,
    },
    /// A flow ended before the run did.
    #[error("{guest}: the connection ended before the run did: {source}")]
    Ended {
        /// Label of the guest.
        guest: String,
        /// Error of its socket.
        source: io::Error,
    },
    /// The experiment requires something that the live backend cannot build.
    #[error("{what}; {mend}")]
    Unsupported {
        /// What is unsupported, and where.
        what: String,
        /// Remedy of the error.
        mend: &'static str,
    },
    /// The experiment has keys that the live backend can't set.
    #[error(transparent)]
    Experiment(#[from] uc_experiment::Error),
    /// The emulator refuses the experiment's network.
    #[error("[network] of the experiment: {0}")]
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
    /// What works beside the programs of the ports ended before the flows did.
    #[error("what works at the ports ended before the flows did: {0}")]
    Beside(PortError),
    /// Guests that are not namespaces could not be started, or failed.
    #[error(transparent)]
    Platform(PortError),
    /// The caller set the cancel flag.
    #[error("the run was cancelled")]
    Cancelled,
}

impl LabError {
    /// The kernel's refusal of `action`, which says what the lab tried to do.
    pub(crate) fn resource(action: &'static str, source: io::Error) -> LabError {
        LabError::Resource { action, source }
    }
}
