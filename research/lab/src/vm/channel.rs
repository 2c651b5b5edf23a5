//! The host's end of a channel of lines, with a deadline for each: a guest that hangs, or whose CPU
//! is taken away, must not hang its host.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::vm::message::{Answer, LINE_BYTES_MAX, Request};

/// A channel to a guest's agent, or to QEMU's monitor.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Channel {
    /// Creates a channel, and the end for QEMU.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let channel = Self {
            stream: ours,
            unread: Vec::new(),
        };
        Ok((channel, theirs.into()))
    }

    /// Sends a request without waiting.
    ///
    /// # Errors
    /// The socket's; QEMU has ended then.
    pub fn ask(&mut self, request: &Request) -> io::Result<()> {
        self.write_line(&serde_json::to_string(request)?)
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// `TimedOut`, or the problem with the data received.
    pub fn answer(&mut self, deadline: Instant) -> io::Result<Answer> {
        let line = self.line(deadline)?;
        serde_json::from_slice(&line).map_err(io::Error::from)
    }

    /// Returns whether an answer, or the channel's end, arrives before the deadline.
    pub fn has_answer(&mut self, deadline: Instant) -> bool {
        while !self.unread.contains(&b'\n') {
            match self.read_some(deadline) {
                Ok(()) => {}
                Err(error) => return error.kind() != io::ErrorKind::TimedOut,
            }
        }
        true
    }

    /// Sends one line.
    pub(crate) fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(line.as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// Waits for the next line, and returns it without its end.
    pub(crate) fn line(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let end = self.unread[searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let mut line: Vec<u8> = self.unread.drain(..=searched + end).collect();
                line.pop();
                return Ok(line);
            }
            searched = self.unread.len();
            if searched > LINE_BYTES_MAX {
                return Err(io::Error::other(format!(
                    "a line on the control channel exceeds {LINE_BYTES_MAX} bytes"
                )));
            }
            self.read_some(deadline)?;
        }
    }

    fn read_some(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        // Rounded up, so that the last millisecond does not spin.
        let timeout = PollTimeout::try_from(left + Duration::from_micros(999));
        match poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(nix::Error::EINTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_lines_are_joined_and_silence_times_out() {
        let (mut channel, theirs) = Channel::pair().unwrap();
        let mut theirs = UnixStream::from(theirs);
        let soon = || Instant::now() + Duration::from_millis(50);
        theirs.write_all(b"one\ntw").unwrap();
        assert_eq!(channel.line(soon()).unwrap(), b"one");
        let error = channel.line(soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        theirs.write_all(b"o\n\"Done\"\n").unwrap();
        assert_eq!(channel.line(soon()).unwrap(), b"two");
        assert_eq!(channel.answer(soon()).unwrap(), Answer::Done);
        drop(theirs);
        let error = channel.line(soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
