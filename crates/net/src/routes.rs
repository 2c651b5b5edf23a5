//! Static routes: the fewest hops, and the link added first where several are equal.

use std::collections::VecDeque;

use crate::topology::{HostId, LinkId, Node, Topology};

const NONE: u32 = u32::MAX;

/// The next link from every node toward every host.
#[derive(Clone, Debug)]
pub struct Routes {
    hosts: usize,
    /// One row for each node (hosts first), one column for each host.
    next_link: Vec<u32>,
}

impl Routes {
    /// Routes for a topology.
    pub fn new(topology: &Topology) -> Routes {
        let (nodes, hosts) = (topology.node_count(), topology.host_count());
        let mut routes = Routes {
            hosts,
            next_link: vec![NONE; nodes * hosts],
        };
        for to in 0..hosts {
            let distance = hops_to(topology, HostId(to as u32));
            for (number, link) in topology.links().iter().enumerate() {
                let (from, over) = (topology.index(link.from), topology.index(link.to));
                let nearer = distance[over] != NONE && distance[over] + 1 == distance[from];
                let place = &mut routes.next_link[from * hosts + to];
                if nearer && *place == NONE && may_pass(link.to, to) {
                    *place = number as u32;
                }
            }
        }
        routes
    }

    /// The link that a packet for `to` takes from the node at `index`.
    #[inline]
    pub(crate) fn next(&self, index: usize, to: HostId) -> Option<LinkId> {
        let link = self.next_link[index * self.hosts + to.0 as usize];
        (link != NONE).then_some(LinkId(link))
    }
}

/// Hosts don't forward: a way may end at one, never lead through it.
fn may_pass(node: Node, to: usize) -> bool {
    match node {
        Node::Host(HostId(host)) => host as usize == to,
        Node::Switch(_) => true,
    }
}

/// Hops from every node to `target`, backwards from it, breadth first.
fn hops_to(topology: &Topology, target: HostId) -> Vec<u32> {
    let mut distance = vec![NONE; topology.node_count()];
    distance[topology.index(Node::Host(target))] = 0;
    let mut frontier = VecDeque::from([Node::Host(target)]);
    while let Some(node) = frontier.pop_front() {
        let hops = distance[topology.index(node)];
        for link in topology.links().iter().filter(|link| link.to == node) {
            let from = topology.index(link.from);
            if distance[from] != NONE {
                continue;
            }
            distance[from] = hops + 1;
            if matches!(link.from, Node::Switch(_)) {
                frontier.push_back(link.from);
            }
        }
    }
    distance
}
