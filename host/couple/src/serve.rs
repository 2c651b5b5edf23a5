//! The host's loop over its guests' channels, on one thread.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use crate::error::ServeError;
use crate::host::{GuestId, Host, Policy, Share};
use crate::seat::{Came, GuestSetup, Refusal, Seat};
use crate::wire::{Frame, Parts};

/// Interval of connection attempts, and maximum sleep of the loop.
const RETRY: Duration = Duration::from_millis(200);
/// Time for which a refused guest is excluded.
const PENALTY: Duration = Duration::from_secs(1);

/// An event of a guest.
#[derive(Debug)]
pub enum Event<'a> {
    /// The guest's first report was answered.
    Coupled,
    /// The guest's socket can't be connected to; reported once, until the error changes.
    Waiting {
        /// Path of the socket.
        path: &'a Path,
        /// Error of the kernel.
        source: &'a io::Error,
    },
    /// The other end of the channel has closed.
    Gone,
    /// The guest goes on uncoupled, and may connect again after a second.
    LeftOut(&'a Refusal),
}

/// The guests of one host, and its controller.
#[derive(Debug)]
pub struct Server {
    host: Host,
    guests: Vec<Seat>,
    began: Instant,
}

impl Server {
    /// Creates the sockets to listen on, without connections.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn new(policy: Policy, guests: Vec<GuestSetup>) -> Result<Self, ServeError> {
        let mut host = Host::new(policy);
        let began = Instant::now();
        let seat = |setup: GuestSetup| {
            host.add(setup.weight);
            Seat::new(setup, began)
        };
        let guests = guests.into_iter().map(seat).collect::<Result<_, _>>()?;
        Ok(Self {
            host,
            guests,
            began,
        })
    }

    /// Answers until `stop` is set, which is checked five times a second. Calls `event` with the
    /// guest's name and its events.
    ///
    /// # Errors
    /// [`ServeError::Wait`].
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        event: &mut dyn FnMut(&str, Event<'_>),
    ) -> Result<(), ServeError> {
        while !stop.load(Ordering::Relaxed) {
            self.turn(event)?;
        }
        Ok(())
    }

    /// Waits for the next thing to do, at most 200 ms, and does it.
    ///
    /// # Errors
    /// [`ServeError::Wait`].
    pub fn turn(&mut self, event: &mut dyn FnMut(&str, Event<'_>)) -> Result<(), ServeError> {
        self.wait()?;
        let now = Instant::now();
        for id in 0..self.guests.len() {
            if let Some((path, source)) = self.guests[id].connect(now, RETRY) {
                let (path, source) = (path.as_path(), &source);
                let name = self.guests[id].setup.name.as_str();
                event(name, Event::Waiting { path, source });
            }
            self.attend(id, now, event);
        }
        Ok(())
    }

    /// Returns the shares of all guests in all groups, by name.
    pub fn shares(&self) -> Vec<(&str, Share)> {
        let named = |share: Share| (self.guests[share.guest].setup.name.as_str(), share);
        self.host.shares().into_iter().map(named).collect()
    }

    fn wait(&self) -> Result<(), ServeError> {
        let now = Instant::now();
        let fds = self.guests.iter().filter_map(|guest| guest.waits_for(now));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::from(RETRY.as_millis() as u16)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(ServeError::Wait(errno.into())),
        }
    }

    fn attend(&mut self, id: GuestId, now: Instant, event: &mut dyn FnMut(&str, Event<'_>)) {
        let was_coupled = self.guests[id].coupled;
        let exchanged = self.exchange(id, now);
        let guest = &mut self.guests[id];
        let name = guest.setup.name.as_str();
        match &exchanged {
            Ok(true) if guest.coupled && !was_coupled => event(name, Event::Coupled),
            Ok(true) => {}
            Ok(false) if was_coupled => event(name, Event::Gone),
            Ok(false) => {}
            Err(refusal) => event(name, Event::LeftOut(refusal)),
        }
        if !matches!(exchanged, Ok(true)) {
            let pause = if exchanged.is_ok() { RETRY } else { PENALTY };
            guest.close(now + pause);
            self.host.leave(id, self.began.elapsed().as_nanos() as u64);
        }
    }

    /// Reads what the guest has sent, and answers; returns false if it is not connected.
    fn exchange(&mut self, id: GuestId, now: Instant) -> Result<bool, Refusal> {
        let (at_ns, groups) = match self.guests[id].receive(now)? {
            Came::Nothing => return Ok(true),
            Came::Nobody => return Ok(false),
            Came::Report { at_ns, groups } => (at_ns, groups),
        };
        let now_ns = self.began.elapsed().as_nanos() as u64;
        let answers = self.host.hear(id, at_ns, &groups, now_ns)?;
        let frame = Frame {
            at_ns,
            parts: Parts::Answer(answers),
        };
        self.guests[id].send(&frame.encode())?;
        self.guests[id].coupled = true;
        Ok(true)
    }
}
