//! Spare pipes of a worker. A direction of a connection has one only while it moves bytes, or holds some
//! that its reader does not take.

use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;

/// Maximum number of bytes that a direction holds outside its sockets: a pipe's capacity, and the most that is moved
/// at once. A quarter of it lowers the throughput.
pub const PIPE_BYTES: usize = 1024 * 1024;
/// Maximum number of empty pipes that a worker keeps.
const SPARE_MAX: usize = 64;

/// A pipe. The kernel moves references to pages through it, not their bytes.
#[derive(Debug)]
pub struct Pipe {
    /// The descriptor from which the pipe is read.
    pub output: OwnedFd,
    /// The descriptor into which the pipe is written.
    pub input: OwnedFd,
}

/// Empty pipes that a worker thread keeps for further use.
#[derive(Debug, Default)]
pub struct Pipes {
    spare: Vec<Pipe>,
}

impl Pipes {
    /// Returns an empty pipe; `None` if there is no descriptor for one now.
    pub fn take(&mut self) -> io::Result<Option<Pipe>> {
        if let Some(pipe) = self.spare.pop() {
            return Ok(Some(pipe));
        }
        let (output, input) = match pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) {
            Ok(ends) => ends,
            Err(Errno::EMFILE | Errno::ENFILE) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // Without the right to a larger pipe the usual 64 KiB do.
        let _smaller = fcntl(&input, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES as i32));
        Ok(Some(Pipe { output, input }))
    }

    /// Keeps an empty pipe for the next user.
    pub fn give(&mut self, pipe: Pipe) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(pipe);
        }
    }
}
