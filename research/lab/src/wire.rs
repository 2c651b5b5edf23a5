//! The emulated network on the real clock: one thread between all taps.
//!
//! A frame enters the network at the time at which it was read from its tap, and is written to its destination's tap
//! when it is due there. What happens in between depends on these entry times alone (see `uc-net`), so a late wake-up
//! delays the frames that were due, and no others; their lateness is counted ([`crate::lateness`]).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::emulation::Emulation;
use crate::error::LabError;
use crate::relay::{Relay, WireReport};
use crate::wire_setup::WireSetup;

/// The running emulator. Dropping it stops and joins the thread; the taps vanish with it.
#[derive(Debug)]
pub struct Wire {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<Result<WireReport, LabError>>>,
}

impl Wire {
    /// Starts the emulator's thread, with real-time priority if allowed.
    ///
    /// # Errors
    /// [`LabError::Resource`], or what is wrong with the network.
    pub fn start(setup: WireSetup) -> Result<Self, LabError> {
        let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| LabError::resource("make an event descriptor", errno.into()))?;
        let stop = Arc::new(stop);
        let emulation = Emulation::new(&setup.network, &setup.places)?;
        let stop_of_thread = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("uc-wire".into())
            // Frames share their buffer pool without locks, so network and pool stay on the thread.
            .spawn(move || Relay::new(setup, &emulation, &stop_of_thread)?.run())
            .map_err(|source| LabError::resource("start a thread", source))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Returns whether the emulator is running.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the emulator and returns its report.
    ///
    /// # Errors
    /// The error that ended it early.
    pub fn finish(mut self) -> Result<WireReport, LabError> {
        self.join().unwrap_or_else(|| {
            Err(LabError::resource(
                "keep the thread that emulates the network running",
                io::Error::other("its thread panicked"),
            ))
        })
    }

    fn join(&mut self) -> Option<Result<WireReport, LabError>> {
        // This fails only if the counter overflows, and then it is set.
        let _ = self.stop.write(1);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.join();
    }
}
