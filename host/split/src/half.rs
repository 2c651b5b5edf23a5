//! One direction of a split connection: bytes go from a socket into a pipe, and from there into the
//! other socket.
//!
//! The source is read only while the pipe is empty and the sink takes bytes. So a slow reader fills the
//! sink's send buffer, at most one pipe, and the source's receive buffer, whose TCP then stops the
//! sender.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{SpliceFFlags, splice};
use socket2::Socket;

use crate::pipes::{PIPE_BYTES, Pipe, Pipes};

/// Maximum number of times that a pipe is filled before other connections get their turn.
const FILLS_MAX: usize = 16;

/// The state of one direction of a split connection.
#[derive(Debug, Default)]
pub struct Half {
    /// The pipe, while it holds bytes; `None` otherwise.
    pipe: Option<Pipe>,
    held_bytes: usize,
    /// Whether the source may have bytes, or the end of its stream.
    pub readable: bool,
    /// Whether the socket that is written may take bytes now.
    pub writable: bool,
    /// Whether urgent data was announced, at whose place splice(2) stops.
    pub urgent: bool,
    /// Whether the source has failed, so that the end of its bytes is not the end of its stream. The kernel
    /// reports an error once, to whichever call comes first, and the end of the stream afterwards.
    pub is_cut: bool,
    /// Whether the stream that is read has ended (FIN).
    is_ended: bool,
    /// Whether the sink was told that the stream has ended.
    is_shut: bool,
}

/// The result of moving bytes from one socket to the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Number of bytes that the sink took.
    pub bytes: u64,
    /// Whether more bytes can be moved at once, but other connections get their turn first.
    pub again: bool,
    /// Whether more bytes could be moved, but no descriptor for a pipe was free.
    pub starves: bool,
}

impl Half {
    /// Returns whether the stream has ended and the sink was told so.
    pub fn is_done(&self) -> bool {
        self.is_shut
    }

    /// Moves bytes until the source has none, the sink takes none, or it is the turn of other connections.
    ///
    /// # Errors
    /// The kernel's error of either socket: the connection is to be reset.
    pub fn pump(&mut self, source: &Socket, sink: &Socket, pipes: &mut Pipes) -> io::Result<Moved> {
        let mut moved = Moved::default();
        let mut fills = 0;
        loop {
            if self.held_bytes > 0 {
                if !self.writable {
                    return Ok(moved);
                }
                moved.bytes += self.empty(sink)?;
                continue;
            }
            if let Some(pipe) = self.pipe.take() {
                pipes.give(pipe);
            }
            if self.is_ended {
                if !self.is_shut {
                    sink.shutdown(Shutdown::Write)?;
                    self.is_shut = true;
                }
                return Ok(moved);
            }
            if !self.readable || !self.writable {
                return Ok(moved);
            }
            if fills == FILLS_MAX {
                moved.again = true;
                return Ok(moved);
            }
            fills += 1;
            let Some(pipe) = pipes.take()? else {
                moved.starves = true;
                return Ok(moved);
            };
            self.fill(source, pipe, pipes)?;
        }
    }

    /// Moves bytes from the source into the empty pipe.
    fn fill(&mut self, source: &Socket, pipe: Pipe, pipes: &mut Pipes) -> io::Result<()> {
        let filled = match self.urgent {
            true => copy(source, &pipe),
            false => splice(source, None, &pipe.input, None, PIPE_BYTES, flags()),
        };
        match filled {
            Ok(0) if self.is_cut => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(0) => self.is_ended = true,
            Ok(bytes) => self.held_bytes = bytes,
            Err(Errno::EAGAIN) => {
                self.readable = false;
                self.urgent = false;
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        match self.held_bytes {
            0 => pipes.give(pipe),
            _ => self.pipe = Some(pipe),
        }
        Ok(())
    }

    /// Moves bytes from the pipe into the sink. Returns their number.
    fn empty(&mut self, sink: &Socket) -> io::Result<u64> {
        let Some(pipe) = &self.pipe else {
            self.held_bytes = 0;
            return Ok(0);
        };
        match splice(&pipe.output, None, sink, None, self.held_bytes, flags()) {
            Ok(bytes) => {
                self.held_bytes -= bytes.min(self.held_bytes);
                Ok(bytes as u64)
            }
            Err(Errno::EAGAIN) => {
                self.writable = false;
                Ok(0)
            }
            Err(Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn flags() -> SpliceFFlags {
    SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK
}

/// Copies bytes from the source into the pipe, past the place of urgent data. Returns their number.
fn copy(source: &Socket, pipe: &Pipe) -> nix::Result<usize> {
    let mut buffer = [0; 4096];
    let bytes = nix::unistd::read(source, &mut buffer)?;
    // A pipe takes as many at once, and this one is empty.
    nix::unistd::write(pipe.input.as_fd(), &buffer[..bytes])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connected pair of sockets, the first non-blocking.
    fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Socket::from(listener.accept().unwrap().0);
        near.set_nonblocking(true).unwrap();
        near.set_out_of_band_inline(true).unwrap();
        (near, far)
    }

    fn open() -> Half {
        Half {
            readable: true,
            writable: true,
            ..Half::default()
        }
    }

    #[test]
    fn bytes_and_the_end_of_the_stream_pass_and_no_pipe_is_held_afterwards() {
        let ((source, mut sender), (sink, mut receiver)) = (pair(), pair());
        let (mut half, mut pipes) = (open(), Pipes::default());
        sender.write_all(b"first, last").unwrap();
        while half.pump(&source, &sink, &mut pipes).unwrap().bytes == 0 {
            half.readable = true;
        }
        assert!(half.pipe.is_none() && !half.is_done());
        sender.shutdown(Shutdown::Write).unwrap();
        while !half.is_done() {
            half.readable = true;
            half.pump(&source, &sink, &mut pipes).unwrap();
        }
        let mut text = String::new();
        receiver.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, last");
    }

    #[test]
    fn a_reader_that_does_not_read_stops_the_sender_with_one_pipe_held() {
        let ((source, mut sender), (sink, mut receiver)) = (pair(), pair());
        let (mut half, mut pipes) = (open(), Pipes::default());
        sender.set_nonblocking(true).unwrap();
        let (chunk, mut sent) = (vec![7; 1 << 20], 0);
        // Sending ends when both have no room: a hundred times in a row, as the kernel moves bytes
        // between two sockets after the call.
        let mut idle = 0;
        while idle < 100 {
            let bytes = sender.write(&chunk).unwrap_or(0);
            half.readable = true;
            let moved = half.pump(&source, &sink, &mut pipes).unwrap();
            sent += bytes;
            idle = if bytes == 0 && moved.bytes == 0 {
                idle + 1
            } else {
                0
            };
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!half.writable && half.held_bytes <= PIPE_BYTES, "{half:?}");
        drop(sender);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).unwrap();
            all.len()
        });
        while !half.is_done() {
            half.readable = true;
            half.writable = true;
            half.pump(&source, &sink, &mut pipes).unwrap();
        }
        assert_eq!(reader.join().unwrap(), sent);
    }

    #[test]
    fn urgent_data_stays_in_its_place_of_the_stream() {
        let ((source, mut sender), (sink, mut receiver)) = (pair(), pair());
        sender.write_all(b"ab").unwrap();
        nix::sys::socket::send(
            std::os::fd::AsRawFd::as_raw_fd(&sender),
            b"!",
            nix::sys::socket::MsgFlags::MSG_OOB,
        )
        .unwrap();
        sender.write_all(b"cd").unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        let (mut half, mut pipes) = (open(), Pipes::default());
        while !half.is_done() {
            half.readable = true;
            half.urgent = true;
            half.pump(&source, &sink, &mut pipes).unwrap();
        }
        let mut text = String::new();
        receiver.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ab!cd");
    }

    #[test]
    fn a_reset_is_an_error() {
        let ((source, sender), (sink, _receiver)) = (pair(), pair());
        Socket::from(sender)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        let (mut half, mut pipes) = (open(), Pipes::default());
        let error = loop {
            half.readable = true;
            match half.pump(&source, &sink, &mut pipes) {
                Ok(_) => assert!(!half.is_done()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    }
}
