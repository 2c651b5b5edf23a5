//! Errors of a run.

use uc_net::{Nanos, NetError};

/// Why a case can't be simulated, or a run can't go on. Each message is one line: what, where,
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The network's description is wrong.
    #[error("network: {0}")]
    Network(#[from] NetError),
    /// The experiment requires something that hosts in the simulator can't do.
    #[error("{what}; {mend}")]
    Unsupported {
        /// What is unsupported, and where.
        what: String,
        /// The remedy.
        mend: &'static str,
    },
    /// No chain of links connects a guest and its receiver.
    #[error("{flow}: no way from host {from} to host {to}; connect them through a switch")]
    NoRoute {
        /// The flow's name.
        flow: String,
        /// The sending host's number.
        from: u32,
        /// The receiving host's number.
        to: u32,
    },
    /// Events follow one another without time advancing.
    #[error(
        "at {at} more than {events} events happened without time advancing; \
         give links a delay, or applications a gap"
    )]
    Stuck {
        /// Time at which the events happen.
        at: Nanos,
        /// Maximum number of events at one time.
        events: u32,
    },
    /// Short flows arrive faster than they end.
    #[error(
        "{flow}: more than {connections} connections are open at {at}; \
         lower the arrival rate or the sizes"
    )]
    TooManyConnections {
        /// Flow that could not open a connection.
        flow: String,
        /// Time of the attempt.
        at: Nanos,
        /// Maximum number of open connections.
        connections: u32,
    },
    /// A capture could not be written.
    #[error("could not write the capture {file}: {why}")]
    Capture {
        /// Path of the file.
        file: String,
        /// The operating system's or the format's reason.
        why: String,
    },
    /// The caller set the cancel flag.
    #[error("cancelled")]
    Cancelled,
}
