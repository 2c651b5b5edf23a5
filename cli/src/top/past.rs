//! Goodput and limits of each port, tenant and flow in the last samples.

use std::collections::{BTreeMap, VecDeque};

use uc_client::AgentState;

use super::source::Sample;
use crate::seen::{FlowRow, Limit, PortRow};

/// Maximum number of samples that are stored: one minute at one sample per second.
pub const SAMPLES: usize = 60;
/// Maximum number of flows whose past samples are stored. If there are more, only those of ports and tenants are.
const FLOWS_MAX: usize = 4096;

/// The characters of a sparkline's bars, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Number of flows by their limit, in the order of [`Limit::ALL`].
type Limits = [u32; Limit::ALL.len()];

/// Values of a port, tenant or flow in one sample.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    bits_per_s: u64,
    limits: Limits,
    /// Number of packets that the port, or a tenant's ports, have dropped since the programs were loaded.
    dropped: u64,
}

impl Look {
    fn add(&mut self, other: Look) {
        self.bits_per_s += other.bits_per_s;
        self.dropped += other.dropped;
        for (sum, flows) in self.limits.iter_mut().zip(other.limits) {
            *sum += flows;
        }
    }
}

/// The last samples of one port, tenant or flow, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Trail(VecDeque<Look>);

impl Trail {
    fn push(&mut self, look: Look) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(look);
    }

    /// Returns how many packets were dropped between the first and the last stored sample.
    pub fn dropped(&self) -> u64 {
        let first = self.0.front().map_or(0, |look| look.dropped);
        let last = self.0.back().map_or(0, |look| look.dropped);
        last.saturating_sub(first)
    }

    /// Draws the goodput of the last `width` samples, the newest at the right. The largest goodput gets the highest
    /// bar, a goodput of 0 no bar.
    pub fn sparkline(&self, width: usize) -> String {
        let last = self.0.iter().skip(self.0.len().saturating_sub(width));
        let largest = last.clone().map(|look| look.bits_per_s).max().unwrap_or(0);
        let bar = |rate: u64| match rate {
            0 => ' ',
            // 1 to 8, since the rate is at most the largest
            rate => BARS[(u128::from(rate) * 8).div_ceil(u128::from(largest)) as usize - 1],
        };
        let bars: String = last.map(|look| bar(look.bits_per_s)).collect();
        format!("{bars:>width$}")
    }

    /// Returns what limited the flows in the stored samples: the percentage of each limit over all samples of active
    /// flows, the largest first.
    pub fn held(&self) -> Vec<(Limit, u32)> {
        let mut sums: Limits = Limits::default();
        for look in &self.0 {
            for (sum, flows) in sums.iter_mut().zip(look.limits) {
                *sum += flows;
            }
        }
        let all: u32 = sums.iter().sum();
        let percent = |flows: u32| (flows * 200 + all) / (2 * all);
        let mut held: Vec<(Limit, u32)> = Limit::ALL
            .into_iter()
            .zip(sums)
            .filter(|(_, flows)| *flows > 0)
            .map(|(limit, flows)| (limit, percent(flows)))
            .collect();
        held.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
        held
    }
}

/// The last samples of all ports, tenants and flows in the newest sample.
#[derive(Debug, Default)]
pub struct Past {
    ports: BTreeMap<String, Trail>,
    tenants: BTreeMap<String, Trail>,
    flows: BTreeMap<String, Trail>,
}

/// Returns whether a flow had data in flight or goodput. Nothing limits a flow that has neither.
fn is_active(flow: &FlowRow) -> bool {
    flow.flight_bytes > 0 || flow.sent_bits_per_s.unwrap_or(0) > 0
}

/// Returns the name of a port; the interface's index if the interface is gone.
pub fn port_name(port: &PortRow) -> String {
    let index = || port.ifindex.to_string();
    port.name.clone().unwrap_or_else(index)
}

/// Returns the tenant that the agent names for a port; "no tenant" if it names none.
pub fn tenant(agent: Option<&AgentState>, ifindex: u32) -> String {
    let mut ports = agent.iter().flat_map(|agent| &agent.ports);
    let port = ports.find(|port| port.ifindex == ifindex);
    let tenant = port.and_then(|port| port.tenant.clone());
    tenant.unwrap_or_else(|| "no tenant".to_owned())
}

impl Past {
    /// Adds a sample, and removes ports, tenants and flows that the sample does not contain.
    pub fn add(&mut self, sample: &Sample) {
        let (ports, flows) = (&sample.seen.ports, &sample.seen.flows);
        let agent = sample.agent.as_ref();
        let mut by_port: BTreeMap<u32, Look> = BTreeMap::new();
        let mut by_flow = BTreeMap::new();
        for flow in flows {
            let mut look = Look {
                bits_per_s: flow.sent_bits_per_s.unwrap_or(0),
                ..Look::default()
            };
            if is_active(flow) {
                let at = Limit::ALL.iter().position(|limit| *limit == flow.limit);
                look.limits[at.unwrap_or(0)] = 1;
            }
            by_port.entry(flow.ifindex).or_default().add(look);
            if flows.len() <= FLOWS_MAX {
                by_flow.insert(flow.name.clone(), look);
            }
        }
        let mut of_ports: BTreeMap<String, Look> = BTreeMap::new();
        let mut of_tenants: BTreeMap<String, Look> = BTreeMap::new();
        for port in ports {
            let mut look = by_port.get(&port.ifindex).copied().unwrap_or_default();
            look.dropped = port.dropped;
            of_ports.entry(port_name(port)).or_default().add(look);
            let tenant = tenant(agent, port.ifindex);
            of_tenants.entry(tenant).or_default().add(look);
        }
        go_on(&mut self.ports, of_ports);
        go_on(&mut self.tenants, of_tenants);
        go_on(&mut self.flows, by_flow);
    }

    /// Returns the last samples of a port, or of a tenant; `None` if there are none.
    pub fn group(&self, name: &str, is_tenant: bool) -> Option<&Trail> {
        let groups = if is_tenant {
            &self.tenants
        } else {
            &self.ports
        };
        groups.get(name)
    }

    /// Returns the last samples of a flow; `None` if none are stored.
    pub fn flow(&self, name: &str) -> Option<&Trail> {
        self.flows.get(name)
    }
}

fn go_on(trails: &mut BTreeMap<String, Trail>, sample: BTreeMap<String, Look>) {
    trails.retain(|name, _| sample.contains_key(name));
    for (name, look) in sample {
        trails.entry(name).or_default().push(look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(bits_per_s: u64, limits: Limits, dropped: u64) -> Look {
        Look {
            bits_per_s,
            limits,
            dropped,
        }
    }

    fn trail(rates: &[u64]) -> Trail {
        let mut trail = Trail::default();
        let looks = rates.iter().map(|rate| look(*rate, Limits::default(), 7));
        looks.for_each(|look| trail.push(look));
        trail
    }

    #[test]
    fn a_sparkline_is_drawn_to_its_largest_value_and_aligned_to_the_right() {
        assert_eq!(trail(&[0, 1, 4, 8]).sparkline(6), "   ▁▄█");
        assert_eq!(trail(&[9_000_000_000_000, 0, 5, 10]).sparkline(2), "▄█");
        assert_eq!(trail(&[]).sparkline(3), "   ");
        let many: Vec<u64> = (0..500).collect();
        assert_eq!(trail(&many).0.len(), SAMPLES);
    }

    #[test]
    fn limits_are_percentages_of_all_samples_with_data() {
        let mut trail = trail(&[1, 1]);
        assert_eq!(trail.held(), []);
        // in the order of Limit::ALL: handshake, closed, repair, law, receiver, guest
        trail.push(look(1, [0, 0, 0, 2, 0, 1], 7));
        trail.push(look(1, [0, 0, 0, 3, 0, 0], 19));
        assert_eq!(trail.held(), [(Limit::Law, 83), (Limit::Guest, 17)]);
        assert_eq!(trail.dropped(), 12, "since the first sample");
    }
}
