//! The setup that threads share, and the limits of descriptors and threads.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use uc_service::commands::split::{Limits, Setup};

use crate::error::SplitError;

/// Usual maximum number of connections.
const USUAL_MAX: usize = 65_536;
/// Descriptors of a connection: its sockets.
const DESCRIPTORS_EACH: u64 = 2;
/// Descriptors of a connection whose readers are slow: each direction holds a pipe, too. Unless a number of
/// connections is asked for, there are as many descriptors as all connections can need so, since those of one
/// guest that are used up would be missing to the others.
const DESCRIPTORS_MOST: u64 = 6;
/// Descriptors beside: standard streams, listeners, and event queues.
const DESCRIPTORS_BESIDE: u64 = 512;
/// Most threads if nobody says how many: more move no more bytes, and the service's unit allows 64 tasks.
const THREADS_USUAL_MAX: usize = 16;

/// The setup for new connections, which threads share.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Arc<Setup>>);

impl Current {
    /// Creates it with the first setup.
    pub(crate) fn new(setup: Setup) -> Self {
        Self(RwLock::new(Arc::new(setup)))
    }

    /// Returns the setup as it is now.
    pub(crate) fn get(&self) -> Arc<Setup> {
        let setup = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&setup)
    }

    /// Replaces the setup.
    pub(crate) fn set(&self, setup: Setup) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }
}

/// Returns the limits for this many connections in all, of each guest, and threads; `None`: as many as
/// the limit of descriptors allows, half of all, and one for each processor, 16 at most.
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

/// Raises this process's limit of descriptors to what this many connections need; `None`: as many as the
/// limit allows, 65,536 at most. Returns the number of connections.
///
/// # Errors
/// If the limit can't be raised as far as asked.
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
