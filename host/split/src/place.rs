//! The place of the one process that splits in a network namespace: an abstract Unix socket, which the
//! kernel frees when the process ends, however it does. It answers each connection with the status.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt,
};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::counts::Totals;
use crate::error::SplitError;
use crate::setup::{Limits, Setup};

/// Name of the socket. Abstract names belong to a network namespace.
const NAME: &[u8] = b"undercurrent/split";
/// Longest time for which a process that asks may take to read its answer, and for which it waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const ANSWER_MOST: u64 = 1 << 20;
/// Pause after a connection that could not be accepted, for instance for want of descriptors.
const REST: Duration = Duration::from_millis(100);

/// What is split, and how much was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Number of the process that splits.
    pub pid: u32,
    /// What is split, and how; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub setup: Setup,
    /// What the process may take; in JSON as above.
    #[serde(flatten)]
    pub limits: Limits,
    /// Numbers of connections and bytes.
    pub totals: Totals,
}

impl Status {
    /// Creates the status of this process.
    pub(crate) fn new(setup: Setup, limits: Limits, totals: Totals) -> Self {
        Self {
            pid: std::process::id(),
            setup,
            limits,
            totals,
        }
    }

    /// Asks the process that splits in this network namespace.
    ///
    /// # Errors
    /// [`SplitError::Nobody`] without one, [`SplitError::Status`] if it does not answer, or is another
    /// user's: anybody on the host may take an abstract name.
    pub fn ask() -> Result<Self, SplitError> {
        let text = answer().map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => SplitError::Nobody,
            _ => SplitError::Status(error),
        })?;
        serde_json::from_str(&text).map_err(|error| SplitError::Status(error.into()))
    }
}

fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(NAME)
}

/// Reads the answer of the process that has the place, for [`PATIENCE`] at most.
fn answer() -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    // Connecting waits for nobody: a queue of askers that nobody serves is an error.
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let asking = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    connect(asking.as_raw_fd(), &UnixAddr::new_abstract(NAME)?)?;
    let mut stream = UnixStream::from(asking);
    stream.set_nonblocking(false)?;
    let owner = getsockopt(&stream, sockopt::PeerCredentials)?;
    if owner.uid() != 0 && owner.uid() != geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "process {} of user {} has its socket: end that process",
            owner.pid(),
            owner.uid()
        )));
    }
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() as u64 > ANSWER_MOST {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return String::from_utf8(text).map_err(io::Error::other),
            count => text.extend_from_slice(&piece[..count]),
        }
    }
}

/// The place, taken. Dropping it frees it.
#[derive(Debug)]
pub struct Place {
    listener: UnixListener,
}

impl Place {
    /// Takes the place in the caller's network namespace.
    ///
    /// # Errors
    /// [`SplitError::Taken`] if another process has it.
    pub fn take() -> Result<Self, SplitError> {
        let bound = address().and_then(|address| UnixListener::bind_addr(&address));
        match bound {
            Ok(listener) => Ok(Self { listener }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => match Status::ask() {
                Ok(status) => Err(SplitError::Taken {
                    pid: status.pid.to_string(),
                }),
                Err(error) => Err(error),
            },
            Err(error) => Err(SplitError::resource("create a Unix socket", error)),
        }
    }

    /// Answers those who ask, on a thread of its own.
    pub(crate) fn serve(
        self,
        status: impl Fn() -> Status + Send + 'static,
    ) -> Result<Served, SplitError> {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let answer = move || {
            loop {
                let accepted = self.listener.accept();
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // The next one gets its answer, whatever becomes of this. The place is kept in any case:
                // without it a second process would remove this one's rules.
                match accepted {
                    Ok((stream, _)) => drop(tell(stream, &status())),
                    Err(_) => thread::sleep(REST),
                }
            }
        };
        let thread = thread::Builder::new()
            .name("uc-split-status".into())
            .spawn(answer);
        let thread = thread.map_err(|error| SplitError::resource("start a thread", error))?;
        Ok(Served {
            ends,
            thread: Some(thread),
        })
    }
}

/// Sends the status to the same user and to root only.
fn tell(mut stream: UnixStream, status: &Status) -> io::Result<()> {
    let asks = getsockopt(&stream, sockopt::PeerCredentials)?.uid();
    if asks != 0 && asks != geteuid().as_raw() {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(serde_json::to_string(status)?.as_bytes())
}

/// The thread that answers. Dropping it ends the thread and frees the place.
#[derive(Debug)]
pub(crate) struct Served {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread; without a connection it has ended.
        let _woken = address().and_then(|address| UnixStream::connect_addr(&address));
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
