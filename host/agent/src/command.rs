//! A command that does a part of the agent's work for all ports together: `uc split`, `uc dupack`, `uc hold` or `uc
//! watch`. The agent runs one process of each command. The process reads its task from standard input, and a new task
//! at each change, so a change does not restart it. It answers on the command's socket, of which a network namespace
//! has one for each command (`uc-service`).
//!
//! The agent ends the process when it has nothing left to do. If the process ends by itself, the agent
//! starts it again after a pause. If it does not answer for half a minute, the agent kills it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use uc_client::state::CommandState;
use uc_service::{ServiceError, Status, Task};

use crate::process::Process;

/// Interval at which a process is asked for its status.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a process that has got a new task is asked whether it does that task already.
const LOOK_SOON: Duration = Duration::from_millis(100);
/// Time after a new task during which [`LOOK_SOON`] applies.
const SOON: Duration = Duration::from_secs(5);
/// Time without an answer after which a process is killed.
const SILENT_MOST: Duration = Duration::from_secs(30);

/// Argument with which a command reads its task, and each new one, from standard input.
const BY_TASKS: &str = "--settings-on-stdin";

/// The process of a command, whether it runs or not.
#[derive(Debug)]
pub struct Running<T: Task> {
    process: Process,
    /// Arguments of the process after the command's name.
    arguments: Vec<OsString>,
    stdin: Option<ChildStdin>,
    /// The newest task: the process has it, or gets it when it starts.
    told: T,
    told_at: Instant,
    /// The last answer of the process; `None`: no answer to the last question.
    said: Option<Said<T>>,
    heard: Instant,
    /// The error if a process that this agent did not start does the same command in this network namespace.
    taken: Option<String>,
}

/// The status with which a command's process answers a task.
type Said<T> = Status<T, <T as Task>::Done>;

impl<T: Task> Running<T> {
    /// Creates the state of a command's process, which has not started.
    pub fn new() -> Self {
        Self::with(Vec::new())
    }

    /// Creates the state of a command's process, which has not started and will get these additional arguments.
    pub fn with(arguments: Vec<OsString>) -> Self {
        Self {
            process: Process::new(T::COMMAND),
            arguments,
            stdin: None,
            told: T::default(),
            told_at: Instant::now(),
            said: None,
            heard: Instant::now(),
            taken: None,
        }
    }

    /// Returns the newest task of the process.
    pub fn told(&self) -> &T {
        &self.told
    }

    fn is_wanted(&self) -> bool {
        self.told != T::default()
    }

    /// Returns the longest time between two calls of [`Running::look_after`].
    pub fn interval(&self) -> Duration {
        match self.process.pid() {
            None if !self.is_wanted() => Duration::MAX,
            Some(_) if self.in_force().is_none() && self.told_at.elapsed() < SOON => LOOK_SOON,
            _ => LOOK_EVERY,
        }
    }

    /// Sets the process's task, and writes it to the process if that runs.
    pub fn tell(&mut self, task: T) {
        if task == self.told {
            return;
        }
        self.told = task;
        (self.heard, self.told_at) = (Instant::now(), Instant::now());
        if self.process.pid().is_some() {
            self.write();
        }
    }

    /// Writes the newest task to the process. A process that can't read the task ends, and the agent starts it again.
    fn write(&mut self) {
        let (Some(stdin), Ok(mut line)) = (&mut self.stdin, serde_json::to_string(&self.told))
        else {
            return;
        };
        let (command, pid) = (T::COMMAND, self.process.pid());
        tracing::info!(command, pid, task = line, "a command has another task");
        line.push('\n');
        let _written = stdin.write_all(line.as_bytes());
    }

    /// Starts the process when it is due, asks for its status, and ends it when it has nothing to do.
    pub fn look_after(&mut self) {
        let is_due = self.process.look();
        if is_due && self.is_wanted() {
            (self.heard, self.told_at) = (Instant::now(), Instant::now());
            self.stdin = self.process.start(|command| {
                command.args(T::COMMAND.split(' ').skip(1)).arg(BY_TASKS);
                command.args(&self.arguments);
            });
            self.write();
        }
        (self.said, self.taken) = (None, None);
        if !self.is_wanted() && self.process.pid().is_none() {
            return;
        }
        match Said::<T>::ask() {
            Ok(status) if Some(status.pid) == self.process.pid() => {
                self.heard = Instant::now();
                let is_undone = status.setup != self.told;
                self.said = Some(status);
                if is_undone && self.told_at.elapsed() > LOOK_EVERY {
                    // The obstacle may be gone by now, such as a busy packet filter.
                    self.told_at = Instant::now();
                    self.write();
                }
            }
            Ok(other) => {
                let taken = ServiceError::Taken {
                    command: T::COMMAND,
                    pid: other.pid as i32,
                };
                self.taken = Some(taken.to_string());
            }
            Err(_) if self.heard.elapsed() > SILENT_MOST => {
                let (name, seconds) = (T::COMMAND, SILENT_MOST.as_secs());
                let why = format!("`{name}` did not answer for {seconds} s, and was killed");
                self.process.kill(why);
            }
            Err(_) => {}
        }
        let is_idle = |said: &Said<T>| T::is_idle(&said.done);
        if !self.is_wanted() && self.in_force().is_some_and(is_idle) {
            self.end();
        }
    }

    /// Ends the process, and waits until it has ended.
    pub fn end(&mut self) {
        if self.process.pid().is_some() {
            tracing::info!(command = T::COMMAND, "a command is ended");
        }
        self.process.end();
        (self.stdin, self.said) = (None, None);
    }

    /// Returns the last answer of the process; `None` if it does not do its newest task yet, or has not answered.
    pub fn in_force(&self) -> Option<&Said<T>> {
        let said = self.said.as_ref();
        said.filter(|said| said.setup == self.told)
    }

    /// Returns the state of the process, with the ports of its task and the reason for each refused port;
    /// `None` if the process has no task and does not run.
    pub fn state(
        &self,
        ports: Vec<String>,
        refused: BTreeMap<String, String>,
    ) -> Option<CommandState<Said<T>>> {
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
