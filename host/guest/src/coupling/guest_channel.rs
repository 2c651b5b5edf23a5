//! One guest of the host's loop: its channel, how to connect it, and the limit on its reports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::coupling::channel::{Channel, Received};
use crate::coupling::frames::Frames;
use crate::coupling::host::GuestId;
use crate::coupling::setup::{GuestSetup, Place};
use crate::coupling::sockets::Open;
use crate::coupling::validate::Impossible;
use crate::coupling::wire::{FRAME_BYTES_MAX, GroupReport, Parts, WireError};

/// Maximum rate of a guest's reports, per second. A guest that exceeds this rate by more than two hundred reports is
/// refused.
pub const REPORTS_PER_SECOND: u64 = 1000;
const REPORTS_AT_ONCE: u64 = 200;
/// Interval of the attempts to connect to a guest's socket.
pub(crate) const RETRY: Duration = Duration::from_millis(200);
/// Minimum time between two reads of a guest's channel: a guest that sends single bytes wakes the host at most this
/// often. Honest guests send whole frames, at most every 2 ms.
const READ_EVERY: Duration = Duration::from_micros(500);

/// Why a guest is excluded.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The guest sent bytes that cannot be decoded as a frame of the coupling protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The guest's report is impossible.
    #[error("{0}")]
    Impossible(#[from] Impossible),
    /// The guest sent an answer, but only hosts may.
    #[error("the guest sent an answer, but guests send reports and only the host answers")]
    NotAReport,
    /// The guest sends too many reports.
    #[error("the guest sent more than {REPORTS_PER_SECOND} reports a second")]
    Flood,
    /// The guest's channel broke.
    #[error("the guest's channel broke: {0}")]
    Channel(#[from] io::Error),
}

/// The result of reading a guest's channel.
#[derive(Debug)]
pub(crate) enum Came {
    Nothing,
    Nobody,
    Report {
        at_ns: u64,
        groups: Vec<GroupReport>,
    },
}

/// A coupled guest: its settings, and the host's end of its channel.
#[derive(Debug)]
pub(crate) struct GuestChannel {
    pub setup: GuestSetup,
    /// Whether the guest's reports are answered.
    pub coupled: bool,
    listener: Option<UnixListener>,
    channel: Option<Channel>,
    frames: Frames,
    /// Earliest time of the next connection attempt.
    not_before: Instant,
    /// Kind of the error of the last connection attempt; `None` if it succeeded.
    refused: Option<io::ErrorKind>,
    /// Earliest time of the next read from the guest's channel.
    read_at: Instant,
    /// Number of reports that the guest may send at the time `counted`: a token bucket.
    allowed: u64,
    /// Time at which `allowed` was computed.
    counted: Instant,
}

impl GuestChannel {
    pub fn new(setup: GuestSetup, now: Instant) -> Self {
        Self {
            setup,
            listener: None,
            coupled: false,
            channel: None,
            frames: Frames::default(),
            not_before: now,
            refused: None,
            read_at: now,
            allowed: REPORTS_AT_ONCE,
            counted: now,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Tries to connect to the guest's socket, or accepts the guest's connection if `is_ready` says that one has
    /// arrived. Returns the socket's path and the error if it failed; `None` if the attempt before had the same error.
    pub fn connect(
        &mut self,
        id: GuestId,
        now: Instant,
        is_ready: bool,
        sockets: &mut dyn Open,
    ) -> Option<(PathBuf, io::Error)> {
        if now < self.not_before || self.listener.is_some() && !is_ready {
            return None;
        }
        self.frames = Frames::default();
        if let Some(listener) = &self.listener {
            let accepted = listener.accept().ok();
            self.channel = accepted.and_then(|(stream, _)| Channel::of(stream).ok());
            return None;
        }
        let (Place::Connect(path) | Place::Listen(path)) = &self.setup.place;
        let opened = sockets.open(id).and_then(|opened| {
            match self.setup.place {
                Place::Connect(_) => self.channel = Some(Channel::of(opened.into())?),
                Place::Listen(_) => self.listener = Some(opened.into()),
            }
            Ok(())
        });
        match opened {
            Ok(()) => {
                self.refused = None;
                None
            }
            Err(error) => {
                self.not_before = now + RETRY;
                let before = self.refused.replace(error.kind());
                (before != Some(error.kind())).then(|| (path.clone(), error))
            }
        }
    }

    /// Returns the descriptor to poll for reading; `None` while neither a report nor a connection may be read.
    pub fn waits_for(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        if let Some(channel) = &self.channel {
            return (now >= self.read_at).then(|| channel.as_fd());
        }
        let listener = self.listener.as_ref()?;
        (now >= self.not_before).then(|| listener.as_fd())
    }

    /// Returns the time until the guest's channel may be read again, which limits the rate of reports; `None`: it may
    /// be read now, or is not connected.
    pub fn rests(&self, now: Instant) -> Option<Duration> {
        let rest = self.read_at.saturating_duration_since(now);
        (self.channel.is_some() && !rest.is_zero()).then_some(rest)
    }

    /// Reads what has arrived, at most one frame's length, and returns the newest complete report.
    ///
    /// # Errors
    /// Why the guest must be excluded.
    pub fn receive(&mut self, now: Instant) -> Result<Came, Refusal> {
        let Some(channel) = &mut self.channel else {
            return Ok(Came::Nothing);
        };
        self.read_at = now + READ_EVERY;
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

    /// Closes the channel. The guest can connect again from `not_before` on.
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
