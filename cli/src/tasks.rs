//! Tasks that an agent gives a command that it runs: lines of JSON on standard input, one for each change.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use uc_hold::{Reserved, Running, Work};
use uc_service::PortTask;

/// Error of a line that can't be parsed as a task.
pub const NO_TASK: &str = "a line of standard input is not a task in JSON";

/// Reads standard input on a thread of its own, and sends the task of each line. The first line that is no task is sent
/// as an error and ends the channel; so does the end of the input.
pub fn tasks_on_stdin<T: DeserializeOwned + Send + 'static>() -> Receiver<Result<T>> {
    let (tasks, heard) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let task = line
                .context("could not read a task from standard input")
                .and_then(|line| serde_json::from_str(&line).context(NO_TASK));
            let is_last = task.is_err();
            if tasks.send(task).is_err() || is_last {
                return;
            }
        }
    });
    heard
}

/// Works at the ports that the newest line of standard input names, until the input ends or `stops` returns true.
pub fn follow<W: Work>(stops: impl Fn() -> bool, reserved: Reserved) -> Result<bool>
where
    W::Port: Send + 'static,
    <W::Port as PortTask>::Done: Default + Send + 'static,
{
    let setups = tasks_on_stdin();
    let Ok(first) = setups.recv() else {
        return Ok(true);
    };
    let mut running = Running::<W>::start(first?, reserved)?;
    let mut ended = Ok(());
    while ended.is_ok() && !stops() {
        ended = match setups.try_recv() {
            Ok(Ok(setup)) => running.change(setup).map_err(Into::into),
            Ok(Err(error)) => Err(error),
            Err(TryRecvError::Empty) => running.step().map_err(Into::into),
            Err(TryRecvError::Disconnected) => break,
        };
    }
    // What the work holds is released also after an error.
    running.finish()?;
    ended.map(|()| true)
}
