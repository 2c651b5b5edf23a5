//! The emulated network on the real clock: one thread between all taps.
//!
//! A frame enters the network at the time at which it was read from its tap and is written to its
//! destination's when it is due there. What happens in between depends on these entry times alone
//! (see `uc-net`), so a late wake-up delays the frames that were due, and no others; their lateness
//! is counted ([`crate::lateness`]).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use uc_experiment::{Hypervisor, Network};

use crate::emulation;
use crate::error::LabError;
use crate::flow::FiveTuple;
use crate::plan::Plan;
use crate::relay::{Relay, WireReport};
use crate::tap::Tap;

/// The input of the emulator.
#[derive(Debug)]
pub struct WireSetup {
    /// The experiment's network.
    pub network: Network,
    /// Seed of RED's random numbers.
    pub seed: u64,
    /// Interval at which the bottleneck's queue is read.
    pub sample: Duration,
    /// Taps of all hosts of the network, the server's last.
    pub taps: Vec<Tap>,
    /// Host of each link-layer address.
    pub addresses: Vec<([u8; 6], usize)>,
    /// Flows with separate counters; others are counted together.
    pub flows: Vec<FiveTuple>,
    /// Hypervisor that takes the receiver's CPU away at times; `None`: it always runs.
    pub receiver_hypervisor: Option<Hypervisor>,
}

impl WireSetup {
    /// Creates the input for a plan.
    pub fn new(
        plan: &Plan,
        network: &Network,
        taps: Vec<Tap>,
        flows: Vec<FiveTuple>,
        seed: u64,
        sample: Duration,
    ) -> Self {
        let guests = plan.guests.iter().map(|guest| (guest.mac, guest.host));
        let server = (plan.server.mac, plan.server_host());
        let addresses = guests.chain([server]).collect();
        Self {
            network: network.clone(),
            seed,
            sample,
            taps,
            addresses,
            flows,
            receiver_hypervisor: plan.server.hypervisor.clone(),
        }
    }
}

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
            .map_err(|errno| resource("make an event descriptor", errno.into()))?;
        let stop = Arc::new(stop);
        let star = emulation::star(&setup.network, setup.taps.len().saturating_sub(1))?;
        let stop_of_thread = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("uc-wire".into())
            // Frames share their buffer pool without locks, so network and pool stay on the thread.
            .spawn(move || Relay::new(setup, &star, &stop_of_thread)?.run())
            .map_err(|source| resource("start a thread", source))?;
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
            Err(resource(
                "keep its emulator running",
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

pub(crate) fn resource(action: &'static str, source: io::Error) -> LabError {
    LabError::Resource { action, source }
}

/// Moves the calling thread to the lowest real-time priority: it runs as soon as a frame is due and
/// sleeps otherwise. Returns whether the kernel allowed it (CAP_SYS_NICE).
pub fn be_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live struct of the call's type; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}
