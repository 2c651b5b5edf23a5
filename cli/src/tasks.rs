//! What an agent tells a command that it runs: a line of JSON on standard input for each change.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use uc_hold::{Reserved, Running, Work};
use uc_service::PortTask;

/// Error of a line that is no task.
pub const NO_TASK: &str = "a line of standard input is no task in JSON";

/// Reads standard input, on a thread of its own: a task from each line, up to the first that is none. The end
/// of the input ends the channel.
pub fn tasks_on_stdin<T: DeserializeOwned + Send + 'static>() -> Receiver<Result<T>> {
    let (tasks, heard) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let task = line
                .context("standard input can't be read")
                .and_then(|line| serde_json::from_str(&line).context(NO_TASK));
            let is_last = task.is_err();
            if tasks.send(task).is_err() || is_last {
                return;
            }
        }
    });
    heard
}

/// Works at ports by the newest line of standard input, until it ends or `stops` returns true.
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
