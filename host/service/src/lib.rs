//! How a command lives as a process: at most one of a kind runs in a network namespace, answers questions,
//! and gives up the rights that it does not need.
//!
//! The process takes a *place*: a lock, which the kernel frees when the process ends, however it ends, and a Unix
//! socket, on which the process answers questions. Both are files of a folder that only root can enter.
//!
//! - [`Task`]: what the process of a command is to do.
//! - [`Ports`]: such a task for each port by itself.
//! - [`Status`]: what it does and has done: takes the place, answers, and asks the process that has it.
//! - `place.rs`, `ask.rs`: the socket's two ends.
//! - [`commands`]: the tasks of the commands that an agent runs, and their answers.
//! - [`confine`]: processes without rights, for parsers of what guests and strangers send.

mod ask;
pub mod commands;
pub mod confine;
mod place;
mod ports;
mod status;
mod task;

pub use place::{Place, Served};
pub use ports::{PortTask, Ports};
pub use status::Status;
pub use task::{ServiceError, Task};

use std::io;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest time for which either end waits for the other to write, or for room to write.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads all that the other end writes: at most `bytes_max` bytes, for at most [`PATIENCE`].
fn read_all(stream: &mut UnixStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let why = format!("it wrote nothing more for {} s", PATIENCE.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        if text.len() > bytes_max {
            let why = format!("it wrote more than {bytes_max} bytes");
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(text),
            count => text.extend_from_slice(&piece[..count]),
        }
    }
}
