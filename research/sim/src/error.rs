//! Why a run can't be had.

use uc_net::{Nanos, NetError};

/// One line each: the thing, the place, the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The network's description is wrong.
    #[error("network: {0}")]
    Network(#[from] NetError),
    /// The experiment asks for what hosts in the simulator can't do.
    #[error("{what}; {mend}")]
    Unsupported {
        /// What, and where.
        what: String,
        /// What would be right.
        mend: &'static str,
    },
    /// No chain of links joins a guest and its receiver.
    #[error("{flow}: no way from host {from} to host {to}; connect them through a switch")]
    NoRoute {
        /// The flow's name.
        flow: String,
        /// The sending host's number.
        from: u32,
        /// The receiving host's number.
        to: u32,
    },
    /// Events follow one another and time stands still.
    #[error(
        "at {at} more than {events} events happened without time advancing; \
         give links a delay, or applications a gap"
    )]
    Stuck {
        /// The moment.
        at: Nanos,
        /// How many are allowed.
        events: u32,
    },
    /// Short flows arrive faster than they end.
    #[error(
        "{flow}: more than {connections} connections are open at {at}; \
         lower the arrival rate or the sizes"
    )]
    TooManyConnections {
        /// The flow whose arrival had no place.
        flow: String,
        /// The moment.
        at: Nanos,
        /// How many are allowed.
        connections: u32,
    },
    /// Somebody set the cancel flag.
    #[error("cancelled")]
    Cancelled,
}
