//! ACK number, window and timestamps of the newest data that a guest has sent in a flow. A retransmission of
//! the host carries them: the far end could refuse an older timestamp (PAWS, RFC 7323 §5.3).

use crate::frame::Frame;

/// Fields of the newest segment that the guest sent in a flow and that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    ack: u32,
    window: u16,
    timestamps: Option<[u8; 8]>,
}

impl Newest {
    /// Reads the fields from a segment of the guest.
    pub fn of(frame: &Frame) -> Self {
        Self {
            ack: frame.ack(),
            window: frame.window(),
            timestamps: frame.timestamps(),
        }
    }

    /// Writes the fields into a retransmission.
    pub fn write(&self, frame: &mut Frame) {
        frame.set_ack(self.ack, self.window);
        if let Some(timestamps) = self.timestamps {
            frame.set_timestamps(timestamps);
        }
    }
}
