//! The state of a connection whose window another controller decides.

use crate::sender::Sender;

/// The state of an overruled connection between two reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overruled {
    /// SND.UNA at the last report; 0 before the first.
    pub(crate) una: u64,
    /// Position in the stream whose acknowledgment ends the present round trip; `None` until the round trip's first
    /// segments have left.
    pub(crate) round_end: Option<u64>,
    pub(crate) used_bytes: u32,
    pub(crate) used_before_bytes: u32,
    pub(crate) timeouts: u64,
}

impl Overruled {
    /// Returns the bytes acknowledged since the last report, and starts the next report.
    pub(crate) fn hear(&mut self, sender: &Sender) -> u32 {
        let before = if self.una == 0 { sender.una } else { self.una };
        self.una = sender.una;
        if self.round_end.is_some_and(|end| sender.una >= end) {
            self.round_end = None;
            self.used_before_bytes = std::mem::take(&mut self.used_bytes);
        }
        (sender.una - before) as u32
    }
}
