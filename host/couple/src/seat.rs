//! One guest of the host's loop: the place of its channel, and its rate limit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::belief::Impossible;
use crate::channel::{Channel, Received};
use crate::error::ServeError;
use crate::frames::Frames;
use crate::wire::{FRAME_BYTES_MAX, GroupReport, Parts, WireError};

/// Maximum rate of a guest's reports per second; a guest that exceeds it by more than two hundred
/// reports is refused.
pub const REPORTS_PER_SECOND: u64 = 1000;
const REPORTS_AT_ONCE: u64 = 200;

/// The place of a guest's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Socket to connect to, where another process listens, as QEMU does for a virtio-serial port.
    Connect(PathBuf),
    /// Socket to create, for guests that connect themselves: containers.
    Listen(PathBuf),
}

/// The configuration of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSetup {
    /// Name of the guest, as the operator calls it.
    pub name: String,
    /// Place of its channel.
    pub place: Place,
    /// Weight among the guests.
    pub weight: u8,
}

/// Why a guest is excluded.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The guest sent bytes that cannot be decoded as a frame of the coupling protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The guest's report is impossible.
    #[error("{0}")]
    Impossible(#[from] Impossible),
    /// The guest sent an answer; guests send reports.
    #[error("it sent an answer, which only a host does")]
    NotAReport,
    /// The guest sends too many reports.
    #[error("more than {REPORTS_PER_SECOND} reports a second")]
    Flood,
    /// The guest's channel broke.
    #[error("its channel broke: {0}")]
    Channel(#[from] io::Error),
}

/// The result of a read: the newest complete report.
#[derive(Debug)]
pub(crate) enum Came {
    Nothing,
    Nobody,
    Report {
        at_ns: u64,
        groups: Vec<GroupReport>,
    },
}

/// A guest and its channel.
#[derive(Debug)]
pub(crate) struct Seat {
    pub setup: GuestSetup,
    /// Whether its reports are answered.
    pub coupled: bool,
    listener: Option<Socket>,
    channel: Option<Channel>,
    frames: Frames,
    /// Earliest time of the next connection attempt; next line, why the last one failed.
    not_before: Instant,
    refused: Option<io::ErrorKind>,
    /// Number of reports that it may send now; next line, the time of that count.
    allowed: u64,
    counted: Instant,
}

impl Seat {
    pub fn new(setup: GuestSetup, now: Instant) -> Result<Self, ServeError> {
        let listener = match &setup.place {
            Place::Connect(_) => None,
            Place::Listen(path) => Some(Socket::listen(path)?),
        };
        Ok(Self {
            setup,
            listener,
            coupled: false,
            channel: None,
            frames: Frames::default(),
            not_before: now,
            refused: None,
            allowed: REPORTS_AT_ONCE,
            counted: now,
        })
    }

    /// Tries to connect to the other end. Returns the error that prevents it, when the error is
    /// new.
    pub fn connect(&mut self, now: Instant, retry: Duration) -> Option<(PathBuf, io::Error)> {
        if self.channel.is_some() || now < self.not_before {
            return None;
        }
        self.frames = Frames::default();
        let (Place::Connect(path), None) = (&self.setup.place, &self.listener) else {
            self.channel = self.listener.as_ref().and_then(Socket::accept);
            return None;
        };
        match Channel::open(path) {
            Ok(channel) => {
                (self.channel, self.refused) = (Some(channel), None);
                None
            }
            Err(error) => {
                self.not_before = now + retry;
                let before = self.refused.replace(error.kind());
                (before != Some(error.kind())).then(|| (path.clone(), error))
            }
        }
    }

    /// Returns the descriptor to poll for reading, if there is something to wait for.
    pub fn waits_for(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        if let Some(channel) = &self.channel {
            return Some(channel.as_fd());
        }
        let socket = self.listener.as_ref()?;
        (now >= self.not_before).then(|| socket.0.as_fd())
    }

    /// Reads what is available, at most one frame's length.
    pub fn receive(&mut self, now: Instant) -> Result<Came, Refusal> {
        let Some(channel) = &mut self.channel else {
            return Ok(Came::Nothing);
        };
        let mut bytes = [0; FRAME_BYTES_MAX];
        match channel.receive(&mut bytes)? {
            Received::Nothing => return Ok(Came::Nothing),
            Received::Nobody => return Ok(Came::Nobody),
            Received::Bytes(length) => self.frames.push(&bytes[..length]),
        }
        let mut came = Came::Nothing;
        while let Some(frame) = self.frames.take()? {
            if !self.may_report(now) {
                return Err(Refusal::Flood);
            }
            let Parts::Report(groups) = frame.parts else {
                return Err(Refusal::NotAReport);
            };
            let at_ns = frame.at_ns;
            came = Came::Report { at_ns, groups };
        }
        Ok(came)
    }

    pub fn send(&mut self, frame: &[u8]) -> Result<(), Refusal> {
        match &mut self.channel {
            Some(channel) => Ok(channel.send(frame)?),
            None => Ok(()),
        }
    }

    /// Closes the channel, and connects again at the earliest at `not_before`.
    pub fn close(&mut self, not_before: Instant) {
        self.channel = None;
        self.coupled = false;
        self.not_before = not_before;
    }

    fn may_report(&mut self, now: Instant) -> bool {
        let passed_ms = now.saturating_duration_since(self.counted).as_millis() as u64;
        let more = passed_ms * REPORTS_PER_SECOND / 1000;
        if more > 0 {
            self.allowed = (self.allowed + more).min(REPORTS_AT_ONCE);
            self.counted = now;
        }
        let may = self.allowed > 0;
        self.allowed -= u64::from(may);
        may
    }
}

/// A listening socket, whose file is removed with it.
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
        let left = std::os::unix::net::UnixStream::connect(path);
        let is_socket =
            std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_socket && left.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self(listener, path.to_owned()))
    }

    fn accept(&self) -> Option<Channel> {
        let (stream, _) = self.0.accept().ok()?;
        Channel::of(stream).ok()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _it_may_be_gone = std::fs::remove_file(&self.1);
    }
}
