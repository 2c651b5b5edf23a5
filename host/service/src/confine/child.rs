//! The two ends of a confined process.

use std::ffi::OsStr;
use std::io::{self, Read, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

/// Time, in seconds, within which the process must make room for a message.
const SENT_MOST_S: i64 = 1;

/// A confined process, and the socket to it. Dropping it kills the process.
#[derive(Debug)]
pub struct Confined {
    child: Child,
    socket: OwnedFd,
    /// Threads that forward the confined process's output.
    prints: Vec<JoinHandle<()>>,
}

impl Confined {
    /// Starts this program with these arguments, which make it [`enter`](crate::confine::enter) first. Its
    /// standard input is a socket whose other end is here. What it prints is passed on: this program's
    /// own output may be a terminal, or a socket of the log that it could read or shut down. It gets no
    /// environment: that may hold secrets.
    pub fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> io::Result<Self> {
        // The running program, also when its file has been replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("uc").args(arguments).env_clear();
        let libraries = "LD_LIBRARY_PATH";
        command.envs(std::env::var_os(libraries).map(|path| (libraries, path)));
        Self::run(command)
    }

    fn run(mut command: Command) -> io::Result<Self> {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let (socket, theirs) = socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC)?;
        let most = TimeVal::seconds(SENT_MOST_S);
        setsockopt(&socket, sockopt::SendTimeout, &most)?;
        command
            .stdin(theirs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn()?;
        let mut confined = Self {
            child,
            socket,
            prints: Vec::new(),
        };
        if let Some(out) = confined.child.stdout.take() {
            confined.prints.push(pass_on(out, stdout())?);
        }
        if let Some(errors) = confined.child.stderr.take() {
            confined.prints.push(pass_on(errors, stderr())?);
        }
        Ok(confined)
    }

    /// Returns the exit status of a process that has closed its end of the socket. A process that still runs is
    /// killed.
    pub fn status(mut self) -> io::Result<ExitStatus> {
        // The status of one that is ending stays what it is.
        self.child.kill()?;
        self.child.wait()
    }
}

impl AsFd for Confined {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // It may have ended. One that can't be killed ends with this process.
        if self.child.kill().is_ok() {
            let _ended = self.child.wait();
            for passed in self.prints.drain(..) {
                let _end = passed.join();
            }
        }
    }
}

/// Copies what a process prints, on a thread, until the process ends or nobody reads any more.
fn pass_on(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let copy = move || {
        let _nobody_reads = io::copy(&mut from, &mut to);
    };
    std::thread::Builder::new()
        .name("prints".to_owned())
        .spawn(copy)
}

/// Returns the socket to the process that started this one by [`Confined::start`]. To be called after
/// [`enter`](crate::confine::enter): from then on this process ends with that one.
///
/// # Errors
/// The process that started this one has ended, or the kernel refuses a call.
pub fn parent() -> io::Result<OwnedFd> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    if poll(&mut polled, PollTimeout::ZERO)? > 0 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::confine::send;

    fn sleeping() -> Confined {
        let mut command = Command::new("sleep");
        command.arg("1000");
        Confined::run(command).unwrap()
    }

    #[test]
    fn a_process_that_does_not_read_delays_its_starter_for_seconds_only() {
        let process = sleeping();
        let begun = Instant::now();
        let error = std::iter::repeat_with(|| send(&process, b"text", None))
            .find_map(Result::err)
            .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(begun.elapsed().as_secs() >= SENT_MOST_S as u64);
    }

    #[test]
    fn a_process_that_goes_on_without_its_socket_is_killed() {
        let status = sleeping().status().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }

    #[test]
    fn the_status_of_a_process_that_ends_by_itself_is_its_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 7"]);
        let process = Confined::run(command).unwrap();
        assert!(
            crate::confine::receive(&process, &mut [0])
                .unwrap()
                .is_none()
        );
        assert_eq!(process.status().unwrap().code(), Some(7));
    }
}
