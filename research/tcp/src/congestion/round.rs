//! Round trips as a congestion control counts them: by what was in flight when one began.

/// Ends when a byte beyond what had been sent at its beginning is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end: Option<u32>,
    /// SND.UNA and SND.NXT after the last ACK.
    una: u32,
    nxt: u32,
}

/// Where in the round the last ACK stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has begun the first round of all, or the first after [`Round::reset`].
    First,
    Inside,
    /// It has ended a round, and begun the next.
    Over,
}

impl Round {
    /// An ACK left SND.UNA and SND.NXT there.
    pub(super) fn acked(&mut self, una: u32, nxt: u32) {
        (self.una, self.nxt) = (una, nxt);
    }

    /// What that ACK does to the round. Asked once for each ACK that may end one.
    pub(super) fn turn(&mut self) -> Turn {
        let turn = match self.end {
            None => Turn::First,
            Some(end) if (self.una.wrapping_sub(end) as i32) <= 0 => return Turn::Inside,
            Some(_) => Turn::Over,
        };
        self.end = Some(self.nxt);
        turn
    }

    /// What is in flight belongs to no round.
    pub(super) fn reset(&mut self) {
        self.end = None;
    }
}
