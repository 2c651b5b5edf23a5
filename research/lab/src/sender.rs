//! One bulk sender: connects, then writes as much as TCP takes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::event::Event;
use crate::pattern::Pattern;
use crate::socket;
use crate::tcp_info::TcpInfo;

/// Time limit for a flow to connect. A full queue drops SYNs, and the kernel retransmits them after
/// 1, 3, 7 and 15 s (RFC 6298 §5.5), or after each of the first seconds (Linux since 6.5,
/// `tcp_syn_linear_timeouts`): at least five attempts.
const CONNECT_DEADLINE: Duration = Duration::from_secs(25);

/// Connects the socket of a guest to the server.
pub(crate) fn connect(socket: &TcpStream, server: SocketAddr, guest: &str) -> Result<(), LabError> {
    socket::connect(socket, server, CONNECT_DEADLINE).map_err(|error| {
        LabError::Refused(format!(
            "{guest} did not connect to {server} within {seconds} s ({error}); the network of this \
             case drops every SYN, or the port's program does",
            seconds = CONNECT_DEADLINE.as_secs()
        ))
    })
}

/// The input of one sender's thread.
#[derive(Debug)]
pub struct Bulk {
    /// Delay before the sender connects.
    pub wait: Duration,
    /// Time after which the sender closes its side, from the same start as `wait`; `None`: it sends to the end of the
    /// run.
    pub last: Option<Duration>,
    /// Socket of the sender, bound.
    pub socket: TcpStream,
    /// Number of bytes that the sender sends for each request of the server, which is one byte; `None`: as much as TCP
    /// takes.
    pub block_bytes: Option<u32>,
    /// Address of the server.
    pub server: SocketAddr,
    /// Label of the sender's guest, for messages.
    pub guest: String,
    /// Payload to send.
    pub pattern: Arc<Pattern>,
    /// Whether the run is over; later errors of its socket are no failures.
    pub stop: Arc<AtomicBool>,
}

impl Bulk {
    /// Connects and sends until the run is over; failures go to `events`.
    pub fn run(mut self, events: &Sender<Event>) {
        let begun = Instant::now();
        let ended = self.connect().and_then(|()| {
            let info = TcpInfo::read(self.socket.as_fd());
            let retransmits = info.map_or(0, |info| info.total_retrans);
            // The run may be over; then nothing receives the event.
            let _ = events.send(Event::Connected { retransmits });
            self.write(begun)
        });
        if let Err(error) = ended
            && !self.stopping()
        {
            let _ = events.send(Event::Failed(error));
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Result<(), LabError> {
        let start = Nanos(clock::now().0 + self.wait.as_nanos() as u64);
        if !clock::wait_until(start, &self.stop) {
            return Ok(());
        }
        connect(&self.socket, self.server, &self.guest)
    }

    fn write(&mut self, begun: Instant) -> Result<(), LabError> {
        let mut at_byte = 0;
        let mut asked_to = if self.block_bytes.is_some() {
            0
        } else {
            u64::MAX
        };
        while !self.stopping() {
            if at_byte == asked_to {
                asked_to += self.wait_asked()?;
            }
            if self.last.is_some_and(|last| begun.elapsed() >= last) {
                // Sends a FIN after what is written; the run still reads the socket's state.
                return self
                    .socket
                    .shutdown(Shutdown::Write)
                    .map_err(|source| LabError::Ended {
                        guest: self.guest.clone(),
                        source,
                    });
            }
            let chunk = self.pattern.chunk(at_byte);
            let left = usize::try_from(asked_to - at_byte).unwrap_or(usize::MAX);
            match self.socket.write(&chunk[..chunk.len().min(left)]) {
                Ok(written) => at_byte += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(LabError::Ended {
                        guest: self.guest.clone(),
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Waits for requests of the server, and returns the number of bytes that answer those received.
    fn wait_asked(&mut self) -> Result<u64, LabError> {
        let mut questions = [0; 16];
        loop {
            let ended = match self.socket.read(&mut questions) {
                Ok(0) => io::ErrorKind::UnexpectedEof.into(),
                Ok(count) => {
                    return Ok(count as u64 * u64::from(self.block_bytes.unwrap_or(0)));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => source,
            };
            return Err(LabError::Ended {
                guest: self.guest.clone(),
                source: ended,
            });
        }
    }
}
