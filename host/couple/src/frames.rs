//! Frames out of a stream of bytes, in bounded memory.

use crate::wire::{FRAME_BYTES_MAX, Frame, MAGIC, WireError};

/// What one end of a channel has read and not yet understood. Give it at most
/// [`FRAME_BYTES_MAX`] at a time and take every frame before more: it never holds twice as much.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    begun: bool,
    skipped_bytes: usize,
}

impl Frames {
    /// What was read. More than [`FRAME_BYTES_MAX`] at once is cut off: a frame then fails its
    /// checksum.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = bytes.len().min(FRAME_BYTES_MAX);
        self.bytes.extend_from_slice(&bytes[..end]);
    }

    /// The next frame, if all of it was read.
    ///
    /// # Errors
    /// [`WireError`]; nothing that comes after can be understood.
    pub fn take(&mut self) -> Result<Option<Frame>, WireError> {
        if !self.begun {
            self.skip()?;
        }
        if !self.begun {
            return Ok(None);
        }
        let decoded = Frame::decode(&self.bytes)?;
        Ok(decoded.map(|(frame, length)| {
            self.bytes.drain(..length);
            frame
        }))
    }

    /// What it holds now.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A channel outlives the process at its other end, which may have died in the middle of a
    /// frame: before the first one so many bytes may be something else, and no more.
    fn skip(&mut self) -> Result<(), WireError> {
        let found = self
            .bytes
            .windows(MAGIC.len())
            .position(|four| four == MAGIC);
        let kept = MAGIC.len() - 1;
        let skip = found.unwrap_or(self.bytes.len().saturating_sub(kept));
        self.bytes.drain(..skip);
        self.skipped_bytes += skip;
        self.begun = found.is_some();
        if self.skipped_bytes > FRAME_BYTES_MAX {
            return Err(WireError::Garbage);
        }
        Ok(())
    }
}
