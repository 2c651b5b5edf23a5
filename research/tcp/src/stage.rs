//! The states of RFC 9293 §3.3.2 of a connection, computed from what both halves know.

use crate::connection::{Connection, State};

/// A state of RFC 9293 §3.3.2. TIME-WAIT has no timer here: it ends with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Unopened, reset, given up, or finished by a peer that closed first (CLOSED).
    Closed,
    /// State LISTEN: waits for a SYN.
    Listen,
    /// State SYN-SENT: has sent a SYN.
    SynSent,
    /// State SYN-RECEIVED: has sent a SYN-ACK.
    SynReceived,
    /// State ESTABLISHED: both directions are open.
    Established,
    /// State FIN-WAIT-1: has sent a FIN.
    FinWait1,
    /// Has sent a FIN that is acknowledged (FIN-WAIT-2).
    FinWait2,
    /// State CLOSE-WAIT: has received a FIN.
    CloseWait,
    /// State CLOSING: both FINs have crossed.
    Closing,
    /// Has answered a FIN with its own (LAST-ACK).
    LastAck,
    /// Both directions are finished, and this end closed first (TIME-WAIT).
    TimeWait,
}

impl Connection {
    /// Returns the state of the connection (RFC 9293).
    pub fn stage(&self) -> Stage {
        match self.state {
            State::Idle | State::Closed => Stage::Closed,
            State::Listen => Stage::Listen,
            State::SynSent => Stage::SynSent,
            State::SynReceived => Stage::SynReceived,
            State::Established => self.stage_of_an_open_one(),
        }
    }

    fn stage_of_an_open_one(&self) -> Stage {
        let sent = self.sender.finishing && self.sender.max == self.sender.write_end + 1;
        let acknowledged = sent && self.sender.is_finished();
        match (sent, acknowledged, self.receiver.finished) {
            (false, _, false) => Stage::Established,
            (false, _, true) => Stage::CloseWait,
            (true, false, false) => Stage::FinWait1,
            (true, true, false) => Stage::FinWait2,
            (true, false, true) if self.closed_last => Stage::LastAck,
            (true, false, true) => Stage::Closing,
            (true, true, true) if self.closed_last => Stage::Closed,
            (true, true, true) => Stage::TimeWait,
        }
    }
}
