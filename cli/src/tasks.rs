//! What an agent tells a command that it runs: a line of JSON on standard input for each change.

use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// Reads standard input, on a thread of its own: a task from each line, up to the first that is none. The end
/// of the input ends the channel.
pub fn tasks_on_stdin<T: DeserializeOwned + Send + 'static>() -> Receiver<Result<T>> {
    let (tasks, heard) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let task = line
                .context("standard input can't be read")
                .and_then(|line| {
                    serde_json::from_str(&line)
                        .context("a line of standard input is not what to do, as JSON")
                });
            let is_last = task.is_err();
            if tasks.send(task).is_err() || is_last {
                return;
            }
        }
    });
    heard
}
