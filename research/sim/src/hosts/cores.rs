//! The cores of a scenario and the virtual machines on them.

use super::timer_owner::TimerOwner;
use crate::hypervisor::Core;
use crate::hypervisor::machine::Machine;
use crate::scenario::Scenario;
use crate::timers::{TimerId, Timers};

/// All cores and the virtual machines on them.
#[derive(Debug, Default)]
pub(super) struct Machines {
    pub(super) cores: Vec<Core>,
    pub(super) all: Vec<Machine>,
    pub(super) core_timers: Vec<TimerId>,
}

impl Machines {
    /// Creates the cores of a scenario, and a timer for each.
    pub(super) fn new(
        scenario: &Scenario,
        timers: &mut Timers,
        owners: &mut Vec<TimerOwner>,
    ) -> Machines {
        let mut machines = Machines::default();
        for plan in &scenario.consolidation.cores {
            let (number, first) = (machines.cores.len(), machines.all.len());
            let core = Core::new(plan, first);
            for (guest, plan) in plan.guests.iter().enumerate() {
                let has_core = core.running() == Some(first + guest);
                machines.all.push(Machine::new(plan, number, has_core));
                let Some((at, downtime)) = plan.migration else {
                    continue;
                };
                for (at, begins) in [(at, true), (at + downtime, false)] {
                    let timer = timers.add();
                    owners.push(TimerOwner::Migration(first + guest, begins));
                    timers.set(timer, Some(at));
                }
            }
            let timer = timers.add();
            owners.push(TimerOwner::Core(number));
            timers.set(timer, core.next_change());
            machines.core_timers.push(timer);
            machines.cores.push(core);
        }
        machines
    }

    /// Returns switches between VMs, switches caused by packets, and packets dropped for want of
    /// room in a driver domain; `None` where no core is simulated.
    pub(super) fn counts(&self) -> Option<[(&'static str, u64); 3]> {
        let switches = self.cores.iter().map(Core::switches).sum();
        let boosts = self.cores.iter().map(Core::boosts).sum();
        let dropped = self.all.iter().map(Machine::dropped).sum();
        let counts = [
            ("hypervisor_switches", switches),
            ("hypervisor_boosts", boosts),
            ("hypervisor_dropped", dropped),
        ];
        (!self.cores.is_empty()).then_some(counts)
    }
}
