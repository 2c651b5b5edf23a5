//! One of several parts of a network, which run at the same time and give the packets the same order
//! as one.
//!
//! Each part has all nodes and links, but packets only at its own. A packet that comes to another part's
//! node waits in a list until that part takes it, which is in time: it arrives no sooner than a lookahead
//! after it left ([`Division`]).

use std::collections::VecDeque;
use std::sync::Arc;

use uc_words::Nanos;

use super::Network;
use crate::division::{ALL, Division, HOST};
use crate::order::{Cause, INJECTED, Log, Numbering, Phase, Rename, Renames};
use crate::packet::Packet;
use crate::part::{Crossing, Part};
use crate::sink::Arrival;
use crate::topology::LinkId;

impl<P: Packet> Network<P> {
    /// Makes this network, which is a part, another part.
    pub fn renumber_part(&mut self, number: usize) {
        if let Some(part) = &mut self.part {
            part.number = number as u8;
        }
    }

    /// Makes this network part `number` of several. Call it before [`Network::expect_only`].
    pub fn become_part(&mut self, division: &Arc<Division>, number: usize) {
        let owner = |&end: &usize| match end < self.hosts {
            true => HOST,
            false => division.nodes[end],
        };
        self.part = Some(Box::new(Part {
            number: number as u8,
            owners: self.ends.iter().map(owner).collect(),
            division: Arc::clone(division),
            numbering: Numbering::default(),
            waiting: VecDeque::new(),
            leaving: (0..division.parts).map(|_| Vec::new()).collect(),
            first_leaving: Nanos::MAX,
            incoming: Vec::new(),
            coming: Vec::new(),
        }));
    }

    /// Returns whether the same part has both links; always true of an undivided network.
    pub(super) fn are_in_one_part(&self, a: LinkId, b: LinkId) -> bool {
        self.part.as_ref().is_none_or(|part| {
            let [a, b] = [a, b].map(|link| part.division.part_of_link(link));
            a == b
        })
    }

    /// Carries a packet as [`Network::carry`] does, and gives it to the part to which it comes.
    #[inline(always)]
    pub(super) fn carry_in_part(&mut self, now: Nanos, link: LinkId, number: u32, arrives: Nanos) {
        let Some(part) = self.part.as_deref_mut() else {
            return;
        };
        part.numbering.give(&mut self.sequence, now, number);
        let sequence = self.sequence;
        self.sequence += 1;
        let (at, rank) = self.address(now, link, number, arrives, sequence);
        let Some(part) = self.part.as_deref_mut() else {
            return;
        };
        let label = self.depot.label(number);
        let mut owner = part.owners[label.link as usize];
        if owner == ALL {
            let end = self.ends[label.link as usize];
            let path_key = || self.depot.get(number).map_or(0, P::path_key);
            let next = self.routes.next(end, label.to, path_key);
            owner = next.map_or(part.number, |link| part.division.links[link.0 as usize]);
        }
        if owner == HOST {
            part.coming.push((at, number));
            owner = part.number;
        }
        if owner == part.number {
            return self.agenda.add(&mut self.depot, number, at, rank);
        }
        let (link, to, size_bytes) = (label.link, label.to, label.size_bytes);
        let sequence = label.sequence();
        part.first_leaving = part.first_leaving.min(at);
        if let Some(packet) = self.depot.withdraw(number) {
            part.leaving[usize::from(owner)].push(Crossing {
                at,
                rank,
                link,
                sequence,
                to,
                size_bytes,
                packet,
            });
        }
    }

    /// Carries a packet of a host.
    #[inline(never)]
    pub(super) fn carry_injected(&mut self, now: Nanos, link: LinkId, number: u32, arrives: Nanos) {
        self.carry_in_part(now, link, number, arrives);
    }

    /// Begins a window of time: numbers are given from `start` to before `end`.
    pub fn begin_window(&mut self, start: Nanos, end: Nanos) {
        if let Some(part) = &mut self.part {
            part.numbering.log.begin(start, end);
        }
    }

    /// Sets the clock to a time before which there is no event left.
    pub fn reach(&mut self, now: Nanos) {
        self.clock = self.clock.max(now);
    }

    /// Returns the cause of what a packet does that is to reach a host: `number` as in
    /// [`Network::take_coming`].
    pub fn cause_of(&self, number: u32) -> Cause {
        Cause::arrival(self.depot.label(number).rank, Phase::Answer)
    }

    /// Does what [`Network::next_arrival`] does, notes the cause of each event, and leaves arrivals at
    /// `limit` whose ranks are not below `below`.
    pub fn next_arrival_in_part(&mut self, limit: Nanos, below: (u64, u64)) -> Option<Arrival> {
        self.next::<true>(limit, below, &mut ())
    }

    /// Returns the cause of what happens now.
    #[inline]
    pub fn cause(&self) -> Cause {
        self.part
            .as_ref()
            .map_or_else(Cause::default, |part| part.numbering.cause)
    }

    /// Sets the cause of what happens now.
    #[inline]
    pub fn set_cause(&mut self, cause: Cause) {
        if let Some(part) = &mut self.part {
            part.numbering.cause = cause;
        }
    }

    /// Exchanges the log of the numbers that packets got in this window with one that is not needed.
    pub fn swap_log(&mut self, log: &mut Log) {
        if let Some(part) = &mut self.part {
            std::mem::swap(&mut part.numbering.log, log);
        }
    }

    /// Returns whether more packets came to links at one time than there are numbers.
    pub fn is_full(&self) -> bool {
        self.part
            .as_ref()
            .is_some_and(|part| part.numbering.is_full())
    }

    /// Gives the packets of this part their final numbers. Those that leave for other parts get them when
    /// they are [taken](Network::take_crossing).
    pub fn rename(&mut self, renames: &[Rename]) {
        // From the highest on, since a new number may be a later old one.
        for rename in renames.iter().rev() {
            let label = self.depot.label_mut(rename.item);
            label.renumber(rename.old, rename.new);
        }
    }

    /// Makes the next number at least `least`.
    pub fn number_from(&mut self, least: u64) {
        self.sequence = self.sequence.max(least);
    }

    /// Exchanges the packets that leave for other parts, by part, with lists that are not needed.
    pub fn swap_leaving(&mut self, lists: &mut Vec<Vec<Crossing<P>>>) {
        if let Some(part) = &mut self.part {
            std::mem::swap(&mut part.leaving, lists);
            part.leaving.resize_with(lists.len(), Vec::new);
            part.leaving.iter_mut().for_each(Vec::clear);
            part.first_leaving = Nanos::MAX;
        }
    }

    /// Returns when the first packet arrives that leaves for another part.
    pub fn first_leaving(&self) -> Option<Nanos> {
        let first = self.part.as_ref().map(|part| part.first_leaving);
        first.filter(|&at| at < Nanos::MAX)
    }

    /// Takes packets from another part, and gives them the final numbers of that part.
    pub fn take_crossing(&mut self, packets: &[Crossing<P>], renames: &Renames) {
        let Some(part) = &mut self.part else { return };
        // As a whole, so that their lines come from the other core's cache at the same time.
        part.incoming.extend_from_slice(packets);
        for crossing in part.incoming.drain(..) {
            let Crossing { at, mut rank, .. } = crossing;
            let (to, size_bytes) = (crossing.to, crossing.size_bytes);
            let number = self.depot.store(to, size_bytes, crossing.packet);
            let label = self.depot.label_mut(number);
            rank.1 = rank.1 & INJECTED | renames.packet(rank.1 & !INJECTED);
            label.set_sequence(renames.packet(crossing.sequence));
            label.address(at, rank, crossing.link);
            self.agenda.add(&mut self.depot, number, at, rank);
        }
    }

    /// Calls `what` for each packet that has come to a link to a host since the last call: with the time
    /// of its arrival, which is not before the end of the window, with the number that it has until
    /// then, and with the packet.
    pub fn take_coming(&mut self, mut what: impl FnMut(Nanos, u32, &P)) {
        let Some(part) = &mut self.part else { return };
        for (at, number) in part.coming.drain(..) {
            if let Some(packet) = self.depot.get(number) {
                what(at, number, packet);
            }
        }
    }
}
