//! What can go wrong in the live arm. Every message names the thing, the place and the mend.

use std::io;
use std::net::SocketAddr;

use crate::need::Need;

/// The error type of a [`crate::Ports`] implementation, which this crate only passes on.
pub type PortError = Box<dyn std::error::Error + Send + Sync>;

/// An error of the live arm.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine or process cannot run the live arm at all.
    #[error(transparent)]
    Need(#[from] Need),
    /// A network namespace could not be made or entered.
    #[error("{action} a network namespace failed: {source}; check CAP_SYS_ADMIN and ulimit -n")]
    Namespace {
        /// What was tried: "making", "entering", "opening".
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A thread or an event descriptor of the lab could not be made.
    #[error("the lab could not {action}: {source}; check ulimit -u and ulimit -n")]
    Resource {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A sysctl could not be written or read back.
    #[error("setting {key} = \"{value}\" in the namespace of {node} failed: {source}; {mend}")]
    Sysctl {
        /// The key with dots, as sysctl(8) writes it.
        key: String,
        /// The value that was asked for.
        value: String,
        /// Whose namespace: a guest's label, "the server" or "the hosts".
        node: String,
        /// The kernel's answer.
        source: io::Error,
        /// What to do about it.
        mend: &'static str,
    },
    /// A sysctl was written but reads back as something else.
    #[error(
        "{key} in the namespace of {node} reads \"{found}\" after \"{value}\" was written; \
         this kernel does not accept the value, change the stack in the experiment"
    )]
    SysctlIgnored {
        /// The key with dots.
        key: String,
        /// The value that was asked for.
        value: String,
        /// What the kernel holds instead.
        found: String,
        /// Whose namespace.
        node: String,
    },
    /// `ip` or `ethtool` failed.
    #[error("`{command}` failed in the namespace of {node}: {detail}")]
    Command {
        /// The command line, and the batch line where there is one.
        command: String,
        /// Whose namespace.
        node: String,
        /// Exit status and standard error.
        detail: String,
    },
    /// An interface that was brought up did not begin to run.
    #[error(
        "{interface} in the namespace of {node} is up but not running after {seconds} s; \
         is the machine overloaded?"
    )]
    NotRunning {
        /// The interface.
        interface: String,
        /// Whose namespace.
        node: String,
        /// The deadline that passed.
        seconds: u64,
    },
    /// A tap could not be opened, read or written.
    #[error("tap {name}: {action} failed: {source}; check /dev/net/tun and CAP_NET_ADMIN")]
    Tap {
        /// The interface.
        name: String,
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A socket call of the traffic failed.
    #[error("{node}: {action} failed: {source}")]
    Socket {
        /// A guest's label or "the server".
        node: String,
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A congestion control that the kernel does not have.
    #[error(
        "{node}: congestion control {name} is not available: {source}; \
         load it with `modprobe tcp_{name}` or choose another for the stack"
    )]
    CongestionControl {
        /// A guest's label or "the server".
        node: String,
        /// The name as the experiment gives it.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A congestion control that the kernel lacks could not be brought.
    #[error("this kernel has no congestion control of a stack: {0}")]
    Guest(#[source] uc_guest::GuestError),
    /// A guest could not reach the server in time.
    #[error(
        "{guest} did not connect to {server} within {seconds} s ({detail}); \
         the network of this case drops every SYN, or the port's program does"
    )]
    Connect {
        /// The guest's label.
        guest: String,
        /// The server's address.
        server: SocketAddr,
        /// The deadline that passed.
        seconds: u64,
        /// The kernel's last word on it.
        detail: String,
    },
    /// The receiver saw other bytes than the sender wrote.
    #[error(
        "{guest}: the stream is corrupt at byte {at_byte}: something on the path changed payload"
    )]
    Corrupt {
        /// The guest's label.
        guest: String,
        /// Position in the stream, from 0.
        at_byte: u64,
    },
    /// A flow ended before the run did.
    #[error("{guest}: the connection ended before the run did: {source}")]
    Ended {
        /// The guest's label.
        guest: String,
        /// What its socket said.
        source: io::Error,
    },
    /// The experiment asks for what the live arm cannot build.
    #[error("{what}; {mend}")]
    Unsupported {
        /// The thing and the place.
        what: String,
        /// What to change.
        mend: &'static str,
    },
    /// The experiment has keys that this arm can't set.
    #[error(transparent)]
    Experiment(#[from] uc_experiment::Error),
    /// The network of the experiment is refused by the emulator.
    #[error("[network] of the experiment: {0}")]
    Network(#[source] uc_net::NetError),
    /// The program on a port could not be attached.
    #[error("attaching to port {ifname} of {node} failed: {source}")]
    Port {
        /// The host-side interface.
        ifname: String,
        /// A guest's label or "the server".
        node: String,
        /// What the loader said.
        source: PortError,
    },
    /// Guests that are no namespaces could not be brought, or failed.
    #[error(transparent)]
    Home(PortError),
    /// The caller's cancel flag was seen.
    #[error("the run was cancelled")]
    Cancelled,
}
