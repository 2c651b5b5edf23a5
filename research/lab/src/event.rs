//! What happens to flows during a run.

use crate::error::LabError;

/// A report of a flow's thread to the run.
#[derive(Debug)]
pub enum Event {
    /// A sender is connected.
    Connected {
        /// Number of retransmissions of the sender's SYN.
        retransmits: u32,
    },
    /// A flow failed during the run.
    Failed(LabError),
}
