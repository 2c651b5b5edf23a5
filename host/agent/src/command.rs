//! A command that does a part of the agent's work for all ports together: `uc split`, `uc dupack`. The agent
//! runs one process of it. The process reads its task from its standard input, again at each change, and
//! answers by the place that it has in the network namespace (`uc-single`). So a change restarts nothing.
//!
//! The process ends when it has nothing to do any more. One that ends by itself is started again, after a
//! pause; one that answers nothing for half a minute is killed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use serde::Serialize;
use uc_client::state::CommandState;

use crate::process::Process;

/// How often a process is asked for its numbers.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is asked whether it does already what it was told.
const LOOK_SOON: Duration = Duration::from_millis(100);
/// For how long after it was told.
const SOON: Duration = Duration::from_secs(5);
/// A process that answers nothing for so long is killed.
const SILENT_MOST: Duration = Duration::from_secs(30);

/// One of these commands.
pub trait Command {
    /// The command, for messages.
    const NAME: &'static str;
    /// Arguments with which the agent starts it.
    const ARGUMENTS: &'static [&'static str];
    /// What it is to do; the default is nothing.
    type Task: Clone + Debug + Default + PartialEq + Serialize;
    /// What it answers.
    type Status: Clone + Debug;

    /// Asks the process that has the command's place; `None` if none answers.
    fn ask() -> Option<Self::Status>;

    /// Returns the number of the process that answered.
    fn pid(status: &Self::Status) -> u32;

    /// Returns what that process does.
    fn task(status: &Self::Status) -> &Self::Task;

    /// Returns whether nothing is left of what it did, so that it may end.
    fn is_idle(status: &Self::Status) -> bool;
}

/// The process of a command, whether it runs or not.
#[derive(Debug)]
pub struct Running<C: Command> {
    process: Process,
    stdin: Option<ChildStdin>,
    /// What the process was told last, or is to be told when it starts.
    told: C::Task,
    told_at: Instant,
    /// The answer of the process, and when it was heard or else awaited first.
    said: Option<C::Status>,
    heard: Instant,
    /// The process of somebody else that has the place.
    taken: Option<String>,
}

impl<C: Command> Running<C> {
    /// Creates the process of a command, which has not started.
    pub fn new() -> Self {
        Self {
            process: Process::new(C::NAME),
            stdin: None,
            told: C::Task::default(),
            told_at: Instant::now(),
            said: None,
            heard: Instant::now(),
            taken: None,
        }
    }

    /// Returns what the process is to do.
    pub fn told(&self) -> &C::Task {
        &self.told
    }

    fn is_wanted(&self) -> bool {
        self.told != C::Task::default()
    }

    /// Returns the longest time between two calls of [`Running::look_after`].
    pub fn interval(&self) -> Duration {
        match self.process.pid() {
            None if !self.is_wanted() => Duration::MAX,
            Some(_) if self.in_force().is_none() && self.told_at.elapsed() < SOON => LOOK_SOON,
            _ => LOOK_EVERY,
        }
    }

    /// Has the process do this from now on.
    pub fn tell(&mut self, task: C::Task) {
        if task == self.told {
            return;
        }
        self.told = task;
        (self.heard, self.told_at) = (Instant::now(), Instant::now());
        if self.process.pid().is_some() {
            self.write();
        }
    }

    /// Writes what is to be done; a process that can't read it ends, which is noticed.
    fn write(&mut self) {
        let (Some(stdin), Ok(mut line)) = (&mut self.stdin, serde_json::to_string(&self.told))
        else {
            return;
        };
        let (command, pid) = (C::NAME, self.process.pid());
        tracing::info!(command, pid, task = line, "a command has another task");
        line.push('\n');
        let _written = stdin.write_all(line.as_bytes());
    }

    /// Starts the process when it is due, hears what it does, and ends it when it has nothing to do.
    pub fn look_after(&mut self) {
        let is_due = self.process.look();
        if is_due && self.is_wanted() {
            (self.heard, self.told_at) = (Instant::now(), Instant::now());
            self.stdin = self.process.start(|command| {
                command.args(C::ARGUMENTS);
            });
            self.write();
        }
        (self.said, self.taken) = (None, None);
        if !self.is_wanted() && self.process.pid().is_none() {
            return;
        }
        match C::ask() {
            Some(status) if Some(C::pid(&status)) == self.process.pid() => {
                self.heard = Instant::now();
                let is_undone = *C::task(&status) != self.told;
                self.said = Some(status);
                if is_undone && self.told_at.elapsed() > LOOK_EVERY {
                    // What kept it from doing so may have ended, as where the packet filter was busy.
                    self.told_at = Instant::now();
                    self.write();
                }
            }
            Some(other) => {
                let (name, pid) = (C::NAME, C::pid(&other));
                let taken = format!(
                    "`{name}` (process {pid}) runs in this network namespace already: end it first"
                );
                self.taken = Some(taken);
            }
            None if self.heard.elapsed() > SILENT_MOST => {
                let (name, seconds) = (C::NAME, SILENT_MOST.as_secs());
                let why = format!("`{name}` did not answer for {seconds} s, and was killed");
                self.process.kill(why);
            }
            None => {}
        }
        if !self.is_wanted() && self.in_force().is_some_and(C::is_idle) {
            self.end();
        }
    }

    /// Ends the process.
    pub fn end(&mut self) {
        if self.process.pid().is_some() {
            tracing::info!(command = C::NAME, "a command is ended");
        }
        self.process.end();
        (self.stdin, self.said) = (None, None);
    }

    /// Returns what the process said, if it does what it was told last.
    pub fn in_force(&self) -> Option<&C::Status> {
        let said = self.said.as_ref();
        said.filter(|said| *C::task(said) == self.told)
    }

    /// Returns the state, with the ports of the task and those that this host refuses, each with the reason;
    /// `None` if there is nothing to do and nothing is done.
    pub fn state(
        &self,
        ports: Vec<String>,
        refused: BTreeMap<String, String>,
    ) -> Option<CommandState<C::Status>> {
        if !self.is_wanted() && refused.is_empty() && self.process.pid().is_none() {
            return None;
        }
        let error = self.taken.clone();
        Some(CommandState {
            ports,
            refused,
            process: self.in_force().cloned(),
            starts: self.process.starts(),
            error: error.or_else(|| self.process.error().map(str::to_owned)),
        })
    }
}
