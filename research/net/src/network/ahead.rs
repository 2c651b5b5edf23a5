//! Two links in one event: where a link to a host has one source, its packets come at times that are
//! known when they enter the link before, so their arrivals at the host are known, too.
//!
//! Both links and the order of all arrivals are as if each link had an event of its own. Arrivals at
//! the same time come in the order in which their packets came to the links; so a packet's rank is the
//! time at which it comes to its last link, and the order in which it came to the link before that.

use uc_words::Nanos;

use super::Network;
use crate::link_model::LinkModel;
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

    /// Returns the only link whose packets come to `link`, if they come early.
    fn source(&self, link: LinkId) -> Option<LinkId> {
        let &(early, source) = self.early.get(self.ends[link.0 as usize])?;
        (early == link).then_some(source)
    }

    /// Makes each link show the observer each packet as it comes, which [`Network::expect_only`] and
    /// injections avoid for speed. It changes no arrival. Call it before the first packet.
    pub fn show_all(&mut self) {
        self.shows_all = true;
        self.early.clear();
        self.ahead = 0;
    }

    /// Carries a packet that `link` has taken at `at` and that arrives at `arrives`, and passes it on to
    /// the link behind where `link` is its only source.
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

    /// Takes from a report what has not arrived yet, and what the link has taken before its time.
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
