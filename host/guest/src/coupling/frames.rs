//! Splitting of a stream of bytes into frames, in bounded memory.

use crate::coupling::wire::{FRAME_BYTES_MAX, Frame, MAGIC, WireError};

/// The bytes that one end of a channel has read and not yet decoded. Push at most
/// [`FRAME_BYTES_MAX`] bytes at a time and take every frame before the next push: it then never
/// holds twice as many.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    begun: bool,
    skipped_bytes: usize,
}

impl Frames {
    /// Adds bytes that were read. Bytes beyond [`FRAME_BYTES_MAX`] are cut off: a frame then fails
    /// its checksum.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = bytes.len().min(FRAME_BYTES_MAX);
        self.bytes.extend_from_slice(&bytes[..end]);
    }

    /// Returns the next frame, if it is complete.
    ///
    /// # Errors
    /// [`WireError`]; nothing after it can be decoded.
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

    /// Returns the number of bytes held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Skips bytes before the first frame. A channel outlives the process at its other end, which
    /// may have died in the middle of a frame: so the first frame may follow other bytes, but at
    /// most this many.
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
