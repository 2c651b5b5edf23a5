//! Splitting of a stream of bytes into frames, in bounded memory.

use crate::coupling::wire::{FRAME_BYTES_MAX, Frame, MAGIC, WireError};

/// The bytes that one end of a channel has read and not yet decoded. If the caller pushes at most [`FRAME_BYTES_MAX`]
/// bytes at a time and takes every complete frame before the next push, this buffer never contains more than twice as
/// many.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    begun: bool,
    skipped_bytes: usize,
}

impl Frames {
    /// Adds bytes that were read. Drops those beyond [`FRAME_BYTES_MAX`]; the frame that they belong to then fails its
    /// checksum.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = bytes.len().min(FRAME_BYTES_MAX);
        self.bytes.extend_from_slice(&bytes[..end]);
    }

    /// Returns the next complete frame; `None` while it is incomplete.
    ///
    /// # Errors
    /// [`WireError`]; the bytes after the error can't be decoded.
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

    /// Returns the number of bytes of an incomplete frame.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Drops the received bytes before the first frame's magic number. The channel outlives the process that writes
    /// into it: bytes of a frame that an ended process left incomplete may come before the next process's first frame.
    ///
    /// # Errors
    /// [`WireError::Garbage`] if more than [`FRAME_BYTES_MAX`] bytes have been dropped in all.
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
