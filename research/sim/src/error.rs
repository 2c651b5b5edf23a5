//! Errors of a run.

use uc_net::NetError;

/// Why a case can't be simulated, or a run can't go on. Each message is one line: what, where,
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// Hosts in the simulator can't do what the experiment asks; the message names the place and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The description of the network is wrong.
    #[error("network: {0}")]
    Network(#[from] NetError),
    /// No chain of links connects a guest and its receiver.
    #[error("{flow}: no way from host {from} to host {to}; connect them through a switch")]
    NoRoute {
        /// Name of the flow.
        flow: String,
        /// Number of the sending host.
        from: u32,
        /// Number of the receiving host.
        to: u32,
    },
    /// A capture could not be written.
    #[error("could not write the capture {file}: {why}")]
    Capture {
        /// Path of the capture file.
        file: String,
        /// The operating system's or the format's reason.
        why: String,
    },
    /// The caller set the cancel flag.
    #[error("cancelled")]
    Cancelled,
}
