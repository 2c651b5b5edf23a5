//! `uc watch` for an agent: the ports and their settings come as lines of JSON on standard input, and may change.
//!
//! The keeper may have no second thread, since it forks. So it looks for lines and for questions between two looks
//! at its holder.

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

/// Watches the ports of the newest line of standard input.
pub struct Tasks<'a> {
    programs: &'a Programs,
    place: Place,
    lines: Lines,
    setup: Setup,
    /// The watched ports, by index.
    watched: BTreeMap<u32, Watched>,
    /// Ports of the setup that can't be watched, each with the reason.
    refused: BTreeMap<String, String>,
    /// Error of a line that is no setup.
    failed: Option<Error>,
}

impl<'a> Tasks<'a> {
    /// Takes the network namespace's place; no port is watched yet.
    ///
    /// # Errors
    /// If another process has the place, or standard input can't be read without waiting.
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

    /// Returns true, once the last line was read.
    ///
    /// # Errors
    /// If a line was no setup.
    pub fn ended(self) -> Result<bool> {
        self.failed.map_or(Ok(true), Err)
    }

    /// Watches the ports of this setup from now on. Returns whether ports were added or given back.
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

    /// Gives back the ports that are not kept. Returns whether there are some.
    fn keep(&mut self, is_kept: impl Fn(u32, &Watched) -> bool) -> bool {
        let given_back = self
            .watched
            .extract_if(.., |ifindex, port| !is_kept(*ifindex, port));
        let given_back = given_back.map(|(ifindex, _)| self.programs.forget(ifindex));
        given_back.count() > 0
    }

    /// Watches the ports of the setup that are not watched yet. Returns whether some are now.
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

/// Calls `done` with the settings of a port's starts; they have the rate of its uplink if none is given.
fn start<T>(port: &PortSetup, done: impl FnOnce(&Settings) -> Result<T, WatchError>) -> Result<T> {
    let mut start = port.start;
    let pace = Pace::of(&start.policy);
    let uplink = pace.set(&mut start.policy, port.ifindex)?;
    let done = done(&start)?;
    pace.warn(&port.name, uplink.as_ref(), &start.policy);
    Ok(done)
}

/// Returns [`Next::Renew`] if ports came or went.
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

    /// Gives back ports that are gone, and tries again to watch those that are refused.
    fn each_second(&mut self) -> Next {
        let is_less = self.keep(|_, port| !port.is_gone());
        renew(self.add() || is_less)
    }
}

/// The lines of standard input, read without waiting.
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

    /// Returns the setup of the next line, if one has come whole.
    ///
    /// # Errors
    /// `None` at the end of the input; what is no setup.
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
                        Error::new(error).context("standard input can't be read"),
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
