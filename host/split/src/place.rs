//! The place of the one process that splits in a network namespace: an abstract Unix socket, which the
//! kernel frees when the process ends, however it does. It answers each connection with the status.

use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::counts::Totals;
use crate::error::SplitError;
use crate::setup::{Limits, Setup};

/// Name of the socket. Abstract names belong to a network namespace.
const NAME: &[u8] = b"undercurrent/split";
/// Longest time for which a process that asks may take to read its answer.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// [`SplitError::Nobody`] without one, [`SplitError::Status`] if it does not answer.
    pub fn ask() -> Result<Self, SplitError> {
        let answer = || -> io::Result<String> {
            let mut stream = UnixStream::connect_addr(&address()?)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
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
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(SplitError::Taken {
                pid: Status::ask()
                    .map_or_else(|_| "unknown".into(), |status| status.pid.to_string()),
            }),
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
            while let Ok((stream, _)) = self.listener.accept() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // The next one gets its answer, whatever becomes of this.
                let _left = tell(stream, &status());
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
