//! Work at ports that may change: what holding packets and sending duplicate ACKs have in common.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uc_port::Source;
use uc_service::commands::Key;
use uc_service::{PortTask, Ports, Status};

use crate::error::HoldError;

/// Interval at which a worker tries again to work at ports that are refused.
const AGAIN_EVERY: Duration = Duration::from_secs(1);

/// A function of this crate: holding packets, or sending duplicate ACKs.
pub trait Work: Sized {
    /// Settings of the work at a port.
    type Port: PortTask;

    /// Prepares the work, without ports yet. `source` finds the ports' own programs.
    fn open(source: Source) -> Result<Self, HoldError>;

    /// Reads again what may have changed since ports were added last, such as the ports' own programs. Called before
    /// ports are added.
    fn refresh(&mut self) {}

    /// Returns whether the work is done at the port with this index.
    fn has(&self, ifindex: u32) -> bool;

    /// Begins the work at a port.
    ///
    /// # Errors
    /// The reason why the work can't be done there; other ports are not affected.
    fn add(&mut self, port: &Self::Port) -> Result<(), HoldError>;

    /// Changes the settings of a port at which the work is done. Ends the work there if `now` is `None`, or if the new
    /// settings need a port that is added again.
    ///
    /// # Errors
    /// The kernel's refusal; the process cannot go on.
    fn change(&mut self, before: &Self::Port, now: Option<&Self::Port>) -> Result<(), HoldError>;

    /// Does all that is due. Returns the time until the next step; 0: `step` itself waits.
    ///
    /// # Errors
    /// [`HoldError::Behind`]: the work at one port has ended. [`HoldError::NoPorts`]: all interfaces are gone. With
    /// any other error the process cannot go on.
    fn step(&mut self) -> Result<Duration, HoldError>;

    /// Returns the report on these ports, with the refused ones and the reasons, and on a flow if one is named.
    fn done(
        &self,
        ports: &[Self::Port],
        refused: BTreeMap<String, String>,
        flow: Option<Key>,
    ) -> <Self::Port as PortTask>::Done;

    /// Ends the work in order, before the process ends.
    fn finish(&mut self) -> Result<(), HoldError> {
        Ok(())
    }
}

/// Returns the ports at which other processes work, each with the reason why nothing can be done there.
pub type Reserved = fn() -> BTreeMap<String, String>;

/// Work at the ports of a setup. A port at which the work can't be done is refused, and tried again every second.
#[derive(Debug)]
pub struct Worker<W: Work> {
    work: W,
    setup: Ports<W::Port>,
    /// Reason for each port of the setup at which the work can't be done, keyed by interface index.
    refused: BTreeMap<u32, HoldError>,
    tried: Instant,
    /// Time of the next step, such as a packet that is due.
    due: Instant,
    reserved: Reserved,
}

impl<W: Work> Worker<W> {
    /// Creates a worker without ports.
    ///
    /// # Errors
    /// As [`Work::open`].
    pub fn new(source: Source, reserved: Reserved) -> Result<Self, HoldError> {
        let now = Instant::now();
        Ok(Self {
            work: W::open(source)?,
            setup: Ports::default(),
            refused: BTreeMap::new(),
            tried: now,
            due: now,
            reserved,
        })
    }

    /// Applies this setup from now on. Work at ports whose settings stay the same goes on without a break.
    ///
    /// # Errors
    /// The process cannot go on.
    pub fn change(&mut self, setup: Ports<W::Port>) -> Result<(), HoldError> {
        let before = std::mem::replace(&mut self.setup, setup);
        for old in &before.ports {
            if self.work.has(old.ifindex()) {
                let mut ports = self.setup.ports.iter();
                let now = ports.find(|port| port.ifindex() == old.ifindex());
                self.work.change(old, now)?;
                self.tend()?;
            }
        }
        self.add()
    }

    /// Adds the ports of the setup at which the work is not done yet, and notes why it can't be done at some.
    fn add(&mut self) -> Result<(), HoldError> {
        self.tried = Instant::now();
        self.refused.clear();
        let new = self.setup.ports.iter();
        let new = new.filter(|port| !self.work.has(port.ifindex()));
        let new: Vec<W::Port> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.work.refresh();
        let reserved = (self.reserved)();
        for port in new {
            let added = match reserved.get(port.name()) {
                Some(why) => Err(HoldError::Refused(why.clone())),
                None => self.work.add(&port),
            };
            if let Err(error) = added {
                self.refused.insert(port.ifindex(), error);
            }
            self.tend()?;
        }
        Ok(())
    }

    /// Does all that is due, and tries again to work at ports that are refused. Returns the time until the next
    /// step.
    ///
    /// # Errors
    /// The process cannot go on. [`Worker::finish`] then still ends in order.
    pub fn step(&mut self) -> Result<Duration, HoldError> {
        if !self.refused.is_empty() && self.tried.elapsed() >= AGAIN_EVERY {
            self.add()?;
        }
        self.tend()?;
        Ok(self.due.saturating_duration_since(Instant::now()))
    }

    /// Performs the next step if it is due. Also called between the changes of two ports, so that work at
    /// unchanged ports does not wait for them.
    fn tend(&mut self) -> Result<(), HoldError> {
        if Instant::now() < self.due {
            return Ok(());
        }
        match self.work.step() {
            Ok(pause) => self.due = Instant::now() + pause,
            Err(HoldError::NoPorts) => {}
            Err(HoldError::Behind { name, other }) => {
                let port = self.setup.ports.iter().find(|port| port.name() == name);
                let error = HoldError::Behind { name, other };
                self.refused
                    .extend(port.map(|port| (port.ifindex(), error)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes and returns the reason why a port of the setup is refused; `None` if no port is.
    pub fn take_refusal(&mut self) -> Option<HoldError> {
        self.refused.pop_first().map(|(_, error)| error)
    }

    /// Returns the kind of work that this worker does.
    pub fn work(&self) -> &W {
        &self.work
    }

    /// Returns the status: the ports of the setup, and the report on them and on a flow if one is named.
    pub fn status(&self, flow: Option<Key>) -> Status<Ports<W::Port>, <W::Port as PortTask>::Done> {
        let ports = self.setup.ports.iter();
        let refused = ports.filter_map(|port| {
            let error = self.refused.get(&port.ifindex())?;
            Some((port.name().to_owned(), error.to_string()))
        });
        let done = self.work.done(&self.setup.ports, refused.collect(), flow);
        Status::own(self.setup.clone(), done)
    }

    /// Ends the work in order ([`Work::finish`]).
    pub fn finish(&mut self) -> Result<(), HoldError> {
        self.work.finish()
    }
}
