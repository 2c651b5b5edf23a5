//! Sender of a flow with arrivals: opens a connection for each transfer when it is due, whether or not the
//! one before it has arrived.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::SockaddrStorage;
use nix::sys::time::TimeSpec;
use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::event::Event;
use crate::pattern::Pattern;
use crate::socket;
use crate::transfers::Transfers;

/// The input of the thread that sends a flow's transfers. It runs in the guest's namespace.
#[derive(Debug)]
pub(crate) struct Opener {
    pub transfers: Arc<Transfers>,
    /// End of the first connection.
    pub from: SocketAddr,
    /// Distance of the TCP ports of two connections.
    pub stride: u16,
    pub server: SocketAddr,
    /// Name of the congestion control in the kernel.
    pub control: String,
    /// Label of the guest, for messages.
    pub guest: String,
    pub pattern: Arc<Pattern>,
    /// Whether the run is over; later errors of the sockets are no failures.
    pub stop: Arc<AtomicBool>,
}

/// A connection that is open.
struct Sending {
    socket: Arc<TcpStream>,
    bytes: u64,
    written_bytes: u64,
}

impl Opener {
    /// Sends until the run is over, whose clock began at `started`; failures go to `events`.
    pub fn run(self, started: Nanos, events: &Sender<Event>) {
        if let Err(error) = self.send(started)
            && !self.stop.load(Ordering::Relaxed)
        {
            // The run may be over; then nothing receives the event.
            let _ = events.send(Event::Failed(error));
        }
    }

    fn send(&self, started: Nanos) -> Result<(), LabError> {
        let mut open: Vec<Sending> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let due = loop {
                match self.transfers.next(clock::now().since(started)) {
                    Ok((number, bytes)) => open.push(self.open(number, bytes)?),
                    Err(at) => break Nanos(started.0.saturating_add(at.0)),
                }
            };
            let ready = self.wait(&open, due)?;
            let before = std::mem::take(&mut open);
            for (mut sending, events) in before.into_iter().zip(ready) {
                if !self.goes_on(&mut sending, events)? {
                    let closed = self.transfers.closed(&sending.socket);
                    closed.map_err(self.failed("reading TCP_INFO"))?;
                } else {
                    open.push(sending);
                }
            }
        }
        Ok(())
    }

    /// Opens the connection of transfer number `number`.
    fn open(&self, number: usize, bytes: u64) -> Result<Sending, LabError> {
        // The flow's number of transfers was checked.
        let port = self.from.port() + number as u16 * self.stride;
        let from = SocketAddr::new(self.from.ip(), port);
        let socket = socket::client(&self.guest, from, &self.control)?;
        // As in the simulator: otherwise the transfer's end would wait for the ACK of the data before it.
        let set = socket.set_nodelay(true);
        set.map_err(self.failed("setting TCP_NODELAY"))?;
        let to = SockaddrStorage::from(self.server);
        match nix::sys::socket::connect(socket.as_raw_fd(), &to) {
            Ok(()) | Err(nix::Error::EINPROGRESS) => {}
            Err(errno) => return Err(self.failed("connecting")(errno.into())),
        }
        let socket = Arc::new(socket);
        self.transfers.opened(&socket);
        Ok(Sending {
            socket,
            bytes,
            written_bytes: 0,
        })
    }

    /// Waits for a socket, at most until `due`. Returns what has happened to each.
    fn wait(&self, open: &[Sending], due: Nanos) -> Result<Vec<PollFlags>, LabError> {
        let wanted = |sending: &Sending| match sending.written_bytes < sending.bytes {
            true => PollFlags::POLLOUT,
            false => PollFlags::empty(),
        };
        let fds = open
            .iter()
            .map(|it| PollFd::new(it.socket.as_fd(), wanted(it)));
        let mut polled: Vec<PollFd<'_>> = fds.collect();
        let left = Duration::from_nanos(due.since(clock::now()).0).min(clock::LOOK);
        match ppoll(&mut polled, Some(TimeSpec::from(left)), None) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(self.failed("waiting for its connections")(errno.into())),
        }
        let ready = polled
            .iter()
            .map(|it| it.revents().unwrap_or(PollFlags::empty()));
        Ok(ready.collect())
    }

    /// Writes what the socket takes, and closes the guest's side behind it. Returns whether the connection
    /// is still open.
    fn goes_on(&self, sending: &mut Sending, ready: PollFlags) -> Result<bool, LabError> {
        let ended = |source| LabError::Ended {
            guest: self.guest.clone(),
            source,
        };
        let mut socket = &*sending.socket;
        if ready.contains(PollFlags::POLLERR)
            && let Some(error) = socket.take_error().map_err(ended)?
        {
            return Err(ended(error));
        }
        if sending.written_bytes == sending.bytes {
            return Ok(!ready.contains(PollFlags::POLLHUP));
        }
        if ready.is_empty() {
            return Ok(true);
        }
        while sending.written_bytes < sending.bytes {
            let chunk = self.pattern.chunk(sending.written_bytes);
            let left = usize::try_from(sending.bytes - sending.written_bytes).unwrap_or(usize::MAX);
            match socket.write(&chunk[..chunk.len().min(left)]) {
                Ok(written) => sending.written_bytes += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(ended(error)),
            }
        }
        socket.shutdown(Shutdown::Write).map_err(ended)?;
        Ok(true)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> LabError + use<> {
        LabError::socket(self.guest.clone(), action)
    }
}
