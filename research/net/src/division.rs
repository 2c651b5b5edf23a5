//! The parts of a network: which of them has which node, and how far ahead of one another they may be.
//!
//! The hosts of a switch are in one part, with the switch. A switch without hosts is in the part of its
//! neighbours. If these are in several parts, the switch is shared: all parts know its routes, and each has
//! its links to the part's own nodes. So a packet changes parts at most once on its way through such a
//! switch.

use std::collections::BTreeMap;

use uc_words::Nanos;

use crate::lane::LinkSpec;
use crate::topology::{LinkId, Topology};

/// In place of a part's number: the switch is shared by all parts.
pub(crate) const ALL: u8 = u8::MAX;

/// In place of a part's number: a host, which is in the part of the link to it.
pub(crate) const HOST: u8 = u8::MAX - 1;

/// Maximum number of parts.
pub const PARTS_MAX: usize = 64;

/// Maximum lookahead, so that the times of a window fit into a few kilobytes of bits.
const LOOKAHEAD_MAX: Nanos = Nanos(1 << 16);

/// A division of a network into parts.
#[derive(Clone, Debug)]
pub struct Division {
    /// Number of parts.
    pub parts: usize,
    /// Shortest time from an event in one part to an effect in another, and from a packet's coming to a link
    /// to a host to its arrival.
    pub lookahead: Nanos,
    /// Part of each node by its index, hosts first.
    pub(crate) nodes: Vec<u8>,
    /// Part of each link, which is that of the queue before it.
    pub(crate) links: Vec<u8>,
}

impl Division {
    /// Divides a network into `parts` parts with about equally many hosts, but no more parts than switches
    /// with hosts. No packet is shorter than `shortest_bytes`.
    ///
    /// # Errors
    /// The reason why the network can't be divided.
    pub fn new(
        topology: &Topology,
        parts: usize,
        shortest_bytes: u32,
    ) -> Result<Division, &'static str> {
        let hosts = topology.host_count();
        let parts = parts.min(PARTS_MAX);
        let mut nodes = vec![ALL; topology.node_count()];
        let groups = groups(topology)?;
        if groups.len() < 2 || parts < 2 {
            return Err("all hosts are at one switch");
        }
        let parts = parts.min(groups.len());
        let mut before = 0;
        for (switch, members) in &groups {
            // By the middle of the group, so that equal groups are divided evenly.
            let part = ((2 * before + members.len()) * parts / (2 * hosts)).min(parts - 1) as u8;
            before += members.len();
            nodes[*switch] = part;
            members.iter().for_each(|&host| nodes[host] = part);
        }
        join(topology, &mut nodes);
        let links = topology
            .links()
            .iter()
            .map(|link| match nodes[topology.index(link.from)] {
                ALL => nodes[topology.index(link.to)],
                part => part,
            });
        let mut division = Division {
            parts,
            lookahead: LOOKAHEAD_MAX,
            links: links.collect(),
            nodes,
        };
        for (link, part) in topology.links().iter().zip(&division.links) {
            let to = topology.index(link.to);
            if to < hosts || division.nodes[to] != *part {
                let least = shortest(&link.spec, shortest_bytes);
                division.lookahead = division.lookahead.min(least);
            }
            if link.spec.delay == Nanos::ZERO {
                return Err("a link has no delay");
            }
        }
        Ok(division)
    }

    /// Returns the part of a host, by its number.
    #[inline]
    pub fn part_of_host(&self, host: crate::HostId) -> usize {
        usize::from(self.nodes[host.0 as usize])
    }

    /// Returns the part of a link, by its number.
    pub fn part_of_link(&self, link: LinkId) -> usize {
        let part = self.links.get(link.0 as usize);
        part.map_or(0, |&part| usize::from(part))
    }
}

/// Returns the least time from a packet's coming to a link to its arrival.
fn shortest(link: &LinkSpec, bytes: u32) -> Nanos {
    let sending_ns = u128::from(bytes) * 8_000_000_000 / u128::from(link.rate.0.max(1));
    link.delay + link.processing + Nanos(sending_ns as u64)
}

/// Returns the hosts of each switch that has any, by index, in the order of the first host.
fn groups(topology: &Topology) -> Result<Vec<(usize, Vec<usize>)>, &'static str> {
    let hosts = topology.host_count();
    let mut switches: BTreeMap<usize, usize> = BTreeMap::new();
    for link in topology.links() {
        let (from, to) = (topology.index(link.from), topology.index(link.to));
        let (host, switch) = if from < hosts { (from, to) } else { (to, from) };
        if host >= hosts {
            continue;
        }
        if switch < hosts {
            return Err("a link leads from host to host");
        }
        if *switches.entry(host).or_insert(switch) != switch {
            return Err("a host is at several switches");
        }
    }
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for (host, switch) in switches {
        match groups.iter_mut().find(|(known, _)| *known == switch) {
            Some((_, members)) => members.push(host),
            None => groups.push((switch, vec![host])),
        }
    }
    Ok(groups)
}

/// Gives the switches without hosts to the parts of their neighbours, layer by layer.
fn join(topology: &Topology, nodes: &mut [u8]) {
    let count = nodes.len();
    let mut neighbours = vec![Vec::new(); count];
    for link in topology.links() {
        let (from, to) = (topology.index(link.from), topology.index(link.to));
        neighbours[from].push(to);
        neighbours[to].push(from);
    }
    let mut is_known: Vec<bool> = nodes.iter().map(|&part| part != ALL).collect();
    loop {
        let before = is_known.clone();
        for node in 0..count {
            let known = || neighbours[node].iter().filter(|&&other| before[other]);
            let Some(&first) = known().next() else {
                continue;
            };
            if before[node] {
                continue;
            }
            is_known[node] = true;
            let part = nodes[first];
            let is_among_one = part != ALL && known().all(|&other| nodes[other] == part);
            // Two switches of all parts are no neighbours, so that each link has a part.
            let may_be_of_all = neighbours[node]
                .iter()
                .all(|&other| before[other] && nodes[other] != ALL);
            nodes[node] = match (is_among_one, may_be_of_all) {
                (true, _) => part,
                (false, true) => ALL,
                (false, false) => {
                    let parts = known().map(|&other| nodes[other]);
                    parts.filter(|&part| part != ALL).min().unwrap_or(0)
                }
            };
        }
        if before == is_known {
            break;
        }
    }
    // What no host is connected to has no packets either.
    for (part, _) in nodes.iter_mut().zip(is_known).filter(|(_, known)| !known) {
        *part = 0;
    }
}

#[cfg(test)]
mod tests {
    use uc_words::BitsPerSec;

    use super::*;
    use crate::queue::{Length, QueueSpec};
    use crate::{Dumbbell, FatTree, SingleSwitch};

    fn spec(delay_ns: u64) -> LinkSpec {
        let queue = QueueSpec::DropTail {
            limit: Length::Packets(10),
        };
        LinkSpec::new(BitsPerSec::from_mbit(1_000), Nanos(delay_ns), queue)
    }

    #[test]
    fn pods_of_a_fat_tree_are_divided_evenly_and_all_parts_have_the_core() {
        let tree = FatTree::new(4, spec(1_000), spec(1_000), spec(5_000)).unwrap();
        let division = Division::new(&tree.topology, 2, 54).unwrap();
        let parts: Vec<usize> = (tree.hosts.iter())
            .map(|&host| division.part_of_host(host))
            .collect();
        assert_eq!(parts, [[0; 8], [1; 8]].concat());
        // Four core switches, then the pods' four each.
        let switches = &division.nodes[16..];
        assert_eq!(switches[..4], [ALL; 4]);
        assert_eq!(switches[4..12], [0; 8]);
        assert_eq!(switches[12..], [1; 8]);
        // 54 bytes at 1 Gb/s are 432 ns; a packet to a host takes less time than one to another part.
        assert_eq!(division.lookahead, Nanos(1_432));
        assert!(division.links.iter().all(|&part| part < 2));
    }

    #[test]
    fn a_dumbbell_has_two_parts_at_most_and_a_single_switch_none() {
        let dumbbell = Dumbbell::new(3, spec(9_000), spec(5_000)).unwrap();
        let division = Division::new(&dumbbell.topology, 8, 54).unwrap();
        assert_eq!((division.parts, division.lookahead), (2, Nanos(5_432)));
        let switch = SingleSwitch::new(3, spec(1_000), spec(1_000)).unwrap();
        assert!(Division::new(&switch.topology, 2, 54).is_err());
    }

    #[test]
    fn a_link_without_delay_prevents_a_division() {
        let dumbbell = Dumbbell::new(3, spec(0), spec(5_000)).unwrap();
        assert!(Division::new(&dumbbell.topology, 2, 54).is_err());
    }
}
