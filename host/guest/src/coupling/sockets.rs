//! Opening of the guests' sockets. It may need root's rights, and reads no byte of a guest. The process that reads
//! these bytes may be another one, without rights, which asks for the opened descriptors.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use uc_service::confine::{receive, send};

use crate::coupling::error::ServeError;
use crate::coupling::host::GuestId;
use crate::coupling::setup::{GuestSetup, Place};

/// Opens the sockets of guests' channels, in this process or by another one.
pub trait Open: std::fmt::Debug + Send {
    /// Returns a connection to a guest's socket, or the listening socket to which the guest will connect, as the
    /// guest's [`Place`] says.
    ///
    /// # Errors
    /// The kernel's: the guest is not there yet, or its path names something else.
    fn open(&mut self, guest: GuestId) -> io::Result<OwnedFd>;

    /// Returns a descriptor that becomes readable when sockets can no longer be opened; `None`: they always can.
    fn ends(&self) -> Option<BorrowedFd<'_>>;
}

/// Opens the sockets of guests' channels in this process.
#[derive(Debug)]
pub struct Sockets(Vec<GuestSocket>);

#[derive(Debug)]
enum GuestSocket {
    Connect(PathBuf),
    Listen(Socket),
}

impl Sockets {
    /// Creates the listening sockets of those guests that connect themselves.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn new(guests: &[GuestSetup]) -> Result<Self, ServeError> {
        let socket = |guest: &GuestSetup| match &guest.place {
            Place::Connect(path) => Ok(GuestSocket::Connect(path.clone())),
            Place::Listen(path) => Socket::listen(path).map(GuestSocket::Listen),
        };
        guests
            .iter()
            .map(socket)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Answers one request that [`RemoteSockets`] sent on the other end of `asked`. Returns false when that end is
    /// closed.
    ///
    /// # Errors
    /// The kernel's; or the request is invalid.
    pub fn answer(&mut self, asked: impl AsFd) -> io::Result<bool> {
        let mut guest = [0; size_of::<u32>()];
        let Some((length, _)) = receive(&asked, &mut guest)? else {
            return Ok(false);
        };
        let guest = u32::from_le_bytes(guest) as GuestId;
        if length != size_of::<u32>() || guest >= self.0.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (errno, opened) = match self.open(guest) {
            Ok(opened) => (0, Some(opened)),
            Err(error) => (error.raw_os_error().unwrap_or(Errno::EIO as i32), None),
        };
        send(&asked, &errno.to_le_bytes(), opened.as_ref())?;
        Ok(true)
    }
}

impl Open for Sockets {
    fn open(&mut self, guest: GuestId) -> io::Result<OwnedFd> {
        match &self.0[guest] {
            GuestSocket::Connect(path) => connected(path),
            GuestSocket::Listen(socket) => socket.0.as_fd().try_clone_to_owned(),
        }
    }

    fn ends(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Asks [`Sockets::answer`], in the process at the other end of this socket, to open the guests' sockets.
#[derive(Debug)]
pub struct RemoteSockets(pub OwnedFd);

impl Open for RemoteSockets {
    fn open(&mut self, guest: GuestId) -> io::Result<OwnedFd> {
        send(&self.0, &(guest as u32).to_le_bytes(), None)?;
        let mut errno = [0; size_of::<i32>()];
        match receive(&self.0, &mut errno)? {
            Some((_, Some(opened))) => Ok(opened),
            Some((_, None)) => Err(io::Error::from_raw_os_error(i32::from_le_bytes(errno))),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn ends(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Connects to a socket without waiting, so that an owner that does not accept delays no other guest. The file must be
/// a socket itself, not a link to one: the folder may be writable by the guest's machine.
fn connected(path: &Path) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags((OFlag::O_PATH | OFlag::O_NOFOLLOW).bits());
    let file: File = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_symlink() {
        return Err(Errno::ELOOP.into());
    }
    if !kind.is_socket() {
        return Err(Errno::ENOTSOCK.into());
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // That very file, also where the path leads elsewhere by now.
    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    connect(made.as_raw_fd(), &UnixAddr::new(same.as_str())?)?;
    Ok(made)
}

/// A listening socket and the path of its file, which is removed when the socket is dropped.
#[derive(Debug)]
struct Socket(UnixListener, PathBuf);

impl Socket {
    fn listen(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            path: path.to_owned(),
            source,
        };
        // The file may be left by a killed process; a living one listens on it. Only sockets are
        // ever removed: connecting to a plain file is refused too.
        let left = UnixStream::connect(path);
        let is_socket =
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_socket && left.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(listener, path.to_owned()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _it_may_be_gone = fs::remove_file(&self.1);
    }
}
