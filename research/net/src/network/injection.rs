//! Injects packets into a network, at a host or on a known path.

use uc_words::Nanos;

use super::{Injected, Network};
use crate::error::NetError;
use crate::packet::Packet;
use crate::path::Path;
use crate::topology::{HostId, LinkId};

impl<P: Packet> Network<P> {
    /// Injects a packet from host `from` to host `to` at `now`. A packet dated before the last injection or
    /// [`Network::advance`] is injected at the time of that one.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`], or [`NetError::NoRoute`] (also from a host to itself).
    #[inline(always)]
    pub fn inject(
        &mut self,
        now: Nanos,
        from: HostId,
        to: HostId,
        packet: P,
    ) -> Result<(), NetError> {
        let path = self.path(from, to, || packet.path_key())?;
        self.inject_on(now, path, packet);
        Ok(())
    }

    /// Returns the path from host `from` to host `to`. Calls `path_key` only if `from` has a choice of
    /// links.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`], or [`NetError::NoRoute`] (also from a host to itself).
    #[inline]
    pub fn path(
        &self,
        from: HostId,
        to: HostId,
        path_key: impl FnOnce() -> u64,
    ) -> Result<Path, NetError> {
        self.check_host(from)?;
        self.check_host(to)?;
        match self.routes.next(from.0 as usize, to, path_key) {
            Some(link) => Ok(Path { to, link }),
            None => Err(NetError::NoRoute {
                from: from.0,
                to: to.0,
            }),
        }
    }

    /// Returns the links of a path, in their order. Where several next links are equally good, it names one of them,
    /// which packets of this path need not take.
    pub fn links_of(&self, path: Path) -> Vec<LinkId> {
        let mut links = vec![path.link];
        let mut end = self.ends[path.link.0 as usize];
        while end != path.to.0 as usize {
            let Some(link) = self.routes.next(end, path.to, || 0) else {
                break;
            };
            links.push(link);
            end = self.ends[link.0 as usize];
        }
        links
    }

    /// Injects a packet as [`Network::inject`] does, on a path of this network.
    // Always inlined, so that the packet is made where it is stored.
    #[inline(always)]
    pub fn inject_on(&mut self, now: Nanos, path: Path, packet: P) {
        let Path { to, link } = path;
        let at = now.max(self.inbox.back().map_or(self.clock, |last| last.at));
        let size_bytes = packet.size_bytes();
        let number = self.packets.store(to, size_bytes, packet);
        if !self.take(at, link, number, size_bytes) {
            self.inbox.push_back(Injected {
                at,
                link,
                packet: number,
            });
        }
    }

    /// Injects a copy of a packet for every other host that can be reached, in the order of their numbers. Every copy
    /// crosses the sender's own link; on Ethernet the switch would copy. Meant for the few small frames of ARP and
    /// neighbour discovery.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`].
    pub fn inject_broadcast(
        &mut self,
        now: Nanos,
        from: HostId,
        packet: &P,
    ) -> Result<(), NetError> {
        self.check_host(from)?;
        for to in (0..self.hosts as u32).map(HostId) {
            if self.routes.reach(from.0 as usize, to) {
                self.inject(now, from, to, packet.clone())?;
            }
        }
        Ok(())
    }

    fn check_host(&self, host: HostId) -> Result<(), NetError> {
        if (host.0 as usize) < self.hosts {
            return Ok(());
        }
        Err(NetError::UnknownNode {
            node: format!("host {}", host.0),
        })
    }

    /// Lets a link take an injected packet at once if no injection and no arrival comes before it. Returns false,
    /// without taking the packet, if the packet must wait in the inbox or [`LinkModel::take`] refuses it.
    #[inline(always)]
    fn take(&mut self, at: Nanos, link: LinkId, number: u32, size_bytes: u32) -> bool {
        let is_next = self.inbox.is_empty()
            && !self.shows_all
            && at == self.clock
            && self.arrivals.due(at).is_none();
        if !is_next {
            return false;
        }
        let Some(arrives) = self.links[link.0 as usize].take(at, size_bytes) else {
            return false;
        };
        self.carry(at, link, number, arrives);
        true
    }
}
