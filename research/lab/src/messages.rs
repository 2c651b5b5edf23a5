//! Messages: a guest opens one connection at its flow's start, as in the simulator, and sends a
//! message at once and after each interval, or each when the one before it has arrived. A transfer
//! is one message, after which the guest closes its side; in epochs each has a flow of its own.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use uc_experiment::{Application, Guests, Sizes};
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::clock;
use crate::error::LabError;
use crate::event::Event;
use crate::pattern::Pattern;
use crate::sender;
use crate::transfer_times::TransferTimes;

/// The messages of a group's flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Messages {
    /// Sizes of the messages.
    pub sizes: Sizes,
    /// Time between the starts of two messages; `None`: each begins when the one before it has
    /// arrived.
    pub every: Option<Nanos>,
    /// Number of messages after which the guest closes its side; `None`: it sends to the end of the
    /// run.
    pub count: Option<u32>,
}

impl Messages {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        match &group.application {
            Application::Messages { sizes, every } => Some(Self {
                sizes: sizes.clone(),
                every: *every,
                count: None,
            }),
            Application::Transfer { size }
            | Application::Epochs {
                size,
                request: None,
                ..
            } => Some(Self {
                sizes: Sizes::Fixed(*size),
                every: None,
                count: Some(1),
            }),
            _ => None,
        }
    }

    /// Returns whether the connection ends before the run.
    pub fn ends(&self) -> bool {
        self.count.is_some()
    }
}

/// The input of one sender's thread.
#[derive(Debug)]
pub(crate) struct Messenger {
    pub messages: Messages,
    /// Random stream of the sizes.
    pub sizes: Stream,
    /// Time from the start of the run to that of the flow.
    pub wait: Duration,
    /// Socket of the sender, bound.
    pub socket: TcpStream,
    pub server: SocketAddr,
    /// Label of the guest, for messages.
    pub guest: String,
    pub pattern: Arc<Pattern>,
    pub times: Arc<TransferTimes>,
    /// Whether the run is over; later errors of the socket are no failures.
    pub stop: Arc<AtomicBool>,
}

impl Messenger {
    /// Connects and sends until the run is over; failures go to `events`.
    pub fn run(mut self, started: Nanos, events: &Sender<Event>) {
        let start = Nanos(started.0 + self.wait.as_nanos() as u64);
        if let Err(error) = self.send(start)
            && !self.stop.load(Ordering::Relaxed)
        {
            // The run may be over; then nothing receives the event.
            let _ = events.send(Event::Failed(error));
        }
    }

    /// Sends messages; the first begins at `due`, when the connection is opened.
    fn send(&mut self, mut due: Nanos) -> Result<(), LabError> {
        let Some(mut began) = self.wait_until(due) else {
            return Ok(());
        };
        let mut at_byte = 0;
        for number in 1.. {
            let bytes = u64::from(self.messages.sizes.quantile(self.sizes.bits32()).0);
            self.times.begin(began, bytes);
            if number == 1 {
                self.connect()?;
            }
            self.write(at_byte, bytes)
                .map_err(|source| self.ended(source))?;
            at_byte += bytes;
            if self.messages.count == Some(number) {
                let shut = self.socket.shutdown(Shutdown::Write);
                return shut.map_err(|source| self.ended(source));
            }
            let next = match self.messages.every {
                None => self.wait_arrived(),
                Some(every) => {
                    due += every;
                    self.wait_until(due)
                }
            };
            let Some(next) = next else {
                return Ok(());
            };
            began = next;
        }
        Ok(())
    }

    fn connect(&self) -> Result<(), LabError> {
        sender::connect(&self.socket, self.server, &self.guest)?;
        // As in the simulator: otherwise the end of a message would wait for the ACK of the data
        // before it.
        let node = self.guest.clone();
        let failed = |source| LabError::Socket {
            node,
            action: "setting TCP_NODELAY",
            source,
        };
        self.socket.set_nodelay(true).map_err(failed)
    }

    fn write(&mut self, mut at_byte: u64, bytes: u64) -> io::Result<()> {
        let end = at_byte + bytes;
        while at_byte < end {
            let chunk = self.pattern.chunk(at_byte);
            let left = usize::try_from(end - at_byte).unwrap_or(usize::MAX);
            match self.socket.write(&chunk[..chunk.len().min(left)]) {
                Ok(written) => at_byte += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until `due`, and returns when the message begins: at `due` where the connection took
    /// longer to open or to write to, and else when the thread woke. `None` if the run is over.
    fn wait_until(&self, due: Nanos) -> Option<Nanos> {
        if clock::now() >= due {
            return (!self.stop.load(Ordering::Relaxed)).then_some(due);
        }
        clock::wait_until(due, &self.stop).then(clock::now)
    }

    /// Waits until the last message has arrived, and returns when the next begins. `None` if the
    /// run is over.
    fn wait_arrived(&self) -> Option<Nanos> {
        while !self.stop.load(Ordering::Relaxed) {
            if self.times.wait_arrived(clock::LOOK) {
                return Some(clock::now());
            }
        }
        None
    }

    fn ended(&self, source: io::Error) -> LabError {
        LabError::Ended {
            guest: self.guest.clone(),
            source,
        }
    }
}
