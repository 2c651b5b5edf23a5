//! The receivers' side of every flow: one thread accepts, reads, checks and counts.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use uc_net::Nanos;

use crate::arriving::Arriving;
use crate::clock;
use crate::error::LabError;
use crate::event::Event;
use crate::incast::Asking;
use crate::pattern::{CHUNK_BYTES, Pattern};
use crate::socket;
use crate::transfer_times::TransferTimes;

/// Number of the first listener in epoll's events; smaller numbers are those of flows.
const LISTENERS: u64 = 1 << 32;
/// First event of connections that carry one transfer each.
const ARRIVING: u64 = 1 << 33;
const STOP: u64 = u64::MAX;
/// If data comes within this time (30 µs) of the data before it, the thread polls for as long before it sleeps.
/// Otherwise the emulator's thread would have to wake it for each frame, which takes some microseconds in a virtual
/// machine.
const SPIN: Nanos = Nanos(30_000);

/// A flow whose connection is expected.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Address of the guest's end.
    pub from: SocketAddr,
    /// Label of the flow's guest, for messages.
    pub guest: String,
    /// Whether the flow may end before the run does.
    pub may_end: bool,
    /// Counter of delivered payload.
    pub delivered_bytes: Arc<AtomicU64>,
    /// Transfers that the delivered bytes complete; `None` for a flow without transfers.
    pub times: Option<Arc<TransferTimes>>,
}

/// The running receiver.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Starts the thread; `window_bytes`: the receivers' largest window. Failures go to `events`, unless `stopping` is
    /// set.
    pub fn start(
        listeners: Vec<TcpListener>,
        (expected, asking, arriving): (Vec<Expected>, Vec<Asking>, Arriving),
        window_bytes: Option<u32>,
        pattern: Arc<Pattern>,
        stopping: Arc<AtomicBool>,
        events: Sender<Event>,
    ) -> Result<Self, LabError> {
        let resource = |action| move |source: io::Error| LabError::Resource { action, source };
        let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| resource("make an event descriptor")(errno.into()))?;
        let stop = Arc::new(stop);
        let poll = watch(&listeners, &stop)
            .map_err(|errno| resource("watch the listeners")(errno.into()))?;
        let flows = expected
            .iter()
            .enumerate()
            .map(|(flow, peer)| (peer.from, flow))
            .collect();
        let asked_by = asking
            .iter()
            .enumerate()
            .flat_map(|(group, asking)| asking.flows().iter().map(move |&flow| (flow, group)))
            .collect();
        let mut receiver = Receiver {
            poll,
            listeners,
            flows,
            streams: expected.iter().map(|_| None).collect(),
            expected,
            pattern,
            asking,
            asked_by,
            arriving,
            window_bytes,
        };
        let thread = thread::Builder::new()
            .name("uc-receiver".into())
            .spawn(move || {
                if let Err(error) = receiver.run()
                    && !stopping.load(Ordering::Relaxed)
                {
                    // The run may be over; then nothing receives the event.
                    let _ = events.send(Event::Failed(error));
                }
            })
            .map_err(resource("start a thread"))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops the thread and waits for it.
    pub fn stop(&mut self) {
        // This fails only if the counter overflows, and then it is set.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            // A panic has already been printed by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(listeners: &[TcpListener], stop: &EventFd) -> nix::Result<Epoll> {
    let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (event, listener) in (LISTENERS..).zip(listeners) {
        poll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, event))?;
    }
    poll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
    Ok(poll)
}

struct Receiver {
    poll: Epoll,
    listeners: Vec<TcpListener>,
    flows: BTreeMap<SocketAddr, usize>,
    streams: Vec<Option<TcpStream>>,
    expected: Vec<Expected>,
    pattern: Arc<Pattern>,
    asking: Vec<Asking>,
    /// Largest window of the connections, if the receivers' stack has a receive buffer.
    window_bytes: Option<u32>,
    /// For each flow that carries blocks on request: index in `asking` of the group that requests them.
    asked_by: BTreeMap<usize, usize>,
    arriving: Arriving,
}

impl Receiver {
    fn run(&mut self) -> Result<(), LabError> {
        let mut events = [EpollEvent::empty(); 64];
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut read, mut spin_until) = (Nanos::ZERO, Nanos::ZERO);
        loop {
            let timeout = if clock::now() < spin_until {
                EpollTimeout::ZERO
            } else {
                EpollTimeout::NONE
            };
            let count = match self.poll.wait(&mut events, timeout) {
                Ok(0) | Err(nix::Error::EINTR) => continue,
                Ok(count) => count,
                Err(errno) => return Err(failed("waiting for data", errno.into())),
            };
            let is_fast = clock::now().since(read) < SPIN;
            for event in &events[..count] {
                match event.data() {
                    STOP => return Ok(()),
                    flow @ ..LISTENERS => self.read(flow as usize, &mut buffer)?,
                    listener @ ..ARRIVING => self.accept((listener - LISTENERS) as usize)?,
                    arriving => {
                        let (poll, pattern) = (&self.poll, &self.pattern);
                        let window_bytes = self.window_bytes;
                        self.arriving
                            .read(poll, arriving, pattern, window_bytes, &mut buffer)?;
                    }
                }
            }
            read = clock::now();
            if is_fast {
                spin_until = read + SPIN;
            }
        }
    }

    fn accept(&mut self, listener: usize) -> Result<(), LabError> {
        let (stream, peer) = match self.listeners[listener].accept() {
            Ok(accepted) => accepted,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(source) => return Err(failed("accepting", source)),
        };
        stream
            .set_nonblocking(true)
            .map_err(|source| failed("accepting", source))?;
        // Nothing else can reach the namespace; an unknown peer is closed by the drop.
        let Some(&flow) = self.flows.get(&peer) else {
            let accepted = self.arriving.accept(&self.poll, stream, peer, ARRIVING);
            return accepted.map_err(|source| failed("watching a connection", source));
        };
        self.poll
            .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, flow as u64))
            .map_err(|errno| failed("watching a connection", errno.into()))?;
        self.streams[flow] = Some(stream);
        let Some(&group) = self.asked_by.get(&flow) else {
            return Ok(());
        };
        let asked = self.asking[group].connected(&mut self.streams);
        asked.map_err(|source| failed("asking for a block", source))
    }

    fn read(&mut self, flow: usize, buffer: &mut [u8]) -> Result<(), LabError> {
        let Some(stream) = &mut self.streams[flow] else {
            return Ok(());
        };
        let Expected {
            guest,
            delivered_bytes,
            may_end,
            times,
            ..
        } = &self.expected[flow];
        let ended = |source| LabError::Ended {
            guest: guest.clone(),
            source,
        };
        let count = match stream.read(buffer) {
            Ok(0) if *may_end => {
                // The socket stays open, since closing would reset it, but is no longer polled.
                let gone = self.poll.delete(&*stream);
                return gone.map_err(|errno| failed("leaving a connection", errno.into()));
            }
            Ok(0) => return Err(ended(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => count,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(source) => return Err(ended(source)),
        };
        if let Some(bytes) = self.window_bytes {
            let limited = socket::limit_window(stream, bytes);
            limited.map_err(|source| failed("limiting its window", source))?;
        }
        let at_byte = delivered_bytes.fetch_add(count as u64, Ordering::Relaxed);
        if let Some(at_byte) = self.pattern.first_difference(at_byte, &buffer[..count]) {
            return Err(LabError::Refused(format!(
                "{guest}: the stream is corrupt at byte {at_byte}: something on the path changed \
                 payload"
            )));
        }
        if let Some(times) = times {
            times.delivered(at_byte + count as u64, clock::now());
        }
        let Some(&group) = self.asked_by.get(&flow) else {
            return Ok(());
        };
        let span = (at_byte, at_byte + count as u64);
        let asked = self.asking[group].read(span, &mut self.streams);
        asked.map_err(|source| failed("asking for a block", source))
    }
}

/// Returns whether an accept failed because nothing was there, or because a connection was reset
/// before it.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

fn failed(action: &'static str, source: io::Error) -> LabError {
    LabError::Socket {
        node: "the server".into(),
        action,
        source,
    }
}
