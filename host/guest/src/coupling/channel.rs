//! A channel: a non-blocking stream of bytes. It is a virtio-serial port in a guest, QEMU's socket for that port on the
//! host, or a Unix socket between containers and their host.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

/// The result of a read from a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This number of bytes was read.
    Bytes(usize),
    /// No bytes have arrived since the last read.
    Nothing,
    /// The other end is not connected.
    Nobody,
}

/// One end of a channel between a guest and its host: a socket or a virtio-serial port.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    /// Rest of a frame of which only a part was written.
    unsent: Vec<u8>,
}

impl Channel {
    /// Opens the virtio-serial device or the Unix socket at `path`.
    ///
    /// # Errors
    /// The kernel's; [`io::ErrorKind::InvalidInput`] for any other file, so that no file is overwritten.
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_socket() {
            return Self::of(UnixStream::connect(path)?);
        }
        if !kind.is_char_device() {
            let what = "neither a socket nor a character device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(libc_flags());
        Ok(Self {
            fd: options.open(path)?.into(),
            unsent: Vec::new(),
        })
    }

    /// Creates a channel from a connected socket.
    pub fn of(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            fd: socket.into(),
            unsent: Vec::new(),
        })
    }

    /// Sends a frame. Drops it if the other end does not read: the next frame repeats the content.
    ///
    /// # Errors
    /// The kernel's, when the other end is closed.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.unsent.is_empty() {
            let taken = self.write(frame)?;
            if taken > 0 {
                self.unsent = frame[taken..].to_vec();
            }
            return Ok(());
        }
        let rest = std::mem::take(&mut self.unsent);
        let taken = self.write(&rest)?;
        self.unsent = rest[taken..].to_vec();
        if self.unsent.is_empty() {
            return self.send(frame);
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // Without SIGPIPE, which would end the process, if the other end of a socket has gone.
        let written = match send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Err(Errno::ENOTSOCK) => nix::unistd::write(&self.fd, bytes),
            sent => sent,
        };
        match written {
            Ok(taken) => Ok(taken),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads the bytes that have arrived, without waiting for more.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Received> {
        match nix::unistd::read(&self.fd, bytes) {
            Ok(0) => Ok(Received::Nobody),
            Ok(length) => Ok(Received::Bytes(length)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Received::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn libc_flags() -> i32 {
    use nix::fcntl::OFlag;
    (OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits()
}
