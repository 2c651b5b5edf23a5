//! The states of RFC 9293 §3.3.2 of a connection, computed from what both halves know.

use crate::connection::{Connection, State};

/// A state of RFC 9293 §3.3.2. TIME-WAIT has no timer here: it ends with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Unopened, reset, given up, or finished by a peer that closed first (CLOSED).
    Closed,
    /// Waits for a SYN (LISTEN).
    Listen,
    /// Has sent a SYN (SYN-SENT).
    SynSent,
    /// Has sent a SYN-ACK (SYN-RECEIVED).
    SynReceived,
    /// Both directions are open (ESTABLISHED).
    Established,
    /// Has sent a FIN (FIN-WAIT-1).
    FinWait1,
    /// Has sent a FIN that is acknowledged (FIN-WAIT-2).
    FinWait2,
    /// Has received a FIN (CLOSE-WAIT).
    CloseWait,
    /// Both FINs have crossed (CLOSING).
    Closing,
    /// Has answered a FIN with its own (LAST-ACK).
    LastAck,
    /// Both directions are finished, and this end closed first (TIME-WAIT).
    TimeWait,
}

impl Connection {
    /// Returns the connection's state.
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
