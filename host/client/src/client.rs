//! Talks to an agent through its socket, for the command line.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    self, AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, setsockopt, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::de::DeserializeOwned;
use uc_port::Store;

use crate::asked::{Confirmation, Done, Ports, Refusal};
use crate::error::AgentError;
use crate::lock;
use crate::state::AgentState;

/// Longest wait for `/status`. An agent answers that at once, unless its process is stopped or hangs.
const STATUS_MOST: Duration = Duration::from_secs(5);
/// Longest wait for a change. An agent with a thousand ports takes seconds to detach them.
const CHANGE_MOST: Duration = Duration::from_secs(60);
/// Maximum length of an answer with its HTTP header, in bytes. A longer one is cut off, so it is an error.
const ANSWER_MAX_BYTES: usize = 64 << 20;

/// A client of the agent on this host. It connects for each request, and blocks until the answer.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// Creates a client of the agent that listens on `socket`, without connecting.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// Creates a client of this host's agent: on the socket that the agent's lock names, or on the default socket if
    /// no lock names one.
    pub fn of_host() -> Self {
        let said = lock::socket_of(Store::default().folder());
        Self::at(said.unwrap_or_else(|| uc_policy::DEFAULT_SOCKET.into()))
    }

    /// Returns true if a process listens on the socket, even if it does not accept the connection within 5 s.
    pub fn is_there(&self) -> bool {
        match connect(&self.socket, STATUS_MOST) {
            Ok(_) => true,
            Err(error) => is_late(&error),
        }
    }

    /// Returns the path of the agent's Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the agent's state. Waits at most 5 s for it.
    ///
    /// # Errors
    /// [`AgentError::NoAgent`] if no agent listens on the socket; [`AgentError::Silent`] if it does not answer.
    pub fn status(&self) -> Result<AgentState, AgentError> {
        self.ask("GET", "/status", "", STATUS_MOST)
    }

    /// Checks that the agent answers, and that its engine, which puts the policy into force, works. Reads no port.
    ///
    /// # Errors
    /// As [`Client::status`]; [`AgentError::Refused`] if its engine hangs.
    pub fn alive(&self) -> Result<(), AgentError> {
        self.ask("GET", "/alive", "", STATUS_MOST).map(|_: Done| ())
    }

    /// Makes the agent detach these ports and keep them detached; if none is named, all ports.
    ///
    /// # Errors
    /// [`AgentError::Refused`] with the agent's reason.
    pub fn withdraw(&self, ports: &[String]) -> Result<Done, AgentError> {
        // The former name, which the agent of an earlier release knows, too: it may run until it is restarted.
        self.change("/hold", &body(ports)?)
    }

    /// Returns withdrawn ports to the agent; if none is named, all ports.
    ///
    /// # Errors
    /// [`AgentError::Refused`] with the agent's reason.
    pub fn release(&self, ports: &[String]) -> Result<Done, AgentError> {
        self.change("/release", &body(ports)?)
    }

    /// Has the agent put the policy with this checksum into force, which it refused until an operator
    /// confirms it.
    ///
    /// # Errors
    /// [`AgentError::Refused`] with the agent's reason.
    pub fn confirm(&self, policy: &str) -> Result<Done, AgentError> {
        let confirmation = Confirmation {
            policy: policy.to_owned(),
        };
        let body = serde_json::to_string(&confirmation);
        let body = body.map_err(|error| AgentError::io("ask the agent", error))?;
        self.change("/confirm", &body)
    }

    /// Has the agent read its policy again.
    ///
    /// # Errors
    /// [`AgentError::Refused`] with the agent's reason.
    pub fn reload(&self) -> Result<Done, AgentError> {
        self.change("/reload", "")
    }

    /// Asks for a change, and waits at most 60 s for it. Asks for `/status` before: an agent that hangs fails there
    /// after 5 s.
    fn change(&self, path: &str, body: &str) -> Result<Done, AgentError> {
        self.status()?;
        self.ask("POST", path, body, CHANGE_MOST)
    }

    /// Sends one request and returns its answer, which is JSON.
    ///
    /// # Errors
    /// [`AgentError::NoAgent`], [`AgentError::Silent`], [`AgentError::Refused`].
    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &str,
        most: Duration,
    ) -> Result<T, AgentError> {
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: agent\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (code, text) = self.exchange(&request, most)?;
        let odd = |error: serde_json::Error| {
            self.silent(format!(
                "it has taken the request, but this version can't read its answer ({error})"
            ))
        };
        if code == 200 {
            return serde_json::from_str(&text).map_err(odd);
        }
        let text = serde_json::from_str::<Refusal>(&text).map_or(text, |refusal| refusal.error);
        Err(AgentError::Refused { text })
    }

    /// Sends a request of HTTP/1.0 and returns the answer's status and body. The agent closes the connection after its
    /// answer.
    fn exchange(&self, request: &str, most: Duration) -> Result<(u16, String), AgentError> {
        let until = Instant::now() + most;
        let late = || {
            let most = most.as_secs();
            self.silent(format!(
                "no answer came for {most} s, so its process is stopped or hangs; restart it: ports stay as \
                 they are meanwhile"
            ))
        };
        let failed = |error: io::Error| match is_late(&error) {
            true => late(),
            false => AgentError::NoAgent {
                path: self.socket.clone(),
                source: error,
            },
        };
        let stream = connect(&self.socket, most).map_err(failed)?;
        let mut answer = Vec::new();
        // The agent closes the connection of a user who may not ask, perhaps before it has read all.
        if send(&stream, request.as_bytes()).is_ok() {
            read_until(&stream, &mut answer, until).map_err(failed)?;
        }
        let answer = String::from_utf8_lossy(&answer);
        let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
            let code = head.split(' ').nth(1)?.parse().ok()?;
            Some((code, body.to_owned()))
        });
        parts.ok_or_else(|| self.silent(hung_up().to_owned()))
    }

    fn silent(&self, why: String) -> AgentError {
        AgentError::Silent {
            path: self.socket.clone(),
            why,
        }
    }
}

/// Returns why an agent closed the connection before the end of its answer. If root asked, the agent's process is
/// ending; any other user may not ask.
fn hung_up() -> &'static str {
    if nix::unistd::geteuid().is_root() {
        "it hung up before the end of its answer, because it is ending or has just died; run the command again"
    } else {
        "it hung up, because only root may ask; run the command with sudo"
    }
}

fn is_late(error: &io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind())
}

/// Connects to the socket. A process that is stopped accepts no connection; once its backlog is full,
/// the attempt times out.
fn connect(path: &Path, most: Duration) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let socket = socket::socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let most = TimeVal::milliseconds(most.as_millis() as i64);
    // It limits connect(2), too: socket(7).
    setsockopt(&socket, sockopt::SendTimeout, &most)?;
    socket::connect(socket.as_raw_fd(), &address)?;
    Ok(UnixStream::from(socket))
}

/// Sends all bytes. A connection that the agent has closed is an error, not a SIGPIPE.
fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = socket::send(stream.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Appends to `answer` the bytes that arrive until the agent closes the connection. At the time `until`, returns the
/// error `TimedOut`.
fn read_until(mut stream: &UnixStream, answer: &mut Vec<u8>, until: Instant) -> io::Result<()> {
    let mut part = [0; 1 << 16];
    while answer.len() < ANSWER_MAX_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(bytes) => answer.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn body(ports: &[String]) -> Result<String, AgentError> {
    let ports = Ports {
        ports: ports.to_vec(),
        all: ports.is_empty(),
    };
    serde_json::to_string(&ports).map_err(|error| AgentError::io("ask the agent", error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn listener() -> (tempfile::TempDir, UnixListener, Client) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        (folder, listener, Client::at(path))
    }

    #[test]
    fn agent_that_hangs_differs_from_agent_that_hung_up_and_from_no_agent() {
        let (folder, listener, client) = listener();
        let most = Duration::from_millis(50);
        let hangs = client.exchange("GET / HTTP/1.0\r\n\r\n", most);
        let text = hangs.unwrap_err().to_string();
        assert!(text.contains("stopped or hangs"), "{text}");
        // Fills the backlog.
        socket::listen(&listener, socket::Backlog::new(1).unwrap()).unwrap();
        let wait = |_| connect(client.socket(), most).ok();
        let waiting: Vec<_> = (0..16).map_while(wait).collect();
        assert!(waiting.len() < 16, "there is always place");
        let hangs = client.exchange("GET / HTTP/1.0\r\n\r\n", most);
        let text = hangs.unwrap_err().to_string();
        assert!(
            text.contains("stopped or hangs"),
            "{} wait: {text}",
            waiting.len()
        );
        drop((waiting, listener));

        let path = folder.path().join("other.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let dies = std::thread::spawn(move || drop(listener.accept()));
        let text = Client::at(&path).status().unwrap_err().to_string();
        assert!(text.contains("hung up"), "{text}");
        dies.join().unwrap();
        let none = Client::at(&path).status().unwrap_err();
        assert!(matches!(none, AgentError::NoAgent { .. }), "{none}");
        assert!(!Client::at(&path).is_there());
    }
}
