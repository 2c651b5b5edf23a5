//! The process that splits connections: rules, listeners and workers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use socket2::Socket;
use uc_service::Served;

use crate::check::check;
use crate::counts::Counts;
use crate::error::SplitError;
use crate::quota::Quota;
use crate::rules::Rules;
use crate::setup::Current;
use crate::side::Side;
use crate::sockets;
use crate::worker::{Listener, Worker};
use uc_service::commands::split::{Done, Limits, Setup, Status};

/// Interval at which a drain checks whether all connections have ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Running workers. Dropping it resets their connections and removes the rules.
#[derive(Debug)]
pub struct Split {
    setup: Arc<Current>,
    limits: Limits,
    rules: Rules,
    stop: Arc<EventFd>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    counts: Arc<Counts>,
    quota: Arc<Quota>,
    has_ipv6: bool,
    /// Answers requests for the status; the place of `uc split` is free once this is dropped.
    _status: Served,
}

impl Split {
    /// Checks the host, takes the place of `uc split` in the network namespace, and begins to split connections.
    ///
    /// # Errors
    /// The precondition that does not hold, or what the kernel refuses; nothing is left then.
    pub fn start(setup: Setup, limits: Limits) -> Result<Self, SplitError> {
        let has_ipv6 = check(&setup)?;
        let place = Status::take_place()?;
        let (listeners, ports) = listeners(limits.threads, has_ipv6)
            .map_err(|error| SplitError::resource("listen for connections", error))?;
        let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| SplitError::resource("create an event descriptor", errno))?;
        let (stop, counts) = (Arc::new(stop), Arc::new(Counts::default()));
        let quota = Arc::new(Quota::new(limits.connections_max, limits.guest_max));
        let rules = setup.clone();
        let setup = Arc::new(Current::new(setup));
        let workers = listeners
            .into_iter()
            .map(|own| {
                let (setup, counts) = (Arc::clone(&setup), Arc::clone(&counts));
                Worker::new(own, setup, counts, Arc::clone(&quota), &stop)
            })
            .collect::<io::Result<Vec<Worker>>>()
            .map_err(|error| SplitError::resource("create an event queue", error))?;
        let rules = Rules::install(rules, ports, has_ipv6)?;
        let (of, may) = (Arc::clone(&setup), limits.clone());
        let (seen, open) = (Arc::clone(&counts), Arc::clone(&quota));
        let tell = move |()| {
            let setup = Setup::clone(&of.get());
            let (limits, totals) = (may.clone(), seen.totals(open.taken()));
            Status::own(setup, Done { limits, totals })
        };
        let status = Status::serve(place, tell)?;
        let spawn = |worker: Worker| {
            thread::Builder::new()
                .name("uc-split".into())
                .spawn(|| worker.run())
        };
        let workers = workers
            .into_iter()
            .map(spawn)
            .collect::<io::Result<_>>()
            .map_err(|error| {
                SplitError::resource("start a thread that copies split connections", error)
            })?;
        Ok(Self {
            setup,
            limits,
            rules,
            stop,
            workers,
            counts,
            quota,
            has_ipv6,
            _status: status,
        })
    }

    /// Returns whether connections over IPv6 are split, too.
    pub fn has_ipv6(&self) -> bool {
        self.has_ipv6
    }

    /// Returns the setup, the limits and the counters.
    pub fn status(&self) -> Status {
        let done = Done {
            limits: self.limits.clone(),
            totals: self.counts.totals(self.quota.taken()),
        };
        Status::own(Setup::clone(&self.setup.get()), done)
    }

    /// Applies this setup to new connections, without checking it; connections that are split go on as they are.
    ///
    /// # Errors
    /// If the table can't be changed; then the setup before stays.
    pub fn change(&mut self, setup: Setup) -> Result<(), SplitError> {
        self.rules.change(&setup)?;
        self.setup.set(setup);
        Ok(())
    }

    /// Returns whether all worker threads run.
    pub fn is_running(&self) -> bool {
        !self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Lets new connections pass unsplit, and waits until those that are split have ended, or `ends`
    /// returns true.
    ///
    /// # Errors
    /// If the table can't be changed.
    pub fn drain(&mut self, ends: impl Fn() -> bool) -> Result<(), SplitError> {
        self.rules.change(&Setup::default())?;
        while self.quota.taken() > 0 && self.is_running() && !ends() {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Resets all connections that are left, and removes the rules.
    ///
    /// # Errors
    /// The error by which a worker ended before.
    pub fn finish(mut self) -> Result<(), SplitError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), SplitError> {
        // This fails only if the counter overflows, and then it is set.
        let _set = self.stop.write(1);
        let panicked = || {
            Err(io::Error::other(
                "a thread that copies split connections panicked",
            ))
        };
        let ended: Vec<_> = self
            .workers
            .drain(..)
            .map(|worker| worker.join().unwrap_or_else(|_| panicked()))
            .collect();
        ended
            .into_iter()
            .collect::<io::Result<()>>()
            .map_err(|error| SplitError::resource("copy the bytes of split connections", error))
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        // Only `finish` reports a worker's error.
        let _unheard = self.join();
    }
}

/// Creates the listeners of each worker. All listeners for one opening side have the same port, for both IP versions.
/// Returns the listeners of each worker, and two ports: for connections that guests open, and for those of others.
fn listeners(workers: usize, has_ipv6: bool) -> io::Result<(Vec<Vec<Listener>>, [u16; 2])> {
    let mut ports = [0; 2];
    let mut all = Vec::with_capacity(workers);
    for _ in 0..workers.max(1) {
        let mut own = Vec::new();
        for (port, opener) in ports.iter_mut().zip([Side::Guest, Side::Far]) {
            for is_ipv6 in [false, true] {
                if is_ipv6 && !has_ipv6 {
                    continue;
                }
                let socket = sockets::listen(is_ipv6, *port, opener)?;
                *port = bound(&socket)?.port();
                own.push(Listener { socket, opener });
            }
        }
        all.push(own);
    }
    Ok((all, ports))
}

fn bound(socket: &Socket) -> io::Result<SocketAddr> {
    sockets::ip(&socket.local_addr()?)
}
