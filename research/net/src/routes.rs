//! Static routes: the fewest hops, and equal-cost multipath (ECMP, RFC 2992) where several next
//! links are equally good. A hash chooses among them, so the packets of one flow to one host take
//! one path and stay in order.

use std::collections::{BTreeMap, VecDeque};

use crate::random::mix;
use crate::topology::{HostId, LinkId, Topology};

const NONE: u32 = u32::MAX;
/// A route entry below this value is the number of a link; any other entry, less this value, is
/// the index of a set of links.
const SETS: u32 = 1 << 31;

/// The next links from every node toward every host.
#[derive(Clone, Debug)]
pub struct Routes {
    hosts: usize,
    salt: u64,
    /// Index of each node's row; a host with one link uses the row of the switch behind it.
    rows: Vec<usize>,
    /// The only link out of each host that has just one; [`NONE`] for other nodes.
    uplinks: Vec<u32>,
    /// The table of routes. A row has a column for each host, with a link or a set of links toward it.
    next_link: Vec<u32>,
    /// Sets of equally good links, without duplicates.
    sets: Vec<Vec<u32>>,
}

impl Routes {
    /// Computes the routes of a topology. `seed` changes which of several equal paths a flow takes.
    pub fn new(topology: &Topology, seed: u64) -> Routes {
        let (hosts, nodes) = (topology.host_count(), topology.node_count());
        let wiring = Wiring::new(topology);
        let own: Vec<usize> = (0..nodes).filter(|&node| !wiring.is_leaf(node)).collect();
        let mut rows = vec![0; nodes];
        for (row, &node) in own.iter().enumerate() {
            rows[node] = row * hosts;
        }
        let mut uplinks = vec![NONE; hosts];
        for &(host, link) in &wiring.leaves {
            rows[host] = rows[wiring.ends[link as usize].1];
            uplinks[host] = link;
        }
        let mut routes = Routes {
            hosts,
            salt: mix(seed),
            next_link: vec![NONE; own.len() * hosts],
            rows,
            uplinks,
            sets: Vec::new(),
        };
        let mut numbers = BTreeMap::new();
        let mut distance = vec![NONE; nodes];
        for to in 0..hosts {
            wiring.hops_to(to, hosts, &mut distance);
            for &from in &own {
                let links = wiring.next_links(from, to, &distance);
                let entry = match links.as_slice() {
                    [] => continue,
                    [link] => *link,
                    _ => {
                        let number = numbers.len() as u32;
                        SETS | *numbers.entry(links).or_insert(number)
                    }
                };
                routes.next_link[routes.rows[from] + to] = entry;
            }
            distance[to] = NONE;
            own.iter().for_each(|&node| distance[node] = NONE);
        }
        routes.sets = vec![Vec::new(); numbers.len()];
        for (links, number) in numbers {
            routes.sets[number as usize] = links;
        }
        routes
    }

    /// Returns whether a path leads from the node at `index` to host `to`.
    pub(crate) fn reach(&self, index: usize, to: HostId) -> bool {
        index != to.0 as usize && self.next_link[self.rows[index] + to.0 as usize] != NONE
    }

    /// Returns the link that a packet for `to` takes from the node at `index`; `None` if nothing leads there. Calls
    /// `path_key` only where there is a choice.
    #[inline(always)]
    pub(crate) fn next(
        &self,
        index: usize,
        to: HostId,
        path_key: impl FnOnce() -> u64,
    ) -> Option<LinkId> {
        let entry = self.next_link[self.rows[index] + to.0 as usize];
        if index < self.hosts && self.uplinks[index] != NONE {
            let leads = entry != NONE && index != to.0 as usize;
            return leads.then(|| LinkId(self.uplinks[index]));
        }
        if entry < SETS {
            return Some(LinkId(entry));
        }
        self.choose(entry, index, to, path_key())
    }

    /// Chooses a link from the set that `entry` stands for, by a hash; `None` if nothing leads on.
    fn choose(&self, entry: u32, index: usize, to: HostId, path_key: u64) -> Option<LinkId> {
        let links = self.set(entry)?;
        // The hash includes the receiving host, so that a flow's two directions choose
        // independently; and the node, so that two switches on a path do not split their flows
        // alike.
        let ends = (index as u64) << 32 | u64::from(to.0);
        let hash = mix(mix(self.salt ^ path_key) ^ ends);
        let place = (u128::from(hash) * links.len() as u128) >> 64;
        Some(LinkId(links[place as usize]))
    }

    /// Returns the set of equally good links that an entry stands for; `None` if the entry leads nowhere.
    fn set(&self, entry: u32) -> Option<&[u32]> {
        let set = self.sets.get((entry & !SETS) as usize);
        set.map(Vec::as_slice)
    }

    /// Returns every link that a packet for `to` may take from the node at `index`.
    pub(crate) fn all_next(&self, index: usize, to: HostId) -> Vec<LinkId> {
        let entry = self.next_link[self.rows[index] + to.0 as usize];
        let has_one = index < self.hosts && self.uplinks[index] != NONE;
        match self.set(entry).filter(|_| entry >= SETS && !has_one) {
            Some(links) => links.iter().copied().map(LinkId).collect(),
            None => self.next(index, to, || 0).into_iter().collect(),
        }
    }
}

/// The links between nodes, by number; nodes by index, hosts first.
///
/// A leaf is a host whose only outgoing link leads to a switch. Most hosts are leaves. There is one search for each
/// host, so a search must not visit all hosts: `into` omits links out of leaves, and `onward` omits links into hosts.
struct Wiring {
    ends: Vec<(usize, usize)>,
    leaves: Vec<(usize, u32)>,
    is_leaf: Vec<bool>,
    into: Vec<Vec<u32>>,
    onward: Vec<Vec<u32>>,
}

impl Wiring {
    fn new(topology: &Topology) -> Wiring {
        let (hosts, nodes) = (topology.host_count(), topology.node_count());
        let plans = topology.links().iter();
        let ends: Vec<(usize, usize)> = plans
            .map(|link| (topology.index(link.from), topology.index(link.to)))
            .collect();
        let mut out_of = vec![Vec::new(); nodes];
        for (number, &(from, _)) in (0u32..).zip(&ends) {
            out_of[from].push(number);
        }
        let mut wiring = Wiring {
            leaves: Vec::new(),
            is_leaf: vec![false; nodes],
            into: vec![Vec::new(); nodes],
            onward: vec![Vec::new(); nodes],
            ends,
        };
        for (host, links) in out_of.iter().enumerate().take(hosts) {
            if let [link] = links.as_slice()
                && wiring.ends[*link as usize].1 >= hosts
            {
                wiring.leaves.push((host, *link));
                wiring.is_leaf[host] = true;
            }
        }
        for (number, &(from, to)) in (0u32..).zip(&wiring.ends) {
            if !wiring.is_leaf[from] {
                wiring.into[to].push(number);
            }
            if to >= hosts {
                wiring.onward[from].push(number);
            }
        }
        wiring
    }

    fn is_leaf(&self, node: usize) -> bool {
        self.is_leaf[node]
    }

    /// Sets `distance` to the number of hops to host `to`, for every node that is no leaf and has no distance yet, by
    /// breadth-first search backwards from `to`. Hosts don't forward: a path may end at a host, never lead through one.
    fn hops_to(&self, to: usize, hosts: usize, distance: &mut [u32]) {
        distance[to] = 0;
        let mut frontier = VecDeque::from([to]);
        while let Some(node) = frontier.pop_front() {
            for &link in &self.into[node] {
                let (from, _) = self.ends[link as usize];
                if distance[from] == NONE {
                    distance[from] = distance[node] + 1;
                    if from >= hosts {
                        frontier.push_back(from);
                    }
                }
            }
        }
    }

    /// Returns the links out of `from` that lead nearer to host `to`.
    fn next_links(&self, from: usize, to: usize, distance: &[u32]) -> Vec<u32> {
        if distance[from] == 1 {
            let links = self.into[to].iter().copied();
            return links
                .filter(|&link| self.ends[link as usize].0 == from)
                .collect();
        }
        let leads_nearer = |link: &u32| {
            let (_, over) = self.ends[*link as usize];
            distance[over] != NONE && distance[over] + 1 == distance[from]
        };
        let links = self.onward[from].iter().copied();
        links.filter(leads_nearer).collect()
    }
}

#[cfg(test)]
mod tests {
    use uc_words::{BitsPerSec, Nanos};

    use super::*;
    use crate::link_model::LinkSpec;
    use crate::queue::{Length, QueueSpec};
    use crate::random::Stream;
    use crate::topology::{Node, SwitchId};

    /// Draws a topology whose hosts have any number of links, to switches or to each other.
    fn tangle(random: &mut Stream) -> Topology {
        let mut topology = Topology::new();
        let (hosts, switches) = (2 + random.below(8), random.below(5));
        let mut nodes: Vec<Node> = Vec::new();
        for host in 0..hosts {
            nodes.push(topology.add_host(&format!("h{host}")).unwrap().into());
        }
        for switch in 0..switches {
            nodes.push(topology.add_switch(&format!("s{switch}")).unwrap().into());
        }
        let queue = QueueSpec::DropTail {
            limit: Length::Packets(1),
        };
        let spec = LinkSpec::new(BitsPerSec::from_mbit(1), Nanos::ZERO, queue);
        for _ in 0..random.below(3 * nodes.len() as u64) {
            let [from, to] = [(); 2].map(|()| nodes[random.below(nodes.len() as u64) as usize]);
            // Duplicate links and self-loops are refused.
            let _ = topology.connect(from, to, spec.clone());
        }
        topology
    }

    /// Returns the hops from every node to `to`, without forwarding hosts, by as many rounds of
    /// relaxation as there are nodes.
    fn plain_hops(topology: &Topology, to: usize) -> Vec<Option<u32>> {
        let mut hops = vec![None; topology.node_count()];
        hops[to] = Some(0);
        for _ in 0..topology.node_count() {
            for link in topology.links() {
                let (from, over) = (topology.index(link.from), topology.index(link.to));
                let may_pass = over == to || over >= topology.host_count();
                if let (true, Some(rest)) = (may_pass, hops[over]) {
                    hops[from] =
                        Some(hops[from].map_or(rest + 1, |known: u32| known.min(rest + 1)));
                }
            }
        }
        hops
    }

    #[test]
    fn every_next_link_is_one_hop_nearer_and_all_equal_links_are_used() {
        for seed in 0..500 {
            let topology = tangle(&mut Stream::new(seed, "tangle"));
            let routes = Routes::new(&topology, seed);
            for to in 0..topology.host_count() {
                let hops = plain_hops(&topology, to);
                for from in 0..topology.node_count() {
                    let shown = format!("seed {seed}: {from} to {to}");
                    let host = HostId(to as u32);
                    let chosen: std::collections::BTreeSet<u32> = (0..200)
                        .filter_map(|key| Some(routes.next(from, host, || key)?.0))
                        .collect();
                    let nearer = (0u32..).zip(topology.links()).filter(|(_, link)| {
                        let over = topology.index(link.to);
                        let may_pass = over == to || over >= topology.host_count();
                        let step = may_pass && from != to && topology.index(link.from) == from;
                        step && hops[over].is_some_and(|rest| hops[from] == Some(rest + 1))
                    });
                    assert!(
                        chosen.iter().copied().eq(nearer.map(|(number, _)| number)),
                        "{shown}"
                    );
                    assert_eq!(routes.reach(from, host), !chosen.is_empty(), "{shown}");
                }
            }
        }
    }

    #[test]
    fn hosts_with_one_link_share_the_row_of_their_switch() {
        let mut topology = Topology::new();
        let switch: SwitchId = topology.add_switch("s").unwrap();
        let queue = QueueSpec::DropTail {
            limit: Length::Packets(1),
        };
        let spec = LinkSpec::new(BitsPerSec::from_mbit(1), Nanos::ZERO, queue);
        for number in 0..1_000 {
            let host = topology.add_host(&format!("h{number}")).unwrap();
            topology.connect(host, switch, spec.clone()).unwrap();
            topology.connect(switch, host, spec.clone()).unwrap();
        }
        assert_eq!(Routes::new(&topology, 1).next_link.len(), 1_000);
    }
}
