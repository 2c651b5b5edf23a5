//! Asks the process that has a task's place: a socket in a network namespace, on which it answers.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, UnixCredentials, connect, getsockopt, socket,
    sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uc_files::socket_path;

use crate::task::{ServiceError, Task, silent};
use crate::{PATIENCE, read_all};

/// Maximum length of a process's answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Sends a question to the process that has the place of this task in the caller's network namespace, and returns the
/// answer. Waits for it for two seconds at most.
///
/// # Errors
/// As [`connected`].
pub(crate) fn ask<T: Task, A: DeserializeOwned>(
    question: &impl Serialize,
) -> Result<A, ServiceError> {
    let (stream, _) = connected::<T>()?;
    let answer = exchange(stream, question);
    answer.or_else(|error| Err(silent::<T>(&socket_path(T::PLACE)?, error)))
}

fn exchange<A: DeserializeOwned>(
    mut stream: UnixStream,
    question: &impl Serialize,
) -> io::Result<A> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(question)?)?;
    stream.shutdown(Shutdown::Write)?;
    let answer = read_all(&mut stream, ANSWER_BYTES_MAX)?;
    let no_answer = |error| io::Error::other(format!("its answer can't be read ({error})"));
    serde_json::from_slice(&answer).map_err(no_answer)
}

/// Connects to the process that has the place; returns its credentials, too.
///
/// # Errors
/// [`ServiceError::Nobody`]; [`ServiceError::Silent`]; [`ServiceError::File`].
pub(crate) fn connected<T: Task>() -> Result<(UnixStream, UnixCredentials), ServiceError> {
    let (command, path) = (T::COMMAND, socket_path(T::PLACE)?);
    opened(&path).map_err(|error| match error.kind() {
        // The file stays when its process ends.
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => ServiceError::Nobody { command },
        _ => silent::<T>(&path, error),
    })
}

fn opened(path: &Path) -> io::Result<(UnixStream, UnixCredentials)> {
    // Connecting does not wait: if the queue of connections is full, that is an error.
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let asking = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    connect(asking.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(asking);
    stream.set_nonblocking(false)?;
    let owner = getsockopt(&stream, sockopt::PeerCredentials)?;
    Ok((stream, owner))
}
