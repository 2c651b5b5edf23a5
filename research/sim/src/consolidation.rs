//! Placement of the virtual machines of a case: the core of each guest and receiver, and its phase
//! in time slices and ticks at the start of the run. Guests are not synchronised: each core and
//! each clock begins at a random phase, drawn from a stream of its own.

use std::collections::BTreeMap;

use uc_core::steal;
use uc_experiment::{Hypervisor, Pvtcp, RttFilter};
use uc_net::random::Stream;
use uc_net::{HostId, Nanos};

use crate::hypervisor::{CorePlan, MachinePlan};

/// The cores that virtual machines share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consolidation {
    /// The cores. The guests' VMs are numbered across all cores, in this order.
    pub cores: Vec<CorePlan>,
    /// Receivers' hosts that are VMs, with their VM numbers.
    pub receivers: BTreeMap<HostId, usize>,
}

/// A flow's VMs and their PVTCP policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtual {
    /// The guest's VM number; `None` for a guest with a core of its own.
    pub machine: Option<usize>,
    /// PVTCP policy of the guest, if it is a VM with PVTCP.
    pub pvtcp: Option<steal::Policy>,
    /// PVTCP policy of the receiver, if it is a VM with PVTCP.
    pub receiver_pvtcp: Option<steal::Policy>,
}

/// A builder that assigns guests to cores one after the other.
#[derive(Debug)]
pub struct Consolidator {
    seed: u64,
    machines: usize,
    cores: Vec<CorePlan>,
    receivers: BTreeMap<HostId, usize>,
}

impl Consolidator {
    /// Creates a builder without VMs for a run with this seed.
    pub fn new(seed: u64) -> Consolidator {
        Consolidator {
            seed,
            machines: 0,
            cores: Vec::new(),
            receivers: BTreeMap::new(),
        }
    }

    /// Adds `count` guests of a group under its hypervisor and returns the VM number of the first.
    pub fn add_group(&mut self, name: &str, count: u32, hypervisor: &Hypervisor) -> usize {
        let first = self.machines;
        let together = hypervisor.guests.max(1);
        let mut random = Stream::new(self.seed, &format!("hypervisor/{name}"));
        let mut left = count;
        while left > 0 {
            let guests = left.min(together);
            self.add_core(guests, hypervisor, &mut random);
            left -= guests;
        }
        first
    }

    /// Adds the receivers of a flow: each is one VM, on a core of its own.
    pub fn add_receivers(&mut self, hosts: &[HostId], hypervisor: &Hypervisor) {
        for &host in hosts {
            if self.receivers.contains_key(&host) {
                continue;
            }
            self.receivers.insert(host, self.machines);
            let name = format!("hypervisor/receiver/{}", host.0);
            self.add_core(1, hypervisor, &mut Stream::new(self.seed, &name));
        }
    }

    fn add_core(&mut self, guests: u32, hypervisor: &Hypervisor, random: &mut Stream) {
        let turns = hypervisor.vms.max(1);
        let round_ns = hypervisor.slice.0.saturating_mul(u64::from(turns)).max(1);
        let offset = Nanos(random.below(round_ns));
        let migration = hypervisor.migration;
        let tick = hypervisor.simulated_tick();
        let guests: Vec<MachinePlan> = (0..guests)
            .map(|_| MachinePlan {
                tick,
                tick_offset: Nanos(random.below(tick.0.max(1))),
                backlog_packets: hypervisor.simulated_backlog() as usize,
                migration: migration.map(|move_| (move_.at, move_.downtime)),
            })
            .collect();
        self.machines += guests.len();
        self.cores.push(CorePlan {
            turns,
            slice: hypervisor.slice,
            jitter: hypervisor.jitter,
            seed: self.seed,
            offset,
            boost: hypervisor.boost,
            guests,
        });
    }

    /// Returns the placement of guests on cores, once all are placed.
    pub fn into_consolidation(self) -> Consolidation {
        Consolidation {
            cores: self.cores,
            receivers: self.receivers,
        }
    }
}

/// Converts a stack's PVTCP settings to the core's policy.
pub fn pvtcp_policy(pvtcp: &Pvtcp) -> steal::Policy {
    use steal::consts::{FILTER_FLIGHT, FILTER_OFF, FILTER_SKIP, FILTER_SRTT, RETRANSMISSION};
    let filter = match pvtcp.rtt {
        RttFilter::Off => FILTER_OFF,
        RttFilter::Srtt => FILTER_SRTT,
        RttFilter::Skip => FILTER_SKIP,
        RttFilter::Flight => FILTER_FLIGHT,
    };
    steal::Policy {
        timers: u8::from(pvtcp.defer) << RETRANSMISSION,
        filter: filter as u8,
        ..steal::Policy::paper()
    }
}
