//! The place of a process, and the thread that answers questions.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uc_files::{claim_namespace, socket_path};

use crate::ask::connected;
use crate::task::{ServiceError, Task};
use crate::{PATIENCE, read_all};

/// Maximum length of a question to the process, in bytes.
const QUESTION_BYTES_MAX: usize = 4096;
/// Pause after a connection that could not be accepted, for example because no file descriptor was free.
const REST: Duration = Duration::from_millis(100);

/// The place of a task in the caller's network namespace: its lock and its socket. Dropping it frees the place; the
/// socket's file stays.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    listener: UnixListener,
    _claim: File,
}

impl Place {
    /// Takes the place of this task, without waiting for a process that has it.
    ///
    /// # Errors
    /// [`ServiceError::Taken`]; [`ServiceError::Silent`] if the process that has the place does not answer;
    /// [`ServiceError::File`]; [`ServiceError::Kernel`].
    pub(crate) fn take<T: Task>() -> Result<Self, ServiceError> {
        let Some(claim) = claim_namespace(T::PLACE)? else {
            let (_, owner) = connected::<T>()?;
            return Err(ServiceError::Taken {
                command: T::COMMAND,
                pid: owner.pid(),
            });
        };
        let path = socket_path(T::PLACE)?;
        // Of a process that has ended.
        let _none = fs::remove_file(&path);
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Self {
                path,
                listener,
                _claim: claim,
            }),
            Err(source) => Err(ServiceError::Kernel {
                command: T::COMMAND,
                action: "create the Unix socket on which it answers",
                source,
            }),
        }
    }

    /// Answers a question that waits, if one does, without a thread. A process that asks and writes nothing holds the
    /// caller up for [`PATIENCE`].
    pub(crate) fn answer_waiting<Q: DeserializeOwned, A: Serialize>(
        &self,
        answer: impl Fn(Q) -> A,
    ) {
        let waits = self.listener.set_nonblocking(true);
        if let Ok((stream, _)) = waits.and_then(|()| self.listener.accept()) {
            drop(reply(stream, &answer));
        }
    }

    /// Answers each question, on a thread of its own.
    ///
    /// # Errors
    /// The kernel's refusal of a thread.
    pub(crate) fn serve<Q: DeserializeOwned, A: Serialize>(
        self,
        answer: impl Fn(Q) -> A + Send + 'static,
    ) -> io::Result<Served> {
        let (ends, path) = (Arc::new(AtomicBool::new(false)), self.path.clone());
        let seen = Arc::clone(&ends);
        let serve = move || {
            let place = self;
            loop {
                let accepted = place.listener.accept();
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // An error of one connection does not keep the next from its answer. The place is kept
                // in any case: without it a second process would do the same work.
                match accepted {
                    Ok((stream, _)) => drop(reply(stream, &answer)),
                    Err(_) => thread::sleep(REST),
                }
            }
        };
        let thread = thread::Builder::new()
            .name("uc-status".into())
            .spawn(serve)?;
        Ok(Served {
            path,
            ends,
            thread: Some(thread),
        })
    }
}

/// Answers a question of the same user or of root, and of nobody else.
fn reply<Q: DeserializeOwned, A: Serialize>(
    mut stream: UnixStream,
    answer: &impl Fn(Q) -> A,
) -> io::Result<()> {
    let asks = getsockopt(&stream, sockopt::PeerCredentials)?.uid();
    if asks != 0 && asks != geteuid().as_raw() {
        return Ok(());
    }
    let question = read_all(&mut stream, QUESTION_BYTES_MAX)?;
    let answer = answer(serde_json::from_slice(&question)?);
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(&answer)?)
}

/// The thread that answers. Dropping it ends the thread and frees the place.
#[derive(Debug)]
pub struct Served {
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread; without a connection it has ended.
        let _woken = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
