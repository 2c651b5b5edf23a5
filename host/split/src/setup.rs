//! The setup that threads share, and the limits of descriptors and threads.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use uc_service::commands::split::{Limits, Setup};

use crate::error::SplitError;

/// Maximum number of connections if --connections-max is not given.
const USUAL_MAX: usize = 65_536;
/// Number of file descriptors of a split connection: its two sockets.
const DESCRIPTORS_EACH: u64 = 2;
/// Maximum number of descriptors of a connection: if its readers are slow, each direction holds a pipe, too. Unless a
/// number of connections is asked for, the limit of descriptors allows this many for each; otherwise one guest could
/// use up those that others need.
const DESCRIPTORS_MOST: u64 = 6;
/// Number of descriptors besides those of connections: standard streams, listeners, and event queues.
const DESCRIPTORS_BESIDE: u64 = 512;
/// Maximum number of threads if no number is given: more threads move no more bytes, and the service's unit allows 64
/// tasks.
const THREADS_USUAL_MAX: usize = 16;

/// The setup for new connections, which threads share.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Arc<Setup>>);

impl Current {
    /// Creates the shared setup.
    pub(crate) fn new(setup: Setup) -> Self {
        Self(RwLock::new(Arc::new(setup)))
    }

    /// Returns the setup as it is now.
    pub(crate) fn get(&self) -> Arc<Setup> {
        let setup = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&setup)
    }

    /// Replaces the setup for new connections.
    pub(crate) fn set(&self, setup: Setup) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }
}

/// Returns the limits of the process. `connections`: maximum number of connections; `None`: as the limit of
/// descriptors allows ([`connections_max`]). `guest`: maximum number of each guest; `None`: half of all. `threads`:
/// number of threads; `None`: one for each processor, 16 at most.
///
/// # Errors
/// As [`connections_max`].
pub fn limits(
    connections: Option<usize>,
    guest: Option<usize>,
    threads: Option<usize>,
) -> Result<Limits, SplitError> {
    let processors = || {
        let all = thread::available_parallelism().map_or(1, usize::from);
        all.min(THREADS_USUAL_MAX)
    };
    let connections_max = connections_max(connections)?;
    Ok(Limits {
        connections_max,
        guest_max: guest.unwrap_or(connections_max.div_ceil(2)),
        threads: threads.unwrap_or_else(processors),
    })
}

/// Raises this process's limit of descriptors to what `asked` connections need; `None`: as many connections as the
/// limit allows, 65,536 at most. Returns the number of connections.
///
/// # Errors
/// If the limit can't be raised as far as needed.
fn connections_max(asked: Option<usize>) -> Result<usize, SplitError> {
    let wanted = asked.unwrap_or(USUAL_MAX);
    let needed_for = |each: u64| wanted as u64 * each + DESCRIPTORS_BESIDE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| SplitError::resource("read the limit of descriptors", errno))?;
    let most = needed_for(DESCRIPTORS_MOST);
    if soft >= most || setrlimit(Resource::RLIMIT_NOFILE, most, hard.max(most)).is_ok() {
        return Ok(wanted);
    }
    let limit = hard;
    // Raising the soft limit to the hard one needs no right.
    let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, limit, limit);
    let needed = needed_for(DESCRIPTORS_EACH);
    let possible = limit.saturating_sub(DESCRIPTORS_BESIDE) / DESCRIPTORS_MOST;
    match asked {
        Some(_) if limit >= needed => Ok(wanted),
        None if possible > 0 => Ok(possible as usize),
        _ => Err(SplitError::Refused(format!(
            "{wanted} connections need {needed} descriptors, but the limit is {limit}: raise it \
             (ulimit -n, or LimitNOFILE in a unit), or give a smaller --connections-max"
        ))),
    }
}
