//! A thread that owns split connections and waits for their sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use slab::Slab;
use socket2::Socket;

use crate::connection::{Connection, End, Next};
use crate::counts::Counts;
use crate::pipes::Pipes;
use crate::quota::Quota;
use crate::setup::Current;
use crate::side::Side;
use crate::sockets;

/// Number that epoll reports for the descriptor that tells workers to stop.
const STOP: u64 = u64::MAX;
/// Number that epoll reports for the first listener; for listener i it is this less i. Lower numbers stand for sockets
/// of connections: twice the connection's number for the guest's, and one more for the far end's.
const LISTENERS: u64 = u64::MAX - 1;
/// Maximum number of connections that are accepted before other sockets get their turn.
const ACCEPTS_MAX: usize = 64;
/// Time for which no connection is accepted after the kernel lacked descriptors or memory.
const REST: Duration = Duration::from_millis(100);
/// Interval at which connections are checked that wait for something that epoll does not report.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Maximum time for which a new connection waits until an earlier one between the same addresses and ports has ended:
/// the time after which an end sends its SYN once more (RFC 6298 §2.1).
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A connection that one side has opened and this host has accepted.
#[derive(Debug)]
struct Accepted {
    socket: Socket,
    opener: Side,
    from: SocketAddr,
    to: SocketAddr,
    at: Instant,
}

impl Accepted {
    fn guest_ip(&self) -> IpAddr {
        match self.opener {
            Side::Guest => self.from.ip(),
            Side::Far => self.to.ip(),
        }
    }
}

/// A socket that accepts connections which one side opens.
#[derive(Debug)]
pub struct Listener {
    /// The listening socket, bound to a loopback address.
    pub socket: Socket,
    /// The end that opens the connections of this listener.
    pub opener: Side,
}

/// The split connections of one thread.
pub struct Worker {
    epoll: Epoll,
    listeners: Vec<Listener>,
    connections: Slab<Connection>,
    /// Accepted connections that wait until an earlier one between the same addresses and ports has ended.
    waiting: Vec<Accepted>,
    pipes: Pipes,
    /// Connections that can go on without waiting.
    again: Vec<usize>,
    /// Connections that wait for something that epoll does not report; next line: when they were checked last.
    later: Vec<usize>,
    looked: Instant,
    /// Time until which the thread accepts no connection; `None`: it accepts.
    rests_until: Option<Instant>,
    setup: Arc<Current>,
    counts: Arc<Counts>,
    quota: Arc<Quota>,
}

impl Worker {
    /// Creates a worker that accepts from these listeners until `stop` is readable.
    pub fn new(
        listeners: Vec<Listener>,
        setup: Arc<Current>,
        counts: Arc<Counts>,
        quota: Arc<Quota>,
        stop: &EventFd,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        let worker = Self {
            epoll,
            listeners,
            connections: Slab::new(),
            waiting: Vec::new(),
            pipes: Pipes::default(),
            again: Vec::new(),
            later: Vec::new(),
            looked: Instant::now(),
            rests_until: None,
            setup,
            counts,
            quota,
        };
        worker.listen()?;
        Ok(worker)
    }

    /// Works until it is told to stop. All connections that are left then are reset.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 256];
        loop {
            let seen = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(seen) => &events[..seen],
                Err(nix::Error::EINTR) => &[],
                Err(errno) => return Err(errno.into()),
            };
            let mut ready = std::mem::take(&mut self.again);
            for event in seen {
                match event.data() {
                    STOP => return Ok(()),
                    data if data > LISTENERS - self.listeners.len() as u64 => {
                        self.accept((LISTENERS - data) as usize)?;
                    }
                    data => ready.extend(self.note(data, event.events())),
                }
            }
            let mut accepted = Vec::new();
            if self.looks() && self.looked.elapsed() >= LOOK_EVERY {
                ready.append(&mut self.later);
                accepted.append(&mut self.waiting);
                self.looked = Instant::now();
            }
            // A connection that ends frees its number, so each is attended to after all events.
            ready.sort_unstable();
            ready.dedup();
            for number in ready {
                self.attend(number);
            }
            for accepted in accepted {
                self.open(accepted);
            }
            if self
                .rests_until
                .is_some_and(|until| until <= Instant::now())
            {
                self.rests_until = None;
                self.listen()?;
            }
        }
    }

    /// Returns whether a connection waits for something that epoll does not report.
    fn looks(&self) -> bool {
        !self.later.is_empty() || !self.waiting.is_empty()
    }

    fn timeout(&self) -> EpollTimeout {
        if !self.again.is_empty() {
            return EpollTimeout::ZERO;
        }
        let time = match self.rests_until {
            _ if self.looks() => LOOK_EVERY,
            Some(_) => REST,
            None => return EpollTimeout::NONE,
        };
        EpollTimeout::try_from(time).unwrap_or(EpollTimeout::ZERO)
    }

    fn listen(&self) -> io::Result<()> {
        for (listener, number) in self.listeners.iter().zip(0..) {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENERS - number);
            self.epoll.add(&listener.socket, event)?;
        }
        Ok(())
    }

    /// Notes an event of a connection's socket. Returns the connection's number; `None` if it has ended.
    fn note(&mut self, data: u64, seen: EpollFlags) -> Option<usize> {
        let number = (data / 2) as usize;
        let side = match data % 2 {
            0 => Side::Guest,
            _ => Side::Far,
        };
        self.connections.get_mut(number)?.note(side, seen);
        Some(number)
    }

    fn attend(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(number) else {
            return;
        };
        let (next, established) = connection.go_on(&mut self.pipes);
        for (sum, bytes) in self.counts.bytes.iter().zip(connection.take_moved()) {
            sum.fetch_add(bytes, Relaxed);
        }
        if established && sockets::is_multipath(&connection.far) {
            self.counts.multipath.fetch_add(1, Relaxed);
        }
        match next {
            Next::Wait => {}
            Next::Again => self.again.push(number),
            Next::Later => self.later.push(number),
            Next::Ended(end) => self.remove(number, &end),
        }
    }

    fn remove(&mut self, number: usize, end: &End) {
        let connection = self.connections.remove(number);
        self.quota.give(connection.guest_ip);
        let count = match end {
            End::Orderly if connection.release().is_ok() => &self.counts.orderly,
            End::Orderly | End::Reset => &self.counts.reset,
            End::Refused => &self.counts.refused,
        };
        count.fetch_add(1, Relaxed);
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        if self.rests_until.is_some() {
            return Ok(());
        }
        for _ in 0..ACCEPTS_MAX {
            match self.listeners[listener].socket.accept() {
                Ok((accepted, _)) => self.begin(accepted, self.listeners[listener].opener),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        for listener in &self.listeners {
                            self.epoll.delete(&listener.socket)?;
                        }
                        self.rests_until = Some(Instant::now() + REST);
                        return Ok(());
                    }
                    // It was reset meanwhile.
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// Begins to split a connection that this side has opened. If that fails, dropping its socket resets it.
    fn begin(&mut self, accepted: Socket, opener: Side) {
        let ends = (accepted.peer_addr(), accepted.local_addr());
        let (Ok(Ok(from)), Ok(Ok(to))) = (
            ends.0.as_ref().map(sockets::ip),
            ends.1.as_ref().map(sockets::ip),
        ) else {
            return;
        };
        let accepted = Accepted {
            socket: accepted,
            opener,
            from,
            to,
            at: Instant::now(),
        };
        if !self.quota.take(accepted.guest_ip()) {
            self.counts.too_many.fetch_add(1, Relaxed);
            return;
        }
        self.counts.split.fetch_add(1, Relaxed);
        self.open(accepted);
    }

    /// Begins to connect to the other end of an accepted connection, or lets it wait for an earlier one between the
    /// same addresses and ports to end.
    fn open(&mut self, accepted: Accepted) {
        let is_early = accepted.at.elapsed() < ENDS_WITHIN;
        match self.connect(&accepted) {
            Err(error) if is_early && error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                self.waiting.push(accepted);
            }
            other => {
                let guest_ip = accepted.guest_ip();
                if other.and_then(|other| self.enter(accepted, other)).is_err() {
                    self.quota.give(guest_ip);
                    self.counts.refused.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Returns the socket of the side to which this host connects.
    fn connect(&self, accepted: &Accepted) -> io::Result<Socket> {
        let &Accepted { from, to, .. } = accepted;
        accepted.socket.set_nonblocking(true)?;
        if to.ip().is_loopback() {
            // A process of this host has connected to the listener itself.
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let setup = self.setup.get();
        let congestion_control = setup.congestion_control.as_deref();
        match accepted.opener {
            Side::Guest => sockets::open_outer(from, to, setup.mptcp, congestion_control),
            Side::Far => {
                sockets::control(&accepted.socket, congestion_control)?;
                sockets::open_inner(from, to)
            }
        }
    }

    /// Adds a connection whose other side is being connected to the worker's connections.
    fn enter(&mut self, accepted: Accepted, other: Socket) -> io::Result<()> {
        let guest_ip = accepted.guest_ip();
        let (guest, far, opened) = match accepted.opener {
            Side::Guest => (accepted.socket, other, Side::Far),
            Side::Far => (other, accepted.socket, Side::Guest),
        };
        let entry = self.connections.vacant_entry();
        let data = 2 * entry.key() as u64;
        let wanted = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLPRI
            | EpollFlags::EPOLLET;
        self.epoll
            .add(guest.as_fd(), EpollEvent::new(wanted, data))?;
        self.epoll
            .add(far.as_fd(), EpollEvent::new(wanted, data + 1))?;
        entry.insert(Connection::new(guest, far, guest_ip, opened));
        Ok(())
    }
}
