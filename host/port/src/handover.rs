//! Flows of a guest that moves to another host: its port there takes them over from its port here.
//!
//! A flow takes its state and its policy along. What belongs to a host stays: its place, its group,
//! its recorded events, and what a port knows of remote addresses. The new port gives it a rule, if
//! one of its rules matches, and a group, at its next ACK.

mod elsewhere;
mod enter;
mod file;
pub(crate) mod obstacle;

use std::time::{SystemTime, UNIX_EPOCH};

use uc_core::rule::Rule;
use uc_core::{Annex, Reason, consts};
use uc_law::PortPlan;
use zerocopy::IntoBytes;

use crate::bytes::read;
use crate::error::PortError;
use crate::flows::{FlowView, key_bytes};
use crate::hooks::now_ns;
use crate::layout::{UC_SLOT_ANNEXED, UC_SLOT_HALF_OPEN, uc_slot};
use crate::programs::Programs;
use crate::store::Store;

pub(crate) use enter::Enter;
use file::HandedFlow;

pub use file::{Handover, HandoverError};
pub use obstacle::{LeftFlow, Obstacle};

/// Unit in ns by which the times in a flow's state are moved to another clock (`core/rebase.h`).
const UNIT_NS: i128 = consts::REBASE_NS as i128;

/// Maximum age of a file in ns. If the hosts' clocks give a greater age, or one below 0, it counts as 0.
const AGE_MAX_NS: u64 = 60_000_000_000;

impl Handover {
    /// Returns the units of [`UNIT_NS`] by which this host's monotonic clock is ahead of the exporting one's, which
    /// may be negative. `realtime_ns` and `monotonic_ns`: the present time on this host.
    fn ahead(&self, realtime_ns: u64, monotonic_ns: u64) -> i64 {
        let age_ns = realtime_ns.checked_sub(self.realtime_ns);
        let age_ns = age_ns.filter(|age_ns| *age_ns <= AGE_MAX_NS).unwrap_or(0);
        let there_ns = i128::from(self.monotonic_ns) + i128::from(age_ns);
        (i128::from(monotonic_ns) - there_ns).div_euclid(UNIT_NS) as i64
    }
}

impl HandedFlow {
    fn left(&self, why: Obstacle) -> LeftFlow {
        LeftFlow {
            guest: self.guest,
            remote: self.remote,
            vlan: self.vlan,
            why,
        }
    }

    /// Moves the times in the flow's state by `units` of [`UNIT_NS`]. If the last segment was before this host's clock
    /// began, its time becomes 1 ns.
    fn rebase(&mut self, units: i64) {
        let seen_ns = i128::from(self.state.seen_ns) + i128::from(units) * UNIT_NS;
        self.state.rebase(units);
        if seen_ns < 1 {
            self.state.seen_ns = 1;
        }
    }
}

impl From<FlowView> for HandedFlow {
    fn from(flow: FlowView) -> Self {
        HandedFlow {
            guest: flow.guest,
            remote: flow.remote,
            vlan: flow.vlan,
            dscps: flow.dscps,
            state: flow.state,
            fits: true,
        }
    }
}

/// The result of entering another host's flows into this host's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Number of flows that the port has taken over.
    pub flows: usize,
    /// Number of flows that the port had already; they stay as they were.
    pub known: usize,
    /// Flows that the port could not take over, with the reasons.
    pub left: Vec<LeftFlow>,
}

/// The port that takes over flows of another host.
struct Heir {
    ifindex: u32,
    /// Index of the port in the programs' counters.
    number: u32,
    plan: PortPlan,
    generation: u32,
}

impl Heir {
    /// Returns the index of the first rule that matches a flow; `None` if no rule does.
    fn rule_of(&self, flow: &HandedFlow) -> Option<usize> {
        let is_its = |rule: &Rule| rule.matches.matches(flow.guest, flow.remote, flow.dscps[0]);
        self.plan.rules.iter().position(is_its)
    }

    /// Returns whether the flow's rule only observes, so that the port writes nothing into the flow's packets.
    fn observes(&self, flow: &HandedFlow) -> bool {
        let rule = self.rule_of(flow).map(|at| &self.plan.rules[at]);
        rule.is_some_and(|rule| u32::from(rule.policy.modes) & consts::MODE_OBSERVE != 0)
    }

    /// Returns a flow's table entry. If no rule matches the flow, the entry has the generation of the plan before,
    /// which is no longer in force.
    fn slot(&self, flow: &HandedFlow) -> uc_slot {
        let [dscp, kept_dscp] = flow.dscps;
        let at = self.rule_of(flow);
        let mut slot = uc_slot {
            generation: self.generation.wrapping_sub(u32::from(at.is_none())) as u16,
            number: self.number as u16,
            rule_number: at.map_or(0, |at| self.plan.rules[at].number),
            rule: at.unwrap_or(0) as u8,
            dscp,
            kept_dscp,
            flow: flow.state.flow,
            ..uc_slot::default()
        };
        let key = key_bytes(self.ifindex, flow.guest, flow.remote, flow.vlan);
        slot.key = read(&key).unwrap_or_default();
        if flow.state.has_annex() {
            slot.bits |= UC_SLOT_ANNEXED as u8;
        }
        if uc_core::is_half_open(&flow.state) {
            slot.bits |= UC_SLOT_HALF_OPEN as u8;
        }
        slot
    }
}

impl Programs {
    /// Returns the flows of a port that another host can take over, and the others with the reasons. All of them go on
    /// at this port. A flow that was idle so long that its table entry may be reused is in neither list.
    pub fn flows_to_send(&self, ifindex: u32) -> Result<(Handover, Vec<LeftFlow>), PortError> {
        let (mut flows, mut left) = (Vec::new(), Vec::new());
        let began_ns = now_ns();
        self.each_flow(|flow| {
            if flow.ifindex != ifindex || uc_core::is_stale(&flow.state, began_ns) {
                return;
            }
            let flow = HandedFlow::from(flow);
            match flow.obstacle() {
                Some(why) => left.push(flow.left(why)),
                None => flows.push(flow),
            }
        })?;
        let (realtime_ns, monotonic_ns) = clocks();
        let handover = Handover {
            realtime_ns,
            monotonic_ns,
            flows,
            dropped: Vec::new(),
        };
        Ok((handover, left))
    }

    /// Enters another host's flows as those of a port that has a plan. Returns those that it could not
    /// enter; their segments pass unmodified.
    ///
    /// # Errors
    /// [`PortError::NotAttached`]; the kernel's refusal. Flows that were entered before stay.
    pub fn receive_flows(
        &self,
        ifindex: u32,
        handover: &Handover,
    ) -> Result<Vec<LeftFlow>, PortError> {
        let heir = self.heir(ifindex)?;
        let enter = Enter::load(self)?;
        let (realtime_ns, monotonic_ns) = clocks();
        let ahead = handover.ahead(realtime_ns, monotonic_ns);
        let mut left = Vec::new();
        for flow in &handover.flows {
            if let Some(why) = self.enter(&enter, &heir, flow.clone(), ahead)? {
                left.push(flow.left(why));
            }
        }
        Ok(left)
    }

    fn heir(&self, ifindex: u32) -> Result<Heir, PortError> {
        let state = self.port_states()?.remove(&ifindex);
        let (Some(state), Some(plan)) = (state, self.plan(ifindex)?) else {
            let name = format!("port {ifindex}");
            return Err(PortError::NotAttached { name });
        };
        Ok(Heir {
            ifindex,
            number: state.number,
            plan,
            generation: self.plan_generation()?,
        })
    }

    /// Enters a flow, `ahead` units of [`UNIT_NS`] later. Returns why it can't be entered; `None` if it was.
    fn enter(
        &self,
        enter: &Enter,
        heir: &Heir,
        mut flow: HandedFlow,
        ahead: i64,
    ) -> Result<Option<Obstacle>, PortError> {
        flow.state.return_to_law();
        flow.rebase(ahead);
        if let Some(why) = flow.obstacle() {
            return Ok(Some(why));
        }
        if uc_core::is_stale(&flow.state, now_ns()) {
            return Ok(Some(Obstacle::Over));
        }
        if heir.observes(&flow) {
            return Ok(Some(Obstacle::Observed));
        }
        if flow.state.is_coupled() && heir.plan.coupling.is_none() {
            return Ok(Some(Obstacle::NoGroup));
        }
        let slot = heir.slot(&flow);
        self.enter_slot(enter, &slot, &flow.state.annex, heir.plan.flows_max)
    }

    /// Enters a flow with this content of its table entry; the program chooses the entry. Returns why the flow can't
    /// be entered; `None` if it was.
    pub(crate) fn enter_slot(
        &self,
        enter: &Enter,
        slot: &uc_slot,
        annex: &Annex,
        flows_max: u32,
    ) -> Result<Option<Obstacle>, PortError> {
        Ok(match enter.run(slot, annex, flows_max)? {
            Reason::TRANSLATED => None,
            _ if self.flow_of(slot.key.as_bytes())?.is_some() => Some(Obstacle::Known),
            Reason::QUOTA_FULL => Some(Obstacle::Quota),
            _ => Some(Obstacle::Full),
        })
    }
}

impl Store {
    /// Returns the flows of an attached port for another host ([`Programs::flows_to_send`]).
    ///
    /// # Errors
    /// [`PortError::NotAttached`]; the kernel's refusal.
    pub fn flows_to_send(&self, name: &str) -> Result<(Handover, Vec<LeftFlow>), PortError> {
        let _turn = self.lock()?;
        let (programs, ifindex) = self.open_port(name)?;
        programs.flows_to_send(ifindex)
    }

    /// Enters another host's flows as those of an attached port ([`Programs::receive_flows`]).
    ///
    /// # Errors
    /// A port that is not attached, drains or has no plan; the kernel's refusal.
    pub fn receive_flows(&self, name: &str, handover: &Handover) -> Result<TakenOver, PortError> {
        let _turn = self.lock()?;
        let (programs, ifindex) = self.open_port(name)?;
        if programs.leaving()?.contains(&ifindex) {
            let name = name.to_owned();
            return Err(PortError::Other(format!(
                "'{name}' drains, so nothing is translated there; run `uc attach {name}` first"
            )));
        }
        if programs.plan(ifindex)?.is_none() {
            let name = name.to_owned();
            return Err(PortError::Other(format!(
                "'{name}' has no law since an upgrade; run `uc detach {name}`, then `uc attach \
                 {name}` with its options"
            )));
        }
        let mut left = programs.receive_flows(ifindex, handover)?;
        let flows = handover.len() - left.len();
        left.retain(|flow| flow.why != Obstacle::Known);
        Ok(TakenOver {
            flows,
            known: handover.len() - flows - left.len(),
            left,
        })
    }

    /// Opens the programs, with the index of an attached port.
    fn open_port(&self, name: &str) -> Result<(Programs, u32), PortError> {
        let programs = self.open()?;
        let ports = self.indices(&[name.to_owned()])?;
        match (programs, ports.first()) {
            (Some(programs), Some(&ifindex)) => Ok((programs, ifindex)),
            _ => {
                let name = name.to_owned();
                Err(PortError::NotAttached { name })
            }
        }
    }
}

/// Returns the time in ns since 1970, and that of the monotonic clock. The system may stop this thread between the
/// two, so it reads both eight times, and returns the pair whose reading took the least time.
fn clocks() -> (u64, u64) {
    let read = |_| {
        let began_ns = now_ns();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let took_ns = now_ns() - began_ns;
        let realtime_ns = since.map_or(0, |since| since.as_nanos() as u64);
        (took_ns, realtime_ns, began_ns + took_ns / 2)
    };
    let (_, realtime_ns, monotonic_ns) = (0..8).map(read).min().unwrap_or_default();
    (realtime_ns, monotonic_ns)
}

#[cfg(test)]
mod tests {
    use uc_core::{Flow, FlowState};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn sent_at(realtime_ns: u64, monotonic_ns: u64) -> Handover {
        Handover {
            realtime_ns,
            monotonic_ns,
            flows: Vec::new(),
            dropped: Vec::new(),
        }
    }

    #[test]
    fn clocks_differ_by_their_readings_less_the_age_of_the_file() {
        let file = sent_at(1_000 * SECOND_NS, 50 * SECOND_NS);
        let ahead = |realtime_s: u64, monotonic_s: u64| {
            let units = file.ahead(realtime_s * SECOND_NS, monotonic_s * SECOND_NS);
            units as f64 * UNIT_NS as f64 / SECOND_NS as f64
        };
        let is_near = |seconds: f64, bar: f64| (seconds - bar).abs() < 0.001;
        assert!(is_near(ahead(1_000, 50), 0.0));
        assert!(is_near(ahead(1_003, 90), 37.0));
        assert!(is_near(ahead(1_060, 10), -100.0), "the oldest");
        assert!(is_near(ahead(1_061, 10), -40.0), "too old");
        assert!(is_near(ahead(999, 10), -40.0), "from the future");
    }

    #[test]
    fn no_reading_of_the_clocks_overflows() {
        for there in [0, 1, u64::MAX] {
            for here in [0, 1, u64::MAX] {
                sent_at(there, there).ahead(here, here);
                sent_at(here, there).ahead(there, here);
            }
        }
    }

    /// The host has started after the flow's last segment.
    #[test]
    fn a_moment_before_the_clock_began_is_its_beginning() {
        let view = |seen_ns: u64| {
            let state = FlowState {
                seen_ns,
                ..FlowState::default()
            };
            let end = "10.0.0.1:1".parse().unwrap();
            HandedFlow::from(FlowView::of(1, end, end, Flow::from(state)))
        };
        for (seen_s, back_s, expected_ns) in [
            (100, 40, 60 * SECOND_NS),
            (100, 100, 1),
            (100, 200, 1),
            (0, 0, 1),
        ] {
            let mut flow = view(seen_s * SECOND_NS);
            flow.rebase(-(back_s * SECOND_NS as i64) / UNIT_NS as i64);
            let seen_ns = flow.state.seen_ns;
            assert!(
                seen_ns.abs_diff(expected_ns) < UNIT_NS as u64 && seen_ns > 0,
                "{seen_ns}"
            );
        }
    }
}
