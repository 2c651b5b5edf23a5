//! Messages: a guest opens one connection at its flow's start, as in the simulator, and sends a message at once and
//! after each interval, or each when the one before it has arrived. To random receivers it has a connection to each. A
//! transfer is one message, after which the guest closes its side; to several receivers it has one to each, a few at a
//! time. In epochs each transfer has a flow of its own.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uc_experiment::{Application, Guests, Pattern as Receivers, Sizes};
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::clock;
use crate::error::LabError;
use crate::event::Event;
use crate::pattern::Pattern;
use crate::sender;
use crate::transfer_times::TransferTimes;

/// Interval at which a thread that waits for an arrival checks whether it is still wanted: rare, since a
/// case may have hundreds.
const LOOK: Duration = Duration::from_millis(200);

/// The messages of a group's flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Messages {
    /// Sizes of the messages.
    pub sizes: Sizes,
    /// Time between the starts of two messages; `None`: each begins when the one before it has
    /// arrived.
    pub every: Option<Nanos>,
    /// Maximum number of a flow's transfers at once, of which each receiver gets one; `None`: messages,
    /// to the end of the run.
    pub parallel: Option<u32>,
    /// Whether the order of its transfers is random.
    pub is_shuffled: bool,
}

impl Messages {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        let (parallel, is_shuffled) = match group.pattern {
            Some(Receivers::Shuffle { parallel }) => (parallel, true),
            _ => (1, false),
        };
        match &group.application {
            Application::Messages { sizes, every } => Some(Self {
                sizes: sizes.clone(),
                every: *every,
                parallel: None,
                is_shuffled,
            }),
            Application::Transfer { size }
            | Application::Epochs {
                size,
                request: None,
                ..
            } => Some(Self {
                sizes: Sizes::Fixed(*size),
                every: None,
                parallel: Some(parallel),
                is_shuffled,
            }),
            _ => None,
        }
    }

    /// Returns whether the connections end before the run.
    pub fn ends(&self) -> bool {
        self.parallel.is_some()
    }
}

/// One sender of a flow of the file, with the flow's connections, one to each receiver.
#[derive(Debug, Clone)]
pub(crate) struct Messenger {
    pub messages: Messages,
    /// Random numbers that select the messages' sizes.
    pub sizes: Stream,
    /// Random stream of the receivers.
    pub receivers: Stream,
    /// Time from the start of the run to that of the flow.
    pub wait: Duration,
    /// Connections that are still to be used, in this order; senders of one flow share them.
    pub channels: Arc<Mutex<VecDeque<Channel>>>,
    /// Label of the guest, for messages.
    pub guest: String,
    pub pattern: Arc<Pattern>,
    /// Whether the run is over; later errors of the socket are no failures.
    pub stop: Arc<AtomicBool>,
}

/// A connection to one receiver.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Socket of the sender, bound.
    pub socket: TcpStream,
    pub server: SocketAddr,
    pub times: Arc<TransferTimes>,
    pub written_bytes: u64,
}

impl Messenger {
    /// Adds the connection to the next receiver.
    pub fn add(&self, channel: Channel) {
        self.list(|channels| channels.push_back(channel));
    }

    /// Returns the senders of the flow: one, or as many as it has transfers at once.
    pub fn senders(mut self) -> Vec<Messenger> {
        if self.messages.is_shuffled {
            let mut channels: Vec<Channel> = self.list(|channels| channels.drain(..).collect());
            self.receivers.shuffle(&mut channels);
            self.list(|list| list.extend(channels));
        }
        let most = self.list(|channels| channels.len());
        let count = self.messages.parallel.unwrap_or(1) as usize;
        vec![self; count.min(most)]
    }

    /// Connects and sends until the run is over; failures go to `events`.
    pub fn run(mut self, started: Nanos, events: &Sender<Event>) {
        let start = Nanos(started.0 + self.wait.as_nanos() as u64);
        let sent = if self.messages.ends() {
            self.send_transfers(start)
        } else {
            self.send_messages(start)
        };
        if let Err(error) = sent
            && !self.stop.load(Ordering::Relaxed)
        {
            // The run may be over; then nothing receives the event.
            let _ = events.send(Event::Failed(error));
        }
    }

    /// Sends a transfer to each receiver, the next when one has arrived; the first begins at `due`.
    fn send_transfers(&mut self, mut due: Nanos) -> Result<(), LabError> {
        while let Some(mut channel) = self.next_channel() {
            let Some(began) = self.wait_until(due) else {
                return Ok(());
            };
            let bytes = self.draw_bytes();
            channel.times.begin(began, bytes);
            self.connect(&channel)?;
            self.write(&mut channel, bytes)?;
            let shut = channel.socket.shutdown(Shutdown::Write);
            shut.map_err(|source| self.ended(source))?;
            if self.is_last() {
                break;
            }
            let Some(arrived) = self.wait_arrived(&channel) else {
                break;
            };
            due = arrived;
        }
        Ok(())
    }

    /// Sends messages, each to a receiver drawn at random; the first begins at `due`, when its
    /// connection is opened.
    fn send_messages(&mut self, mut due: Nanos) -> Result<(), LabError> {
        let mut channels: Vec<Channel> = self.list(|channels| channels.drain(..).collect());
        let mut at = self.receivers.below(channels.len() as u64) as usize;
        let Some(mut began) = self.wait_until(due) else {
            return Ok(());
        };
        for (_, other) in (0..).zip(&channels).filter(|(number, _)| *number != at) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.connect(other)?;
            began = clock::now();
        }
        for number in 1.. {
            let bytes = self.draw_bytes();
            channels[at].times.begin(began, bytes);
            if number == 1 {
                self.connect(&channels[at])?;
            }
            self.write(&mut channels[at], bytes)?;
            let next = match self.messages.every {
                None => self.wait_arrived(&channels[at]),
                Some(every) => {
                    due += every;
                    self.wait_until(due)
                }
            };
            let Some(next) = next else {
                return Ok(());
            };
            began = next;
            at = self.receivers.below(channels.len() as u64) as usize;
        }
        Ok(())
    }

    fn draw_bytes(&mut self) -> u64 {
        self.messages.sizes.quantile(self.sizes.bits32()).0.into()
    }

    fn list<T>(&self, f: impl FnOnce(&mut VecDeque<Channel>) -> T) -> T {
        // No method panics with the lock held, so a poisoned list is whole.
        f(&mut self.channels.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn next_channel(&self) -> Option<Channel> {
        self.list(VecDeque::pop_front)
    }

    fn is_last(&self) -> bool {
        self.list(|channels| channels.is_empty())
    }

    fn connect(&self, channel: &Channel) -> Result<(), LabError> {
        sender::connect(&channel.socket, channel.server, &self.guest)?;
        // As in the simulator: otherwise the end of a message would wait for the ACK of the data
        // before it.
        let node = self.guest.clone();
        let failed = |source| LabError::Socket {
            node,
            action: "setting TCP_NODELAY",
            source,
        };
        channel.socket.set_nodelay(true).map_err(failed)
    }

    fn write(&self, channel: &mut Channel, bytes: u64) -> Result<(), LabError> {
        let end = channel.written_bytes + bytes;
        while channel.written_bytes < end {
            let chunk = self.pattern.chunk(channel.written_bytes);
            let left = usize::try_from(end - channel.written_bytes).unwrap_or(usize::MAX);
            match channel.socket.write(&chunk[..chunk.len().min(left)]) {
                Ok(written) => channel.written_bytes += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.ended(error)),
            }
        }
        Ok(())
    }

    /// Waits until `due`, and returns the time at which the message begins: `due` if it is over already, as it took
    /// longer to connect or to write; else the time at which the thread woke. `None` if the run is over.
    fn wait_until(&self, due: Nanos) -> Option<Nanos> {
        if clock::now() >= due {
            return (!self.stop.load(Ordering::Relaxed)).then_some(due);
        }
        clock::wait_until(due, &self.stop).then(clock::now)
    }

    /// Waits until all messages so far have arrived, and returns the time at which the next begins. `None` if the run
    /// is over.
    fn wait_arrived(&self, channel: &Channel) -> Option<Nanos> {
        while !self.stop.load(Ordering::Relaxed) {
            if channel.times.wait_arrived(LOOK) {
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
