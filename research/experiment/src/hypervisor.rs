//! Hypervisors that take a guest's CPU away: `hypervisor = { vms = 3 }` of a group of guests, and
//! `receiver_hypervisor` of a case.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// `hypervisor`: which share of a core a guest has, and when.
///
/// The virtual machines of a core run one after the other, a slice each, whether they have anything
/// to do or not. What comes for one that isn't running waits in the driver domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hypervisor {
    /// Virtual machines that share a core, 1 to 64. Default 1: each has its own.
    pub vms: u32,
    /// How many of them are guests of this group, 1 to `vms`; the others do nothing but compute.
    /// Default 1.
    pub guests: u32,
    /// How long one runs before the next does. Default 30ms, Xen's.
    pub slice: Nanos,
    /// Each turn ends up to so much before its slice is over, at random. Default 0s. Slices of one
    /// length and transfers of one size fall into step.
    pub jitter: Nanos,
    /// The guests' timer interrupt: their timers fire on it, and on nothing else. Default 1ms.
    /// Simulator only: a kernel's own is what it was built with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<Nanos>,
    /// A packet for a guest that isn't running has it run at once, for so long, and then the one
    /// that it took the core from goes on. Where absent, packets wait for the guest's slice.
    /// Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boost: Option<Nanos>,
    /// Packets that wait for one guest in the driver domain, at most. Default 1000. Simulator only:
    /// a machine has the queues of its tap and its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// One long stall: the guests move to another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
}

impl Default for Hypervisor {
    fn default() -> Hypervisor {
        Hypervisor {
            vms: 1,
            guests: 1,
            slice: Nanos(30_000_000),
            jitter: Nanos(0),
            tick: None,
            boost: None,
            backlog: None,
            migration: None,
        }
    }
}

impl Hypervisor {
    /// The guests' timer interrupt where it is simulated.
    pub fn simulated_tick(&self) -> Nanos {
        self.tick.unwrap_or(Nanos(1_000_000))
    }

    /// What waits for one guest where it is simulated.
    pub fn simulated_backlog(&self) -> u32 {
        self.backlog.unwrap_or(1_000)
    }

    /// Whether a guest's CPU is ever taken away.
    pub fn stalls(&self) -> bool {
        self.vms > 1 || self.migration.is_some()
    }

    /// On how many cores so many guests are.
    pub fn cores(&self, guests: u32) -> u32 {
        guests.div_ceil(self.guests.max(1))
    }

    /// The keys that are set and that only the simulator obeys.
    pub(crate) fn simulated_keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let keys = [
            ("tick", self.tick.is_some()),
            ("boost", self.boost.is_some()),
            ("backlog", self.backlog.is_some()),
        ];
        keys.into_iter().filter(|(_, set)| *set).map(|(key, _)| key)
    }
}

/// In words: what follows the number of guests.
impl fmt::Display for Hypervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vms, slice) = (self.vms, self.slice);
        match (self.vms, self.guests) {
            (1, _) => write!(f, "on virtual machines with a core each")?,
            (_, 1) => write!(
                f,
                "each one of {vms} virtual machines on a core, {slice} in turn"
            )?,
            (_, guests) => {
                write!(
                    f,
                    "{guests} of {vms} virtual machines on a core, {slice} in turn"
                )?;
            }
        }
        if let Some(tick) = self.tick {
            write!(f, ", a tick every {tick}")?;
        }
        if let Some(boost) = self.boost {
            write!(f, ", run for {boost} by a packet")?;
        }
        if let Some(Migration { at, downtime }) = self.migration {
            write!(f, ", moved at {at} for {downtime}")?;
        }
        Ok(())
    }
}

/// A live migration: for a while the guests don't run at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// When they stop.
    pub at: Nanos,
    /// For how long.
    pub downtime: Nanos,
}

/// `pvtcp` of a stack: what a guest does when it finds that its CPU was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pvtcp {
    /// Retransmission timers that were due meanwhile are put off by a tick. Default true.
    pub defer: bool,
    /// What becomes of round-trip times that hold a stall. Default `srtt`, the paper's.
    pub rtt: RttFilter,
}

impl Default for Pvtcp {
    fn default() -> Pvtcp {
        Pvtcp {
            defer: true,
            rtt: RttFilter::Srtt,
        }
    }
}

/// In words.
impl fmt::Display for Pvtcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timers = if self.defer {
            "timers put off"
        } else {
            "timers as they are"
        };
        let samples = match self.rtt {
            RttFilter::Off => "round trips as measured",
            RttFilter::Srtt => "round trips of the spiked tick smoothed",
            RttFilter::Skip => "none of the spiked tick",
            RttFilter::Flight => "round trips that span a stall smoothed",
        };
        write!(f, "PVTCP ({timers}, {samples})")
    }
}

/// What becomes of round-trip times that hold a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RttFilter {
    /// They count.
    Off,
    /// Those that the first tick after the stall brings count as the smoothed one.
    Srtt,
    /// The same count for nothing.
    Skip,
    /// Those of what was sent before the stall count as the smoothed one, whenever they come.
    Flight,
}
