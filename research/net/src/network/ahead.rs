//! Two links in one event: where a link to a host has one source, its packets come at times that are
//! known when they enter the link before, so their arrivals at the host are known, too.
//!
//! Both links and the order of all arrivals are as if each link had an event of its own. Arrivals at
//! the same time come in the order in which their packets came to the links; so a packet's rank is the
//! time at which it comes to its last link, and the order in which it came to the link before that.

use uc_words::Nanos;

use super::Network;
use crate::agenda::Rank;
use crate::packet::Packet;
use crate::sources::{Source, sources};
use crate::stats::LinkReport;
use crate::topology::{HostId, LinkId};

/// No link of a network.
const NO_LINK: LinkId = LinkId(u32::MAX);

/// At one time injections come after arrivals; this bit puts their order after that of all arrivals.
pub(super) const INJECTED: u64 = 1 << 63;

impl<P: Packet> Network<P> {
    /// Makes the network faster for those who know that packets go between these pairs of hosts alone,
    /// from the first to the second. It changes no arrival. Call it before the first packet.
    pub fn expect_only(&mut self, pairs: impl IntoIterator<Item = (HostId, HostId)>) {
        // Without this every link would have to keep the order in which packets came to it.
        if !self.ports.iter().all(|port| port.lane.keeps_order()) {
            return;
        }
        let ends: Vec<usize> = self.ports.iter().map(|port| port.to).collect();
        let sources = sources(&self.routes, &ends, pairs);
        self.early = vec![(NO_LINK, NO_LINK); self.hosts];
        for (link, source) in (0..).map(LinkId).zip(sources) {
            let port = &mut self.ports[link.0 as usize];
            if let Source::Link(before) = source
                && port.lane.is_drop_tail()
                && let Some(early @ &mut (NO_LINK, _)) = self.early.get_mut(port.to)
            {
                *early = (link, before);
                port.source = Some(before);
                self.ports[before.0 as usize].feeds = true;
                self.ahead = u64::MAX;
            }
        }
    }

    /// Makes each link show the observer each packet as it comes, which [`Network::expect_only`] and
    /// injections avoid for speed. It changes no arrival. Call it before the first packet.
    pub fn show_all(&mut self) {
        self.shows_all = true;
        self.early.clear();
        self.ahead = 0;
        for port in &mut self.ports {
            port.source = None;
            port.feeds = false;
        }
    }

    /// Notes that a packet comes to a link at `at` as number `sequence`, and returns its rank. Without
    /// links that take packets early the number alone is the rank.
    #[inline(always)]
    pub(super) fn rank(&mut self, number: u32, at: Nanos, sequence: u64) -> Rank {
        let before = self.depot.set_sequence(number, sequence | !self.ahead);
        (Nanos(at.0 & self.ahead), before.min(INJECTED | sequence))
    }

    /// Passes a packet that arrives at `at` on to the link behind `link`, as number `sequence` on this
    /// one, where this one is its source. Returns false where it is not, or has no room.
    #[inline(always)]
    pub(super) fn pass_on(&mut self, number: u32, link: LinkId, at: Nanos, sequence: u64) -> bool {
        let to = self.depot.to(number);
        let (next, source) = self.early[to.0 as usize];
        if source != link {
            self.ports[link.0 as usize].delivered_packets -= 1;
            return false;
        }
        let behind = &mut self.ports[next.0 as usize];
        let Some(arrives) = behind.lane.take(at, self.depot.size_bytes(number)) else {
            self.doom(number, link, next, at);
            return false;
        };
        self.agenda.add(number, arrives, (at, sequence), next.0);
        true
    }

    /// Leaves a packet that finds no room at `next` at `at` to be lost when it arrives there.
    #[cold]
    fn doom(&mut self, number: u32, link: LinkId, next: LinkId, at: Nanos) {
        self.ports[next.0 as usize].lane.refuse(at);
        self.ports[link.0 as usize].delivered_packets -= 1;
        self.depot.doom(number);
    }

    /// Takes from a report what the link, or the link behind it, has taken before its time.
    pub(super) fn take_back(&self, link: LinkId, report: &mut LinkReport) {
        let port = &self.ports[link.0 as usize];
        if port.feeds {
            let early = self.agenda.iter().filter(|(_, entry)| {
                let source = self.ports[entry.link as usize].source;
                source == Some(link) && entry.rank.0 > self.clock
            });
            report.stats.delivered_packets -= early.count() as u64;
        }
        if port.source.is_none() {
            return;
        }
        let entries = self.agenda.iter().filter(|(_, entry)| entry.link == link.0);
        let mut coming: Vec<(Nanos, Nanos, u64)> = entries
            .map(|(number, entry)| {
                let size_bytes = self.depot.size_bytes(number);
                (entry.at, entry.rank.0, u64::from(size_bytes))
            })
            .collect();
        coming.sort_unstable();
        let (stats, backlog) = (&mut report.stats, &mut report.backlog);
        stats.sent_packets += std::mem::take(&mut backlog.packets);
        stats.sent_bytes += std::mem::take(&mut backlog.bytes);
        let mut free_at = Nanos::ZERO;
        for (arrives, comes, bytes) in coming {
            let starts = comes.max(free_at);
            free_at = port.lane.left_at(arrives);
            if starts <= self.clock {
                continue;
            }
            stats.sent_packets -= 1;
            stats.sent_bytes -= bytes;
            if comes > self.clock {
                stats.offered_packets -= 1;
                stats.offered_bytes -= bytes;
            } else {
                *backlog = backlog.with(bytes as u32);
            }
        }
    }
}
