//! `uc guest` for PVTCP without a kernel module.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use uc_guest::{LeastTimeout, LeastTimeoutState, Pvtcp, Store};

/// Options of `uc guest load pvtcp`.
#[derive(Args)]
pub struct LeastTimeoutOptions {
    /// Minimum RTO while the host does not stall the guest, in milliseconds; at least two of the kernel's
    /// timer ticks. The rto_min of a route overrides it [default: 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u8).range(1..=200))]
    rto_min: Option<u8>,
    /// Number of seconds for which the minimum RTO stays raised after a stall [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    hold: Option<u16>,
    /// Apply only to connections of this control group and the groups below it, instead of the
    /// whole machine
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
}

impl LeastTimeoutOptions {
    /// Loads PVTCP's programs with these settings.
    pub fn load(&self, store: &Store) -> Result<()> {
        let usual = LeastTimeout::default();
        let policy = LeastTimeout {
            least: self
                .rto_min
                .map_or(usual.least, |ms| Duration::from_millis(ms.into())),
            hold: self
                .hold
                .map_or(usual.hold, |seconds| Duration::from_secs(seconds.into())),
        };
        Ok(store.load_pvtcp(&policy, self.cgroup.as_deref())?)
    }

    /// Returns the name of the first of these options that was given; `None` if none was.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("rto-min", self.rto_min.is_some()),
            ("hold", self.hold.is_some()),
            ("cgroup", self.cgroup.is_some()),
        ];
        all.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// The state of PVTCP, as `uc guest list` shows it.
#[derive(Serialize)]
pub struct LeastTimeoutRow {
    rto_min_ms: u64,
    hold_s: u64,
    stalls: u64,
    longest_ms: u64,
    connections: u64,
    raised: u64,
    lowered: u64,
    timeouts: u64,
    after_stall: u64,
    refused: u64,
}

impl LeastTimeoutRow {
    /// Reads the state of PVTCP's programs; `None` if they are not loaded.
    pub fn of(store: &Store) -> Result<Option<Self>> {
        Ok(store.pvtcp()?.as_ref().map(Self::from))
    }

    /// Prints the settings and counters in a line for people.
    pub fn print(&self) {
        outln!(
            "{}: least timeout {} ms, raised for {} s; {} stalls, the longest of late {} ms; {} \
             connections, {} times raised, {} lowered; {} timeouts, {} of them after a stall",
            Pvtcp::NAME,
            self.rto_min_ms,
            self.hold_s,
            self.stalls,
            self.longest_ms,
            self.connections,
            self.raised,
            self.lowered,
            self.timeouts,
            self.after_stall,
        );
        if self.refused > 0 {
            outln!(
                "{}: the kernel refused {} ms {} times: it is less than two of its ticks; load it \
                 with a larger --rto-min",
                Pvtcp::NAME,
                self.rto_min_ms,
                self.refused
            );
        }
    }
}

impl From<&LeastTimeoutState> for LeastTimeoutRow {
    fn from(state: &LeastTimeoutState) -> Self {
        Self {
            rto_min_ms: state.policy.least.as_millis() as u64,
            hold_s: state.policy.hold.as_secs(),
            stalls: state.stalls,
            longest_ms: state.longest.as_millis() as u64,
            connections: state.sockets,
            raised: state.raised,
            lowered: state.lowered,
            timeouts: state.timeouts,
            after_stall: state.after_stall,
            refused: state.refused,
        }
    }
}
