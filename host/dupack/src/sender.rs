//! Walks through the flow table at intervals, and sends what the core says is due.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use uc_core::dupack::{Policy, Rounds, segment};
use uc_core::{Law, consts};
use uc_port::{FlowView, PortPlan, Programs, interface_index};

use crate::error::DupackError;
use crate::frame::frame;
use crate::wire::Wire;

/// Shortest time from one walk to the next.
const WALK_EVERY: Duration = Duration::from_millis(2);
/// A walk is followed by a pause this many times as long, so a large table takes no more of a processor.
const PAUSE_PER_WALK: u32 = 10;

/// How much was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Rounds of duplicate ACKs; a flow may get several.
    pub rounds: u64,
    /// Duplicate ACKs that ports took.
    pub duplicate_acks: u64,
    /// Rounds of which nothing was sent, because the guest has opened or accepted no connection since the
    /// start and its Ethernet address is unknown.
    pub unknown_guests: u64,
}

/// A flow: the index of its port, the guest's end and the remote one.
type Key = (u32, SocketAddr, SocketAddr);

/// The ports, and what was done for their flows. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Sender {
    programs: Programs,
    policy: Policy,
    wires: BTreeMap<u32, Wire>,
    /// Flows that had a round; a flow that the walk does not meet is forgotten.
    rounds: HashMap<Key, Rounds>,
    counts: Counts,
    pause: Duration,
    /// One for each port: the kernel frees the place when the process ends, however it does.
    _places: Vec<UnixListener>,
}

impl Sender {
    /// Checks that duplicate ACKs can help at these ports, and begins to learn their guests' addresses.
    ///
    /// # Errors
    /// The precondition that does not hold, or what the kernel refuses; nothing is left then.
    pub fn new(programs: Programs, names: &[String], policy: Policy) -> Result<Self, DupackError> {
        let mut wires = BTreeMap::new();
        let mut places = Vec::new();
        for name in names {
            let ifindex = interface_index(name)?;
            if wires.contains_key(&ifindex) {
                continue;
            }
            let Some(plan) = programs.plan(ifindex)? else {
                return Err(DupackError::NotAttached { name: name.clone() });
            };
            if !is_heard(&plan) {
                return Err(DupackError::Deaf { name: name.clone() });
            }
            places.push(take_place(name, ifindex)?);
            wires.insert(ifindex, Wire::open(ifindex)?);
        }
        Ok(Self {
            programs,
            policy,
            wires,
            rounds: HashMap::new(),
            counts: Counts::default(),
            pause: WALK_EVERY,
            _places: places,
        })
    }

    /// Returns how much was sent so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the time from the last walk to the next.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Walks through the flow table once.
    ///
    /// # Errors
    /// The kernel's refusal to read the table.
    pub fn walk(&mut self) -> Result<(), DupackError> {
        let began = Instant::now();
        self.wires.values_mut().for_each(Wire::learn);
        let now_ns = now_ns();
        let mut met = HashMap::new();
        let mut due = Vec::new();
        let (wires, policy, rounds) = (&self.wires, &self.policy, &self.rounds);
        self.programs.each_flow(|flow| {
            let key = (flow.ifindex, flow.guest, flow.remote);
            if !wires.contains_key(&flow.ifindex) {
                return;
            }
            let before = rounds.get(&key).copied();
            let mut own = before.unwrap_or_default();
            let count = own.take(policy, &flow.state, now_ns);
            if count > 0 {
                due.push((flow, count));
            }
            if count > 0 || before.is_some() {
                met.insert(key, own);
            }
        })?;
        self.rounds = met;
        for (flow, count) in due {
            self.send(&flow, count);
        }
        self.pause = WALK_EVERY.max(began.elapsed() * PAUSE_PER_WALK);
        Ok(())
    }

    /// Sends a flow's duplicate ACKs to its guest.
    fn send(&mut self, flow: &FlowView, count: u32) {
        let Some(wire) = self.wires.get(&flow.ifindex) else {
            return;
        };
        let link = wire.link(flow.guest.ip());
        let ack = segment(&flow.state);
        let Some(bytes) = link.and_then(|link| frame(link, flow.remote, flow.guest, &ack)) else {
            self.counts.unknown_guests += 1;
            return;
        };
        let sent = (0..count).filter(|_| wire.send(&bytes)).count();
        self.counts.rounds += 1;
        self.counts.duplicate_acks += sent as u64;
    }
}

/// Returns whether a rule of the port makes guests listen to duplicate ACKs of the host.
fn is_heard(plan: &PortPlan) -> bool {
    let removed = consts::WITHHELD_SACK | consts::WITHHELD_TIMESTAMPS;
    plan.rules.iter().any(|rule| {
        let modes = u32::from(rule.policy.modes);
        Law::of(&rule.policy) != Law::PASS
            && modes & consts::MODE_OBSERVE == 0
            && modes & removed == removed
    })
}

/// Takes the place of the one process that sends duplicate ACKs at a port: an abstract Unix socket, whose
/// name belongs to the network namespace.
fn take_place(name: &str, ifindex: u32) -> Result<UnixListener, DupackError> {
    let address = format!("undercurrent/dupack/{ifindex}");
    std::os::unix::net::SocketAddr::from_abstract_name(address)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => DupackError::Taken { name: name.into() },
            _ => DupackError::kernel("create a Unix socket", error),
        })
}

/// Returns the time by the clock of the port programs.
fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::Policy as LawPolicy;

    #[test]
    fn only_ports_whose_flows_lose_sack_and_timestamps_are_heard() {
        let heard = |law: u32, modes: u32| {
            let policy = LawPolicy {
                modes: modes as u8,
                ..LawPolicy::new(law, consts::PROFILE_LINUX)
            };
            is_heard(&PortPlan::of_all(policy, None))
        };
        let both = consts::WITHHELD_SACK | consts::WITHHELD_TIMESTAMPS;
        assert!(heard(consts::LAW_ECN, both));
        assert!(heard(consts::LAW_DELAY, both | consts::WITHHELD_WSCALE));
        assert!(!heard(consts::LAW_ECN, consts::WITHHELD_SACK));
        assert!(!heard(consts::LAW_ECN, consts::WITHHELD_TIMESTAMPS));
        assert!(!heard(consts::LAW_ECN, both | consts::MODE_OBSERVE));
        assert!(!heard(consts::LAW_PASS, both));
        assert!(!is_heard(&PortPlan::default()));
    }
}
