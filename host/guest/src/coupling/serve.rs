//! The host's loop over its guests' channels, on one thread.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

pub use crate::coupling::error::ServeError;
use crate::coupling::guest_channel::{Came, GuestChannel, RETRY, Refusal};
use crate::coupling::host::{GuestId, Host, Policy, Share};
use crate::coupling::setup::GuestSetup;
use crate::coupling::sockets::{Open, Sockets};
use crate::coupling::wire::{Frame, Parts};

/// Maximum time for which the host's loop sleeps.
const SLEEP_MOST: Duration = RETRY;
/// Time for which a refused guest can't connect again.
const PENALTY: Duration = Duration::from_secs(1);

/// An event of a guest that the host couples.
#[derive(Debug)]
pub enum Event<'a> {
    /// The guest's first report was answered.
    Coupled,
    /// The guest's socket can't be connected to. Reported when the error changes, not at each attempt.
    Waiting {
        /// Path of the guest's socket.
        path: &'a Path,
        /// Error of the kernel.
        source: &'a io::Error,
    },
    /// The other end of the guest's channel has closed.
    Gone,
    /// The guest is excluded and goes on uncoupled. It may connect again after a second.
    LeftOut(&'a Refusal),
}

/// The loop of a host over its guests, and its controller.
#[derive(Debug)]
pub struct Server {
    host: Host,
    guests: Vec<GuestChannel>,
    sockets: Box<dyn Open>,
    began: Instant,
}

impl Server {
    /// Creates a server, and the sockets on which guests connect. No guest is connected yet.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn new(policy: Policy, guests: Vec<GuestSetup>) -> Result<Self, ServeError> {
        let sockets = Sockets::new(&guests)?;
        Ok(Self::through(policy, guests, sockets))
    }

    /// Creates a server whose guests' sockets are opened by `sockets`.
    pub fn through(policy: Policy, guests: Vec<GuestSetup>, sockets: impl Open + 'static) -> Self {
        let mut host = Host::new(policy);
        let began = Instant::now();
        let channel = |setup: GuestSetup| {
            host.add(setup.weight);
            GuestChannel::new(setup, began)
        };
        Self {
            guests: guests.into_iter().map(channel).collect(),
            host,
            sockets: Box::new(sockets),
            began,
        }
    }

    /// Answers guests until `stop` is set, which is checked at least five times a second. Calls `event` with a guest's
    /// name and its event.
    ///
    /// # Errors
    /// [`ServeError::Wait`], [`ServeError::Ended`].
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

    /// Waits at most 200 ms for a guest's report or connection, and answers or accepts it.
    ///
    /// # Errors
    /// [`ServeError::Wait`], [`ServeError::Ended`].
    pub fn turn(&mut self, event: &mut dyn FnMut(&str, Event<'_>)) -> Result<(), ServeError> {
        let ready = self.wait()?;
        let now = Instant::now();
        for (id, is_ready) in ready.into_iter().enumerate() {
            if self.guests[id].is_connected() {
                if is_ready {
                    self.attend(id, now, event);
                }
                continue;
            }
            let refused = self.guests[id].connect(id, now, is_ready, &mut *self.sockets);
            if let Some((path, source)) = refused {
                let (path, source) = (path.as_path(), &source);
                let name = self.guests[id].setup.name.as_str();
                event(name, Event::Waiting { path, source });
            }
        }
        Ok(())
    }

    /// Returns the shares of all guests in all groups, each with the guest's name.
    pub fn shares(&self) -> Vec<(&str, Share)> {
        let named = |share: Share| (self.guests[share.guest].setup.name.as_str(), share);
        self.host.shares().into_iter().map(named).collect()
    }

    /// Waits, and returns for each guest whether there is a report to read or a connection to accept.
    fn wait(&self) -> Result<Vec<bool>, ServeError> {
        let now = Instant::now();
        let mut ready = vec![false; self.guests.len()];
        let waits = |(id, guest)| Some((id, GuestChannel::waits_for(guest, now)?));
        let (ids, fds): (Vec<_>, Vec<_>) = self.guests.iter().enumerate().filter_map(waits).unzip();
        let fds = fds.into_iter().chain(self.sockets.ends());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let rests = self.guests.iter().filter_map(|guest| guest.rests(now));
        let most = TimeSpec::from_duration(rests.fold(SLEEP_MOST, Duration::min));
        match ppoll(&mut fds, Some(most), None) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(ready),
            Err(errno) => return Err(ServeError::Wait(errno.into())),
        }
        let mut is_ready = fds.iter().map(|fd| fd.any().unwrap_or(true));
        for id in ids {
            ready[id] = is_ready.next().unwrap_or_default();
        }
        match is_ready.next() {
            Some(true) => Err(ServeError::Ended),
            _ => Ok(ready),
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

    /// Reads the guest's newest report, and answers it; returns false if the guest is not connected.
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
