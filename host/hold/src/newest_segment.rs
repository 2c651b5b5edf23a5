//! ACK number, window and timestamps of the newest segment that a guest has sent in a flow, with data or
//! without. A retransmission of the host carries them: the far end could refuse an older timestamp (PAWS,
//! RFC 7323 §5.3) or ACK number (RFC 5961 §5).

use zerocopy::FromBytes;

use crate::frame::Frame;
use crate::layout::{UC_HOLD_NOTED, uc_hold_flow};

/// Fields of the newest segment that the guest sent in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestSegment {
    /// ACK number of the guest's newest segment.
    pub ack: u32,
    /// Window field of the guest's newest segment, unscaled.
    pub window: u16,
    /// Value of the timestamps option; zeros: the segment had none.
    pub timestamps: [u8; 8],
}

impl NewestSegment {
    /// Reads the fields from a value of the programs' table. `None`: the guest has sent nothing yet.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (flow, _) = uc_hold_flow::read_from_prefix(value).ok()?;
        (flow.numbers & u64::from(UC_HOLD_NOTED) != 0).then(|| Self {
            ack: (flow.numbers >> 32) as u32,
            window: (flow.numbers >> 16) as u16,
            timestamps: flow.timestamps.to_ne_bytes(),
        })
    }

    /// Writes the newest ACK number and window into a retransmission.
    pub fn write(&self, frame: &mut Frame) {
        frame.set_ack(self.ack, self.window);
        if self.timestamps != [0; 8] {
            frame.set_timestamps(self.timestamps);
        }
    }
}
