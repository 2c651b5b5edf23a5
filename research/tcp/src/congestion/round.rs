//! Round trips as a congestion control counts them: by the data in flight at the start of each.

/// A round trip, which ends when a byte beyond those sent before its start is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end: Option<u32>,
    /// SND.UNA after the last ACK.
    una: u32,
    /// SND.NXT at the last ACK.
    nxt: u32,
}

/// The position of the last ACK in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The ACK began the first round, or the first after [`Round::reset`].
    First,
    Inside,
    /// The ACK ended a round and began the next.
    Over,
}

impl Round {
    /// Records SND.UNA and SND.NXT after an ACK.
    pub(super) fn acked(&mut self, una: u32, nxt: u32) {
        (self.una, self.nxt) = (una, nxt);
    }

    /// Returns the last ACK's effect on the round. Called once for each ACK that may end a round.
    pub(super) fn turn(&mut self) -> Turn {
        let turn = match self.end {
            None => Turn::First,
            Some(end) if (self.una.wrapping_sub(end) as i32) <= 0 => return Turn::Inside,
            Some(_) => Turn::Over,
        };
        self.end = Some(self.nxt);
        turn
    }

    /// Ends the current round; data in flight belongs to no round.
    pub(super) fn reset(&mut self) {
        self.end = None;
    }
}
