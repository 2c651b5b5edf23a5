//! A transfer between any two namespaces, with checked content and pauses.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen, setsockopt, sockopt};
use uc_lab::netns::Namespace;
use uc_lab::pattern::{CHUNK_BYTES, Pattern};
use uc_lab::tcp_info::TcpInfo;
use uc_live::Machine;

use super::bench::{patience, raw_socket, wait_until};

/// A transfer that makes no progress for this long has failed; a multiple on a slow kernel.
const DEADLINE: Duration = Duration::from_secs(30);

/// Opens one connection on which the connecting end sends a few bytes.
pub fn exchange(listener: &TcpListener, connect: impl FnOnce() -> TcpStream) {
    let mut stream = connect();
    let (mut accepted, _) = listener.accept().unwrap();
    stream.write_all(b"and that is all").unwrap();
    drop(stream);
    let mut text = String::new();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "and that is all");
}

/// One end of a transfer.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// Network namespace of the end.
    pub namespace: &'a Namespace,
    /// The end's IP address and TCP port.
    pub address: SocketAddr,
}

/// A running transfer.
pub struct Transfer {
    /// The end that connected and sends.
    pub source: SocketAddr,
    /// The end that accepted and receives.
    pub destination: SocketAddr,
    /// The sender's socket.
    pub socket: TcpStream,
    stop: Arc<AtomicBool>,
    delivered_bytes: Arc<AtomicU64>,
    longest_pause_ms: Arc<AtomicU64>,
    machine: Arc<Machine>,
    sender: JoinHandle<io::Result<u64>>,
    receiver: JoinHandle<Result<u64, String>>,
}

impl Transfer {
    /// Connects with TCP under NewReno and sends until it is finished.
    pub fn start(from: End<'_>, to: End<'_>) -> Self {
        Self::start_with(from, to, libc::IPPROTO_TCP)
    }

    /// Starts a transfer whose sender's kernel never sends faster than this: paced later, the first
    /// milliseconds could fill a queue.
    pub fn start_paced(from: End<'_>, to: End<'_>, bytes_per_second: u32) -> Self {
        let ends = connection(from, to, libc::IPPROTO_TCP);
        pace(&ends.0, bytes_per_second);
        Self::over(ends, from, to)
    }

    /// Starts a transfer over `protocol`: TCP, or Multipath TCP.
    pub fn start_with(from: End<'_>, to: End<'_>, protocol: i32) -> Self {
        Self::over(connection(from, to, protocol), from, to)
    }

    /// Sends over a connection.
    fn over((socket, accepted): (TcpStream, TcpStream), from: End<'_>, to: End<'_>) -> Self {
        let deadline = DEADLINE * patience();
        accepted.set_read_timeout(Some(deadline)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let delivered_bytes = Arc::new(AtomicU64::new(0));
        let longest_pause_ms = Arc::new(AtomicU64::new(0));
        let (stream, stopping) = (socket.try_clone().unwrap(), Arc::clone(&stop));
        let (delivered, pause) = (Arc::clone(&delivered_bytes), Arc::clone(&longest_pause_ms));
        Self {
            source: from.address,
            destination: to.address,
            socket,
            stop,
            delivered_bytes,
            longest_pause_ms,
            machine: Machine::shared(),
            sender: std::thread::spawn(move || send(stream, &stopping)),
            receiver: std::thread::spawn(move || receive(accepted, &delivered, &pause)),
        }
    }

    /// Returns the payload that has arrived so far, all of it checked.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.load(Ordering::Relaxed)
    }

    /// Waits until more payload than this has arrived, however slow the machine is.
    pub fn reach(&self, bytes: u64) {
        let what = format!("{} sends {bytes} bytes", self.source);
        wait_until(&what, || self.delivered_bytes() > bytes);
    }

    /// Limits the sending rate of the sender's kernel.
    pub fn pace(&self, bytes_per_second: u32) {
        pace(&self.socket, bytes_per_second);
    }

    /// Returns the sender's TCP_INFO.
    pub fn info(&self) -> TcpInfo {
        TcpInfo::read(self.socket.as_fd()).unwrap()
    }

    /// Ends the transfer in order: everything that was written arrives. Panics unless it arrives intact and without a
    /// pause that is a second longer than the longest time for which this machine delayed threads. Returns the bytes.
    pub fn finish(self) -> u64 {
        let (source, destination) = (self.source, self.destination);
        let machine = Arc::clone(&self.machine);
        let (sent, pause_ms) = self.end();
        let held_up_ms = machine.held_up().as_millis() as u64;
        assert!(
            pause_ms < 1000 + held_up_ms,
            "{source} to {destination}: {pause_ms} ms, and the machine held threads up for \
             {held_up_ms} ms"
        );
        sent
    }

    /// Tells the sender to stop writing. Call it for every transfer before waiting for one, so that
    /// none delays another.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end as `finish` does, but accepts pauses of any length. Returns the bytes and
    /// the longest pause in milliseconds.
    pub fn end(self) -> (u64, u64) {
        let (source, destination) = (self.source, self.destination);
        self.stop();
        let sent = self.sender.join().unwrap();
        let received = self.receiver.join().unwrap();
        let pause_ms = self.longest_pause_ms.load(Ordering::Relaxed);
        println!("{source} to {destination}: {received:?} bytes, longest pause {pause_ms} ms");
        let sent = sent.unwrap_or_else(|error| panic!("{source} to {destination}: {error}"));
        assert_eq!(received, Ok(sent), "{source} to {destination}");
        (sent, pause_ms)
    }
}

/// Limits the sending rate of a socket's kernel.
pub fn pace(socket: &TcpStream, bytes_per_second: u32) {
    let length = size_of::<u32>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw const bytes_per_second).cast());
    // SAFETY: the pointer is to a live integer of the given length.
    let answer = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            value,
            length,
        )
    };
    assert_eq!(answer, 0, "{}", io::Error::last_os_error());
}

/// Opens a connection. Returns the connecting socket and the accepted one; over TCP both run
/// NewReno.
pub fn connection(from: End<'_>, to: End<'_>, protocol: i32) -> (TcpStream, TcpStream) {
    let listener = TcpListener::from(open(to, protocol));
    let socket = TcpStream::from(open(from, protocol));
    if protocol == libc::IPPROTO_TCP {
        setsockopt(&listener, sockopt::TcpCongestion, &"reno".into()).unwrap();
        setsockopt(&socket, sockopt::TcpCongestion, &"reno".into()).unwrap();
    }
    listen(&listener, Backlog::new(16).unwrap()).unwrap();
    let deadline = DEADLINE * patience();
    socket.set_write_timeout(Some(deadline)).unwrap();
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to.address))
        .unwrap_or_else(|errno| panic!("{} to {}: {errno}", from.address, to.address));
    let (accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer, from.address);
    (socket, accepted)
}

fn open(end: End<'_>, protocol: i32) -> std::os::fd::OwnedFd {
    let domain = if end.address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let fd = raw_socket(end.namespace, domain, libc::SOCK_STREAM, protocol);
    setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
    bind(fd.as_raw_fd(), &SockaddrStorage::from(end.address)).unwrap();
    fd
}

fn send(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let pattern = Pattern::default();
    let mut at_byte = 0;
    while !stop.load(Ordering::Relaxed) {
        at_byte += stream.write(&pattern.chunk(at_byte)[..16_384])? as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    Ok(at_byte)
}

fn receive(
    mut stream: TcpStream,
    delivered: &AtomicU64,
    longest_pause_ms: &AtomicU64,
) -> Result<u64, String> {
    let pattern = Pattern::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at_byte = 0;
    loop {
        let since = Instant::now();
        let length = stream
            .read(&mut buffer)
            .map_err(|error| format!("at {at_byte}: {error}"))?;
        longest_pause_ms.fetch_max(since.elapsed().as_millis() as u64, Ordering::Relaxed);
        if length == 0 {
            return Ok(at_byte);
        }
        if let Some(at) = pattern.first_difference(at_byte, &buffer[..length]) {
            return Err(format!("corrupt at byte {at}"));
        }
        at_byte += length as u64;
        delivered.store(at_byte, Ordering::Relaxed);
    }
}
