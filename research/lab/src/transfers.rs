//! The transfers of a flow with arrivals, and their measurement.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uc_experiment::{Completion, FlowSample};
use uc_net::Nanos;

use crate::arrivals::Arrivals;
use crate::clock;
use crate::congestion::CongestionControls;
use crate::error::LabError;
use crate::load::{Running, Sighting};
use crate::plan::{FLOWS_MAX, Guest};
use crate::sampler;
use crate::tcp_info::TcpInfo;

/// A flow with arrivals.
#[derive(Debug)]
pub struct ArrivingFlow {
    /// Name of the flow, and first connection.
    pub running: Running,
    /// Transfers, shared with the flow's threads.
    pub transfers: Arc<Transfers>,
}

impl ArrivingFlow {
    /// Draws the transfers of a flow of `guest` that starts at `start`.
    ///
    /// # Errors
    /// [`LabError::Refused`] if the guest has too few ports for them.
    pub(crate) fn draw(
        running: Running,
        guest: &Guest,
        arrivals: &Arrivals,
        seed: u64,
        start: Nanos,
    ) -> Result<Self, LabError> {
        let name = format!("{}[{}]", running.group, running.index);
        let transfers = Transfers::draw(arrivals, seed, &name, start);
        let count = transfers.count();
        if count * guest.flows as usize > FLOWS_MAX as usize {
            return Err(LabError::Refused(format!(
                "{name}: {count} transfers, and {} such flows in its guest, whose connections have {FLOWS_MAX} \
                 ports: raise `count` instead of the rate, or shorten the run",
                guest.flows
            )));
        }
        Ok(Self {
            running,
            transfers: Arc::new(transfers),
        })
    }
}

/// The transfers of one flow: its sender notes when each begins, the receiver's thread when each has
/// arrived.
#[derive(Debug)]
pub struct Transfers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    transfers: Vec<Transfer>,
    begun: usize,
    delivered_bytes: u64,
    open: Vec<Arc<TcpStream>>,
    closed: Sums,
}

#[derive(Debug)]
struct Transfer {
    /// Time after the start of the run's clock.
    at: Nanos,
    bytes: u64,
    arrived: Option<Nanos>,
}

/// Sums over connections.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    sent_bytes: u64,
    retransmitted_bytes: u64,
    retransmits: u32,
    ecn: bool,
}

impl Sums {
    fn add(&mut self, info: &TcpInfo) {
        self.sent_bytes += info.bytes_sent;
        self.retransmitted_bytes += info.bytes_retrans;
        self.retransmits = self.retransmits.saturating_add(info.total_retrans);
        self.ecn |= info.negotiated_ecn();
    }
}

impl Transfers {
    /// Draws those of the flow `name`, which starts at `start`, up to the end of the run, as the simulator
    /// does.
    pub(crate) fn draw(arrivals: &Arrivals, seed: u64, name: &str, start: Nanos) -> Self {
        let mut random = uc_experiment::Arrivals::new(seed, name);
        let mut transfers = Vec::new();
        let mut at = start + random.gap(arrivals.mean_gap);
        while at < arrivals.end {
            transfers.push(Transfer {
                at,
                bytes: random.size(&arrivals.sizes).0.into(),
                arrived: None,
            });
            at += random.gap(arrivals.mean_gap);
        }
        Self {
            state: Mutex::new(State {
                transfers,
                ..State::default()
            }),
        }
    }

    /// Returns the number of transfers.
    pub fn count(&self) -> usize {
        self.state().transfers.len()
    }

    /// Returns the transfers that have begun; times count from `started`.
    pub fn completions(&self, started: Nanos) -> Vec<Completion> {
        let state = self.state();
        let completion = |transfer: &Transfer| Completion {
            started_ns: transfer.at.0,
            finished_ns: transfer.arrived.map(|at| at.since(started).0),
            bytes: transfer.bytes,
            ideal_ns: None,
        };
        state.transfers[..state.begun]
            .iter()
            .map(completion)
            .collect()
    }

    /// Samples the flow: counters are the sums over its connections, windows and times the youngest's.
    ///
    /// # Errors
    /// What the kernel says of a socket.
    pub fn sample(&self, congestion: &CongestionControls) -> io::Result<Sighting> {
        let state = self.state();
        let (mut sums, mut youngest) = (state.closed, None);
        for socket in &state.open {
            let info = TcpInfo::read(socket.as_fd())?;
            sums.add(&info);
            youngest = Some((socket, info));
        }
        let youngest = match youngest {
            Some((socket, info)) => {
                sampler::of_sender(&info, congestion.dctcp_state(socket.as_fd())?)
            }
            None => FlowSample::default(),
        };
        Ok(Sighting {
            at: clock::now(),
            sample: FlowSample {
                delivered_bytes: state.delivered_bytes,
                bytes_sent: sums.sent_bytes,
                bytes_retransmitted: sums.retransmitted_bytes,
                total_retransmits: sums.retransmits,
                ..youngest
            },
            negotiated_ecn: sums.ecn,
        })
    }

    /// Counts payload of transfer number `number`, which has `whole` bytes so far. Returns false if they
    /// are more than it has.
    pub(crate) fn delivered(&self, number: usize, more: u64, whole: u64) -> bool {
        // before the lock, which a sample holds while it asks the kernel
        let at = clock::now();
        let mut state = self.state();
        state.delivered_bytes += more;
        let Some(transfer) = state.transfers.get_mut(number) else {
            return false;
        };
        if whole == transfer.bytes {
            transfer.arrived = Some(at);
        }
        whole <= transfer.bytes
    }

    /// Returns the number and the payload of the next transfer if it is due, and else when it is.
    pub(crate) fn next(&self, now: Nanos) -> Result<(usize, u64), Nanos> {
        let mut state = self.state();
        let number = state.begun;
        match state.transfers.get(number) {
            Some(next) if next.at <= now => {
                let bytes = next.bytes;
                state.begun += 1;
                Ok((number, bytes))
            }
            Some(next) => Err(next.at),
            None => Err(Nanos::MAX),
        }
    }

    /// Counts a connection among the open ones.
    pub(crate) fn opened(&self, socket: &Arc<TcpStream>) {
        self.state().open.push(Arc::clone(socket));
    }

    /// Adds a connection's counters to the sums, and forgets it.
    pub(crate) fn closed(&self, socket: &Arc<TcpStream>) -> io::Result<()> {
        let info = TcpInfo::read(socket.as_fd())?;
        let mut state = self.state();
        state.closed.add(&info);
        state.open.retain(|open| !Arc::ptr_eq(open, socket));
        Ok(())
    }

    /// Locks the state. No method panics with the lock held, so a poisoned state is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
