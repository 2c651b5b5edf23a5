//! `uc watch` for an agent: the ports and their settings come as lines of JSON on standard input, and may change.
//!
//! The keeper, the process that supervises the one with the handshakes (the holder), can have no second thread, because
//! it forks. So it reads lines and answers status requests between two checks of its holder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use anyhow::{Context, Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use uc_port::AttachVia;
use uc_service::Place;
use uc_watch::{
    Done, Duties, Next, PortSetup, Programs, Settings, Setup, Status, WatchError, Watched,
};

use crate::pace::Pace;
use crate::tasks::NO_TASK;

/// Watches the ports that the newest line of standard input names.
pub struct Tasks<'a> {
    programs: &'a Programs,
    place: Place,
    lines: Lines,
    setup: Setup,
    /// The watched ports, keyed by interface index.
    watched: BTreeMap<u32, Watched>,
    /// Ports of the setup that can't be watched, each with the reason.
    refused: BTreeMap<String, String>,
    /// Why standard input can't be used any more: a read failed, or a line is no setup. `None` at the end of the input.
    failed: Option<Error>,
}

impl<'a> Tasks<'a> {
    /// Claims the network namespace for this `uc watch`; the result watches no port yet.
    ///
    /// # Errors
    /// `uc watch` of an agent already works in this network namespace, or standard input can't be made non-blocking.
    pub fn start(programs: &'a Programs) -> Result<Self> {
        Ok(Self {
            programs,
            place: Status::take_place()?,
            lines: Lines::of_stdin()?,
            setup: Setup::default(),
            watched: BTreeMap::new(),
            refused: BTreeMap::new(),
            failed: None,
        })
    }

    /// Returns true if standard input has ended in order.
    ///
    /// # Errors
    /// Standard input could not be read, or a line was no setup.
    pub fn ended(self) -> Result<bool> {
        self.failed.map_or(Ok(true), Err)
    }

    /// Watches the ports of this setup from now on. Returns whether ports were added or removed.
    fn change(&mut self, setup: Setup) -> bool {
        let before = std::mem::replace(&mut self.setup, setup);
        let ports = self.setup.ports.clone();
        let is_less = self.keep(|ifindex, _| ports.iter().any(|port| port.ifindex == ifindex));
        let is_changed = |port: &&PortSetup| !before.ports.contains(port);
        for port in ports.iter().filter(is_changed) {
            if self.watched.contains_key(&port.ifindex)
                && let Err(error) = start(port, |start| self.programs.set(port.ifindex, start))
            {
                errln!("uc: {}: flows start as before: {error}", port.name);
            }
        }
        self.add() || is_less
    }

    /// Stops watching the ports for which `is_kept` returns false. Returns whether there were any.
    fn keep(&mut self, is_kept: impl Fn(u32, &Watched) -> bool) -> bool {
        let given_back = self
            .watched
            .extract_if(.., |ifindex, port| !is_kept(*ifindex, port));
        let given_back = given_back.map(|(ifindex, _)| self.programs.forget(ifindex));
        given_back.count() > 0
    }

    /// Begins to watch the ports of the setup that are not watched yet. Returns whether it began at any.
    fn add(&mut self) -> bool {
        let before = self.watched.len();
        self.refused.clear();
        for port in &self.setup.ports {
            if self.watched.contains_key(&port.ifindex) {
                continue;
            }
            let watch =
                |start: &Settings| self.programs.watch(port.ifindex, start, AttachVia::Auto);
            match start(port, watch) {
                Ok(watched) => drop(self.watched.insert(port.ifindex, watched)),
                Err(error) => drop(self.refused.insert(port.name.clone(), error.to_string())),
            }
        }
        self.watched.len() > before
    }
}

/// Calls `done` with a port's start settings, and returns its result. Settings without a pacing rate get the rate of
/// the port's uplink.
fn start<T>(port: &PortSetup, done: impl FnOnce(&Settings) -> Result<T, WatchError>) -> Result<T> {
    let mut start = port.start;
    let pace = Pace::of(&start.policy);
    let uplink = pace.set(&mut start.policy, port.ifindex)?;
    let done = done(&start)?;
    pace.warn(&port.name, uplink.as_ref(), &start.policy);
    Ok(done)
}

/// Returns [`Next::Renew`] if watched ports were added or removed, otherwise [`Next::GoOn`].
fn renew(has_changed: bool) -> Next {
    match has_changed {
        true => Next::Renew,
        false => Next::GoOn,
    }
}

impl Duties for Tasks<'_> {
    fn look(&mut self) -> Next {
        let status = |(): ()| {
            let refused = self.refused.clone();
            Status::own(self.setup.clone(), Done { refused })
        };
        Status::answer_waiting(&self.place, status);
        match self.lines.next() {
            Ok(None) => Next::GoOn,
            Ok(Some(setup)) => renew(self.change(setup)),
            Err(failed) => {
                self.failed = failed;
                Next::End
            }
        }
    }

    /// Stops watching ports whose interfaces are gone, and tries again to watch those that were refused.
    fn each_second(&mut self) -> Next {
        let is_less = self.keep(|_, port| !port.is_gone());
        renew(self.add() || is_less)
    }
}

/// Lines of standard input, which are read without waiting.
struct Lines {
    input: File,
    read: Vec<u8>,
}

impl Lines {
    fn of_stdin() -> Result<Self> {
        let input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            input,
            read: Vec::new(),
        })
    }

    /// Returns the setup in the next whole line of standard input; `None` if no whole line has arrived.
    ///
    /// # Errors
    /// `None` at the end of the input; otherwise why the input can't be read or the line is no setup.
    fn next(&mut self) -> Result<Option<Setup>, Option<Error>> {
        let mut piece = [0; 4096];
        let is_over = loop {
            match self.input.read(&mut piece) {
                Ok(0) => break true,
                Ok(count) => self.read.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Some(
                        Error::new(error).context("could not read a task from standard input"),
                    ));
                }
            }
        };
        match self.read.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let setup = serde_json::from_slice(&line).context(NO_TASK)?;
                Ok(Some(setup))
            }
            None if is_over => Err(None),
            None => Ok(None),
        }
    }
}
