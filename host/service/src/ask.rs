//! Asks the process that has a place.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, UnixCredentials, connect, getsockopt, socket,
    sockopt,
};
use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{PATIENCE, read_all};

/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why a process could not be asked; [`crate::ServiceError`] names the command, its socket and the remedy.
#[derive(Debug)]
pub enum AskError {
    /// No process has the place in this network namespace.
    Nobody,
    /// The process does not answer, or is another user's: anybody on the host may take an abstract name.
    Silent(io::Error),
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Silent(error)
    }
}

/// Asks the process that has the place of this name in the caller's network namespace. Its answer is awaited
/// for two seconds.
///
/// # Errors
/// [`AskError`].
pub fn ask<A: DeserializeOwned>(name: &str, question: &impl Serialize) -> Result<A, AskError> {
    let (mut stream, _) = connected(name)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(question).map_err(io::Error::from)?)?;
    stream.shutdown(Shutdown::Write)?;
    let answer = read_all(&mut stream, ANSWER_BYTES_MAX)?;
    let no_answer = |error| io::Error::other(format!("its answer can't be read ({error})"));
    Ok(serde_json::from_slice(&answer).map_err(no_answer)?)
}

/// Connects to the process that has the place; returns its credentials, too.
///
/// # Errors
/// [`AskError`].
pub(crate) fn connected(name: &str) -> Result<(UnixStream, UnixCredentials), AskError> {
    // Connecting does not wait: if the queue of connections is full, that is an error.
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let asking =
        socket(AddressFamily::Unix, SockType::Stream, kind, None).map_err(io::Error::from)?;
    let address = UnixAddr::new_abstract(name.as_bytes()).map_err(io::Error::from)?;
    let made = connect(asking.as_raw_fd(), &address).map_err(io::Error::from);
    made.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => AskError::Nobody,
        _ => AskError::Silent(error),
    })?;
    let stream = UnixStream::from(asking);
    stream.set_nonblocking(false)?;
    let owner = getsockopt(&stream, sockopt::PeerCredentials).map_err(io::Error::from)?;
    if owner.uid() != 0 && owner.uid() != geteuid().as_raw() {
        return Err(AskError::Silent(io::Error::other(format!(
            "process {} of user {} has that socket",
            owner.pid(),
            owner.uid()
        ))));
    }
    Ok((stream, owner))
}
