//! Two links in one event. A link to a host may have only one other link as its source. Then the times at which packets
//! come to it, and their arrivals at the host, are known when the packets enter that source.
//!
//! Both links, and the order of all arrivals, are as if each link had an event of its own. Packets that arrive at the
//! same time are ordered by rank: the time at which a packet comes to its last link, then the order in which it came to
//! the link before.

use uc_words::Nanos;

use super::Network;
use crate::link_model::LinkModel;
use crate::packet::Packet;
use crate::sources::{Source, sources};
use crate::stats::LinkReport;
use crate::topology::{HostId, LinkId};

/// Stands for no link: a number that no network uses.
const NO_LINK: LinkId = LinkId(u32::MAX);

/// Added to the order of injections: of arrivals and injections at the same time, injections come last.
pub(super) const INJECTED: u64 = 1 << 63;

impl<P: Packet> Network<P> {
    /// Makes the network faster, if the caller knows that packets go only between these pairs of hosts, from the first
    /// to the second. Changes no arrival. Has no effect if a link has fault rules or no delay. Call it before the first
    /// packet.
    pub fn expect_only(&mut self, pairs: impl IntoIterator<Item = (HostId, HostId)>) {
        // Without this every link would have to keep the order in which packets came to it.
        if !self.links.iter().all(LinkModel::keeps_order) {
            return;
        }
        let sources = sources(&self.routes, &self.ends, pairs);
        self.early = vec![(NO_LINK, NO_LINK); self.hosts];
        for (link, source) in (0..).map(LinkId).zip(sources) {
            if let Source::Link(before) = source
                && self.links[link.0 as usize].is_drop_tail()
                && let Some(early @ &mut (NO_LINK, _)) =
                    self.early.get_mut(self.ends[link.0 as usize])
            {
                *early = (link, before);
                self.ahead = u64::MAX;
            }
        }
    }

    /// Returns the only link from which packets come to `link`, if `link` takes packets early; otherwise `None`.
    fn source(&self, link: LinkId) -> Option<LinkId> {
        let &(early, source) = self.early.get(self.ends[link.0 as usize])?;
        (early == link).then_some(source)
    }

    /// Makes each link show the observer each packet when it comes; by default, injections and the effect of
    /// [`Network::expect_only`] skip that for speed. Changes no arrival. Call it before the first packet.
    pub fn show_all(&mut self) {
        self.shows_all = true;
        self.early.clear();
        self.ahead = 0;
    }

    /// Carries packet `number`, which `link` has taken at `at` and which arrives at `arrives`. If `link` is the only
    /// source of the next link, also passes the packet to that link.
    #[inline(always)]
    pub(super) fn carry(&mut self, at: Nanos, mut link: LinkId, number: u32, mut arrives: Nanos) {
        let sequence = self.sequence;
        self.sequence += 1;
        let label = self.packets.label_mut(number);
        let before = label.set_sequence(sequence | !self.ahead);
        // Without links that take packets early the number alone is the rank.
        let mut rank = (Nanos(at.0 & self.ahead), before.min(INJECTED | sequence));
        if self.ahead != 0 {
            let (next, source) = self.early[label.to.0 as usize];
            if source == link {
                let behind = &mut self.links[next.0 as usize];
                match behind.take(arrives, label.size_bytes) {
                    Some(later) => (arrives, rank, link) = (later, (arrives, sequence), next),
                    None => {
                        // It is lost when it arrives there.
                        behind.refuse(arrives);
                        label.set_refused();
                    }
                }
            }
        }
        label.address(arrives, rank, link.0);
        self.arrivals.add(&mut self.packets, number, arrives, rank);
    }

    /// Corrects a link's report: subtracts the packets that have not arrived yet, and those that the link has taken
    /// before they came.
    pub(super) fn take_back(&self, link: LinkId, report: &mut LinkReport) {
        let on_the_way = self.arrivals.iter(&self.packets).filter(|label| {
            let is_passed_on = self.source(LinkId(label.link)) == Some(link);
            label.link == link.0 || (is_passed_on && label.rank.0 > self.clock)
        });
        report.stats.delivered_packets -= on_the_way.count() as u64;
        if self.source(link).is_none() {
            return;
        }
        let labels = self.arrivals.iter(&self.packets);
        let mut coming: Vec<(Nanos, Nanos, u64)> = labels
            .filter(|label| label.link == link.0)
            .map(|label| (label.at, label.rank.0, u64::from(label.size_bytes)))
            .collect();
        coming.sort_unstable();
        let (stats, backlog) = (&mut report.stats, &mut report.backlog);
        stats.sent_packets += std::mem::take(&mut backlog.packets);
        stats.sent_bytes += std::mem::take(&mut backlog.bytes);
        let mut free_at = Nanos::ZERO;
        for (arrives, comes, bytes) in coming {
            let starts = comes.max(free_at);
            free_at = self.links[link.0 as usize].left_at(arrives);
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
