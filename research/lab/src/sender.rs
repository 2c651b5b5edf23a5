//! One bulk sender: connects, then writes as much as TCP takes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::pattern::Pattern;
use crate::socket;
use crate::tcp_info::TcpInfo;
use crate::traffic::Event;

/// How long a flow may take to connect. A full queue drops SYNs, and the kernel sends them again
/// after 1, 3, 7 and 15 s (RFC 6298 §5.5), or after each of the first seconds (Linux since 6.5,
/// `tcp_syn_linear_timeouts`): five tries or more.
const CONNECT_DEADLINE: Duration = Duration::from_secs(25);
/// How often a waiting sender looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// What one sender's thread needs.
#[derive(Debug)]
pub struct Bulk {
    /// How long it waits before it connects.
    pub wait: Duration,
    /// When it ends, counted like that; with the run where absent.
    pub last: Option<Duration>,
    /// Its socket, bound.
    pub socket: TcpStream,
    /// It sends so many bytes each time that the server asks, with a byte; what TCP takes where
    /// absent.
    pub block_bytes: Option<u32>,
    /// Where to.
    pub server: SocketAddr,
    /// Whose it is, for messages.
    pub guest: String,
    /// What it sends.
    pub pattern: Arc<Pattern>,
    /// Set when the run is over: whatever its socket says then is no failure.
    pub stop: Arc<AtomicBool>,
}

impl Bulk {
    /// Connects and sends until the run is over; failures go to `events`.
    pub fn run(mut self, events: &Sender<Event>) {
        let begun = Instant::now();
        let ended = self.connect().and_then(|()| {
            let info = TcpInfo::read(self.socket.as_fd());
            let retransmits = info.map_or(0, |info| info.total_retrans);
            // The run may be over: nobody listens then.
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
        let start = Instant::now();
        while start.elapsed() < self.wait && !self.stopping() {
            thread::sleep((self.wait - start.elapsed().min(self.wait)).min(LOOK));
        }
        if self.stopping() {
            return Ok(());
        }
        socket::connect(&self.socket, self.server, CONNECT_DEADLINE).map_err(|error| {
            LabError::Connect {
                guest: self.guest.clone(),
                server: self.server,
                seconds: CONNECT_DEADLINE.as_secs(),
                detail: error.to_string(),
            }
        })
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
                // A FIN after what is written, and nothing more; the socket is the run's to read.
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

    /// Waits for the server's questions, and says how many bytes they are answered with.
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
