//! Static routes: the fewest hops, and equal-cost multipath (ECMP, RFC 2992) where several next
//! links are equally good. The choice among them is a hash, so that the packets of one flow to one
//! host take one way and stay in order.

use std::collections::{BTreeMap, VecDeque};

use crate::random::mix;
use crate::topology::{HostId, LinkId, Node, Topology};

const NONE: u32 = u32::MAX;
/// From here on an entry is not a link but the number of a set of links; links have 31 bits.
const SETS: u32 = 1 << 31;

/// The next links from every node toward every host.
#[derive(Clone, Debug)]
pub struct Routes {
    hosts: usize,
    salt: u64,
    /// One row for each node (hosts first), one column for each host: a link, or a set of them.
    next_link: Vec<u32>,
    /// Each set of equally good links once.
    sets: Vec<Vec<u32>>,
}

impl Routes {
    /// Routes for a topology. `seed` changes which of several equal ways a flow takes.
    pub fn new(topology: &Topology, seed: u64) -> Routes {
        let hosts = topology.host_count();
        let mut routes = Routes {
            hosts,
            salt: mix(seed),
            next_link: vec![NONE; topology.node_count() * hosts],
            sets: Vec::new(),
        };
        let wiring = Wiring::new(topology);
        let mut numbers = BTreeMap::new();
        for to in 0..hosts {
            let distance = wiring.hops_to(to, hosts);
            for from in 0..topology.node_count() {
                let links = wiring.next_links(from, to, hosts, &distance);
                let entry = match links.as_slice() {
                    [] => continue,
                    [link] => *link,
                    _ => {
                        let number = numbers.len() as u32;
                        SETS | *numbers.entry(links).or_insert(number)
                    }
                };
                routes.next_link[from * hosts + to] = entry;
            }
        }
        routes.sets = vec![Vec::new(); numbers.len()];
        for (links, number) in numbers {
            routes.sets[number as usize] = links;
        }
        routes
    }

    /// Whether any way leads from the node at `index` to host `to`.
    pub(crate) fn reach(&self, index: usize, to: HostId) -> bool {
        self.next_link[index * self.hosts + to.0 as usize] != NONE
    }

    /// The link that a packet for `to` takes from the node at `index`. Its `path_key` is asked for
    /// only where there is a choice.
    #[inline]
    pub(crate) fn next(
        &self,
        index: usize,
        to: HostId,
        path_key: impl FnOnce() -> u64,
    ) -> Option<LinkId> {
        let entry = self.next_link[index * self.hosts + to.0 as usize];
        if entry < SETS {
            return Some(LinkId(entry));
        }
        let links = self.sets.get((entry & !SETS) as usize)?;
        // The receiving host takes part, so that a flow's two directions choose for themselves; and
        // the node, so that two switches on one way do not split their flows alike.
        let ends = (index as u64) << 32 | u64::from(to.0);
        let hash = mix(mix(self.salt ^ path_key()) ^ ends);
        let place = (u128::from(hash) * links.len() as u128) >> 64;
        Some(LinkId(links[place as usize]))
    }
}

/// The links at every node, by their numbers; nodes by their places, hosts first.
struct Wiring {
    ends: Vec<(usize, usize)>,
    into: Vec<Vec<u32>>,
    out_of: Vec<Vec<u32>>,
}

impl Wiring {
    fn new(topology: &Topology) -> Wiring {
        let place = |node: Node| topology.index(node);
        let mut wiring = Wiring {
            ends: Vec::with_capacity(topology.links().len()),
            into: vec![Vec::new(); topology.node_count()],
            out_of: vec![Vec::new(); topology.node_count()],
        };
        for (number, link) in (0..).zip(topology.links()) {
            let (from, to) = (place(link.from), place(link.to));
            wiring.ends.push((from, to));
            wiring.into[to].push(number);
            wiring.out_of[from].push(number);
        }
        wiring
    }

    /// Hops from every node to host `to`, backwards from it, breadth first. Hosts don't forward: a
    /// way may end at one, never lead through it.
    fn hops_to(&self, to: usize, hosts: usize) -> Vec<u32> {
        let mut distance = vec![NONE; self.into.len()];
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
        distance
    }

    /// The links out of `from` that lead nearer to host `to`.
    fn next_links(&self, from: usize, to: usize, hosts: usize, distance: &[u32]) -> Vec<u32> {
        let leads_nearer = |link: &&u32| {
            let (_, over) = self.ends[**link as usize];
            let may_pass = over >= hosts || over == to;
            may_pass && distance[over] != NONE && distance[over] + 1 == distance[from]
        };
        let links = self.out_of[from].iter().filter(leads_nearer);
        links.copied().collect()
    }
}
