//! The agent's process: it holds packets of ports as its newest setup says, and answers those who ask for its
//! status.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use uc_port::Source;
use uc_service::Served;

use crate::error::HoldError;
use crate::holder::Holder;
use crate::setup::{PortSetup, Setup};
use crate::status::{Done, Key, Status};

/// Interval at which the process tries again to hold packets of ports that are refused.
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// Counters of the process, not of a port.
const OF_PROCESS: [&str; 3] = ["passed", "syns_passed", "stalls"];

/// Asks the process for its status, and what is held of a flow. The thread that asks waits for the answer.
type Question = (Option<Key>, Sender<Status>);

/// A holder whose ports may change, and that others can ask for its status. Dropping it detaches its programs.
#[derive(Debug)]
pub struct Running {
    holder: Holder,
    setup: Setup,
    /// Ports of the setup whose packets are not held, by index.
    refused: BTreeMap<u32, HoldError>,
    tried: Instant,
    reserved: fn() -> BTreeMap<String, String>,
    // Dropped before the thread that asks: it ends, since nobody would answer.
    questions: Receiver<Question>,
    _status: Served,
}

impl Running {
    /// Takes the network namespace's place, and begins. Ports whose packets can't be held are refused, and do
    /// not affect others. `reserved` returns the ports where other processes work, each with the reason why
    /// nothing can be held there.
    ///
    /// # Errors
    /// [`HoldError::Service`]: another process has the place; or the kernel's refusal.
    pub fn start(
        setup: Setup,
        reserved: fn() -> BTreeMap<String, String>,
    ) -> Result<Self, HoldError> {
        let place = Status::take_place()?;
        let holder = Holder::new(Source::Pins)?;
        let (asks, questions) = mpsc::channel::<Question>();
        let status = Status::serve(place, move |flow| {
            let (reply, answer) = mpsc::channel();
            let asked = asks.send((flow, reply));
            // It has ended meanwhile.
            let answer = asked.ok().and_then(|()| answer.recv().ok());
            answer.unwrap_or_default()
        })?;
        let mut running = Self {
            holder,
            setup: Setup::default(),
            refused: BTreeMap::new(),
            tried: Instant::now(),
            reserved,
            questions,
            _status: status,
        };
        running.holder.beat()?;
        running.change(setup)?;
        Ok(running)
    }

    /// Holds packets as this setup says, from now on. At ports that stay as they were nothing changes. At others
    /// what is held is released, and connections that begin from now on are held as the setup says.
    ///
    /// # Errors
    /// The kernel's refusal to hand over what is held.
    pub fn change(&mut self, setup: Setup) -> Result<(), HoldError> {
        let stays = |old: &PortSetup| setup.ports.iter().any(|new| new.holds_as(old));
        let others = self.setup.ports.iter().filter(|old| !stays(old));
        let others: Vec<u32> = others.map(|old| old.ifindex).collect();
        for ifindex in others {
            self.holder.remove(ifindex)?;
            self.tend()?;
        }
        self.setup = setup;
        self.open()
    }

    /// Takes the ports of the setup that are not held yet, and notes why some can't be.
    fn open(&mut self) -> Result<(), HoldError> {
        self.tried = Instant::now();
        self.refused.clear();
        let closed = |port: &&PortSetup| self.holder.counts_at(port.ifindex).is_none();
        let closed: Vec<PortSetup> = self.setup.ports.iter().filter(closed).cloned().collect();
        if closed.is_empty() {
            return Ok(());
        }
        let reserved = (self.reserved)();
        for port in closed {
            let taken = match reserved.get(&port.name) {
                Some(why) => Err(HoldError::Reserved { why: why.clone() }),
                None => self.holder.add(&port.name, port.settings()),
            };
            if let Err(error) = taken {
                self.refused.insert(port.ifindex, error);
            }
            self.tend()?;
        }
        Ok(())
    }

    /// Waits for packets, at most until the next heartbeat, and does all that is due.
    ///
    /// # Errors
    /// The process cannot go on. [`Running::finish`] then still releases what is held.
    pub fn step(&mut self) -> Result<(), HoldError> {
        while let Ok((flow, reply)) = self.questions.try_recv() {
            let _gone = reply.send(self.status(flow));
        }
        if !self.refused.is_empty() && self.tried.elapsed() >= AGAIN_EVERY {
            self.open()?;
        }
        self.tend()
    }

    /// Does what is due at all ports, also between two changes, since the heartbeat must not become old.
    fn tend(&mut self) -> Result<(), HoldError> {
        match self.holder.step() {
            Err(HoldError::NoPorts) => Ok(()),
            Err(HoldError::Behind { name, other }) => {
                let port = self.setup.ports.iter().find(|port| port.name == name);
                let error = HoldError::Behind { name, other };
                self.refused.extend(port.map(|port| (port.ifindex, error)));
                Ok(())
            }
            done => done,
        }
    }

    /// Returns what is done, and what is held of a flow.
    fn status(&self, flow: Option<Key>) -> Status {
        let port = |ifindex| self.setup.ports.iter().find(|port| port.ifindex == ifindex);
        let refused = self.refused.iter();
        let counts = self.setup.ports.iter().filter_map(|port| {
            let counts = self.holder.counts_at(port.ifindex)?;
            let of_port = counts
                .named()
                .filter(|(name, _)| !OF_PROCESS.contains(name));
            let of_port = of_port.map(|(name, count)| (name.to_owned(), count));
            Some((port.name.clone(), of_port.collect()))
        });
        // A counter that can't be read is shown as 0.
        let all = self.holder.counts().unwrap_or_default();
        let done = Done {
            refused: refused
                .filter_map(|(ifindex, error)| {
                    Some((port(*ifindex)?.name.clone(), error.to_string()))
                })
                .collect(),
            counts: counts.collect(),
            passed: all.passed,
            stalls: all.stalls,
            flow: flow.and_then(|flow| self.holder.held(flow)),
        };
        Status::own(self.setup.clone(), done)
    }

    /// Makes packets pass from now on, sends all waiting ACKs in order, and detaches the programs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn finish(self) -> Result<(), HoldError> {
        self.holder.finish().map(drop)
    }
}
