//! Hypervisors that take a guest's CPU away at times: `hypervisor = { vms = 3 }` of a group of
//! guests, and `receiver_hypervisor` of a case.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// `hypervisor`: the sharing of CPU cores by virtual machines.
///
/// The virtual machines of a core run one after the other, a slice each, whether they have anything to do or not.
/// Packets for a virtual machine that isn't running wait in the driver domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hypervisor {
    /// Number of virtual machines that share a core, 1 to 64. Default 1: each has its own.
    pub vms: u32,
    /// Number of virtual machines of a core that are guests of this group, 1 to `vms`; the others only compute. Default
    /// 1.
    pub guests: u32,
    /// Length of a time slice. Default 30ms, Xen's.
    pub slice: Nanos,
    /// Maximum random shortening of each slice. Default 0s, with which slices of one length and transfers of one size
    /// fall into step.
    pub jitter: Nanos,
    /// Interval of the guests' timer interrupt, on which alone their timers fire. Default 1ms.
    /// Simulator only: a kernel's interval is fixed when it is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<Nanos>,
    /// Boost: a packet for a guest that isn't running makes the guest run at once, for this time; then the interrupted
    /// virtual machine continues. If absent, packets wait for the guest's slice. Simulator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boost: Option<Nanos>,
    /// Maximum number of packets that wait for one guest in the driver domain. Default 1000.
    /// Simulator only: a VM has the queues of its tap and its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// A live migration to another host: one long stall.
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
    /// Returns the interval of the simulated timer interrupt.
    pub fn simulated_tick(&self) -> Nanos {
        self.tick.unwrap_or(Nanos(1_000_000))
    }

    /// Returns the maximum number of packets that wait for a simulated guest.
    pub fn simulated_backlog(&self) -> u32 {
        self.backlog.unwrap_or(1_000)
    }

    /// Returns whether a guest's CPU is ever taken away.
    pub fn stalls(&self) -> bool {
        self.vms > 1 || self.migration.is_some()
    }

    /// Returns the number of cores that this many guests of the group need.
    pub fn cores(&self, guests: u32) -> u32 {
        guests.div_ceil(self.guests.max(1))
    }

    /// Returns the keys that are set and that only the simulator supports.
    pub(crate) fn simulated_keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let keys = [
            ("tick", self.tick.is_some()),
            ("boost", self.boost.is_some()),
            ("backlog", self.backlog.is_some()),
        ];
        keys.into_iter().filter(|(_, set)| *set).map(|(key, _)| key)
    }
}

/// Formats the sharing in words, to follow the number of guests.
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

/// A live migration, during which the guests don't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// Start of the migration.
    pub at: Nanos,
    /// Length of the migration's downtime.
    pub downtime: Nanos,
}

/// `pvtcp` of a stack: a guest's handling of stalls, times in which its CPU was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pvtcp {
    /// Whether retransmission timers that were due during a stall are deferred by a tick. Default
    /// true.
    pub defer: bool,
    /// Use of round-trip times that contain a stall. Default `srtt`, the paper's.
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

/// Formats the settings in words.
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

/// The use of round-trip times that contain a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RttFilter {
    /// Samples count as measured.
    Off,
    /// Each sample of the first tick after the stall is replaced by the smoothed round-trip time.
    Srtt,
    /// Samples of the first tick after the stall are ignored.
    Skip,
    /// Each sample of a segment sent before the stall is replaced by the smoothed round-trip time,
    /// whenever it comes.
    Flight,
}
