//! Hosts, switches and the links between them, as a plain description.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::NetError;
use crate::link_model::LinkSpec;

/// A host's number: 0 for the first host added, then without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A switch's number: 0 for the first switch added, then without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// The number of a link, which is one direction between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// An end of a link. Hosts send and receive; only switches forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host with this number.
    Host(HostId),
    /// A switch with this number.
    Switch(SwitchId),
}

impl From<HostId> for Node {
    fn from(host: HostId) -> Node {
        Node::Host(host)
    }
}

impl From<SwitchId> for Node {
    fn from(switch: SwitchId) -> Node {
        Node::Switch(switch)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Host(HostId(number)) => write!(f, "host {number}"),
            Node::Switch(SwitchId(number)) => write!(f, "switch {number}"),
        }
    }
}

/// One directed link of a topology.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Node at which the link begins.
    pub from: Node,
    /// Node at which the link ends.
    pub to: Node,
    /// Name `from->to`, by the nodes' names; seeds the link's random streams.
    pub name: String,
    /// Rate, delay, queue and faults of the link.
    pub spec: LinkSpec,
}

/// A description of a network, grown by adding nodes and connecting them.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    hosts: Vec<String>,
    switches: Vec<String>,
    links: Vec<LinkPlan>,
    names: BTreeSet<String>,
}

impl Topology {
    /// Creates a topology that has no nodes yet.
    pub fn new() -> Topology {
        Topology::default()
    }

    /// Adds a host.
    ///
    /// # Errors
    /// [`NetError::NameTwice`].
    pub fn add_host(&mut self, name: &str) -> Result<HostId, NetError> {
        self.claim(name)?;
        self.hosts.push(name.to_owned());
        Ok(HostId(self.hosts.len() as u32 - 1))
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// [`NetError::NameTwice`].
    pub fn add_switch(&mut self, name: &str) -> Result<SwitchId, NetError> {
        self.claim(name)?;
        self.switches.push(name.to_owned());
        Ok(SwitchId(self.switches.len() as u32 - 1))
    }

    /// Adds a link from one node to another, in this direction only.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`], [`NetError::Loop`], or [`NetError::NameTwice`] for a second link
    /// between the same two nodes in the same direction.
    pub fn connect(
        &mut self,
        from: impl Into<Node>,
        to: impl Into<Node>,
        spec: LinkSpec,
    ) -> Result<LinkId, NetError> {
        let (from, to) = (from.into(), to.into());
        let name = format!("{}->{}", self.name(from)?, self.name(to)?);
        if from == to {
            return Err(NetError::Loop {
                node: self.name(from)?.to_owned(),
            });
        }
        self.claim(&name)?;
        self.links.push(LinkPlan {
            from,
            to,
            name,
            spec,
        });
        Ok(LinkId(self.links.len() as u32 - 1))
    }

    /// Returns a node's name.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`].
    pub fn name(&self, node: Node) -> Result<&str, NetError> {
        let name = match node {
            Node::Host(HostId(number)) => self.hosts.get(number as usize),
            Node::Switch(SwitchId(number)) => self.switches.get(number as usize),
        };
        name.map(String::as_str)
            .ok_or_else(|| NetError::UnknownNode {
                node: node.to_string(),
            })
    }

    /// Returns the number of hosts in the topology.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the number of nodes, hosts and switches.
    pub fn node_count(&self) -> usize {
        self.hosts.len() + self.switches.len()
    }

    /// Returns the links, in the order of their numbers.
    pub fn links(&self) -> &[LinkPlan] {
        &self.links
    }

    /// Returns the link from one node to another, if there is one.
    pub fn link_between(&self, from: impl Into<Node>, to: impl Into<Node>) -> Option<LinkId> {
        let ends = (from.into(), to.into());
        let place = self
            .links
            .iter()
            .position(|link| (link.from, link.to) == ends)?;
        Some(LinkId(place as u32))
    }

    /// Returns a node's index among all nodes: hosts first, then switches.
    pub(crate) fn index(&self, node: Node) -> usize {
        match node {
            Node::Host(HostId(number)) => number as usize,
            Node::Switch(SwitchId(number)) => self.hosts.len() + number as usize,
        }
    }

    fn claim(&mut self, name: &str) -> Result<(), NetError> {
        if !self.names.insert(name.to_owned()) {
            return Err(NetError::NameTwice {
                name: name.to_owned(),
            });
        }
        Ok(())
    }
}
