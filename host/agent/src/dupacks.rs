//! Duplicate ACKs of the host: one process of `uc dupack` sends them to the guests of all ports with
//! `dupack`. If the process ends, the ports' programs go on, and guests wait for their timers until it runs
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use uc_client::state::DupackState;
use uc_dupack::{PortSetup, Setup, Status};
use uc_words::units::Nanos;

use crate::command::{Command, Running};
use crate::desired::Wanted;

/// `uc dupack`, which the agent runs.
#[derive(Debug)]
struct Dupack;

impl Command for Dupack {
    const NAME: &'static str = "uc dupack";
    const ARGUMENTS: &'static [&'static str] = &["dupack", "--settings-on-stdin"];
    type Task = Setup;
    type Status = Status;

    fn ask() -> Option<Status> {
        Status::ask().ok()
    }

    fn pid(status: &Status) -> u32 {
        status.pid
    }

    fn task(status: &Status) -> &Setup {
        &status.setup
    }

    fn is_idle(_: &Status) -> bool {
        true
    }
}

/// The process, and the ports at which it sends.
#[derive(Debug)]
pub struct Dupacks {
    enabled: bool,
    running: Running<Dupack>,
    /// Ports at which the process can't send, each with the reason.
    refused: BTreeMap<String, String>,
}

impl Dupacks {
    /// Creates the duplicate ACKs of a host, whose process has not started.
    pub fn new() -> Self {
        Self {
            enabled: true,
            running: Running::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Disables the process: an agent that does not stay cannot supervise it.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    /// Returns the longest time between two calls of [`Dupacks::look_after`].
    pub fn interval(&self) -> Duration {
        self.running.interval()
    }

    /// Sends duplicate ACKs to the guests of these ports from now on.
    pub fn want(&mut self, desired: &BTreeMap<u32, Wanted>) {
        if self.enabled {
            self.running.tell(setup(desired));
        }
    }

    /// Starts the process when it is due, asks for its status, and ends it when it has nothing to do.
    pub fn look_after(&mut self) {
        self.running.look_after();
        let refused = self.running.in_force().map(|said| said.refused.clone());
        let refused = refused.unwrap_or_default();
        if refused != self.refused {
            for (port, why) in &refused {
                tracing::error!(port, why, "its guest gets no duplicate ACKs");
            }
            self.refused = refused;
        }
    }

    /// Ends the process.
    pub fn end(&mut self) {
        self.running.end();
    }

    /// Returns the state; `None` if no port's guest gets duplicate ACKs or should get them.
    pub fn state(&self) -> Option<DupackState> {
        let ports = self.running.told().ports.iter();
        let ports = ports.map(|port| port.name.clone());
        let ports = ports.filter(|port| !self.refused.contains_key(port));
        self.running.state(ports.collect(), self.refused.clone())
    }
}

/// Returns the task of the process.
fn setup(desired: &BTreeMap<u32, Wanted>) -> Setup {
    let wanted = desired.iter().filter(|(_, port)| !port.held);
    let port = |(ifindex, port): (&u32, &Wanted)| {
        let dupack = port.dupack?;
        let time = |time: Nanos| Duration::from_nanos(time.0);
        let short_tails = dupack.short_tails.map(time);
        Some(PortSetup::new(
            &port.name,
            *ifindex,
            time(dupack.least),
            short_tails,
        ))
    };
    Setup {
        ports: wanted.filter_map(port).collect(),
    }
}
