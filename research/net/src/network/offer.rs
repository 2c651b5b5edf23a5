//! Offers packets to links, which carry or drop them.

use uc_words::Nanos;

use super::Network;
use crate::fault::Fault;
use crate::packet::Packet;
use crate::queue::{DropReason, Verdict};
use crate::sink::Observer;
use crate::topology::LinkId;

impl<P: Packet> Network<P> {
    /// Offers a packet to a link.
    #[inline]
    pub(super) fn offer(
        &mut self,
        at: Nanos,
        link: LinkId,
        packet: u32,
        observer: &mut impl Observer<P>,
    ) {
        let model = &mut self.links[link.0 as usize];
        if model.has_faults() {
            return self.expose(at, link, packet, observer);
        }
        self.enqueue(at, link, packet, Nanos::ZERO, observer);
    }

    /// Offers a packet to a link with fault rules.
    #[cold]
    fn expose(&mut self, at: Nanos, link: LinkId, number: u32, observer: &mut impl Observer<P>) {
        let Some(packet) = self.packets.get(number) else {
            return;
        };
        let hold = match self.links[link.0 as usize].strike(packet) {
            None => Nanos::ZERO,
            Some(Fault::Loss) => return self.drop(at, link, number, DropReason::Fault, observer),
            Some(Fault::Reorder { hold }) => hold,
            Some(Fault::Duplicate) => {
                if let Some(copy) = self.packets.duplicate(number) {
                    self.enqueue(at, link, copy, Nanos::ZERO, observer);
                }
                Nanos::ZERO
            }
        };
        self.enqueue(at, link, number, hold, observer);
    }

    #[inline(always)]
    fn enqueue(
        &mut self,
        at: Nanos,
        link: LinkId,
        number: u32,
        hold: Nanos,
        observer: &mut impl Observer<P>,
    ) {
        let size_bytes = self.packets.label(number).size_bytes;
        let Some(packet) = self.packets.get_mut(number) else {
            return;
        };
        let model = &mut self.links[link.0 as usize];
        match model.judge(at, size_bytes, packet) {
            Verdict::Queued => {}
            Verdict::Marked => {
                self.flows.of(packet.flow()).marked_packets += 1;
                observer.marked(at, link, packet);
            }
            Verdict::Dropped(reason) => return self.drop(at, link, number, reason, observer),
        }
        observer.taken(at, link, packet);
        let arrives = model.accept(at, size_bytes, hold);
        self.carry(at, link, number, arrives);
    }

    /// Drops a packet that found no room at `link`, and reports the drop.
    #[cold]
    pub(super) fn lose(
        &mut self,
        at: Nanos,
        link: LinkId,
        number: u32,
        observer: &mut impl Observer<P>,
    ) {
        let size_bytes = self.packets.label(number).size_bytes;
        let model = &mut self.links[link.0 as usize];
        model.count_drop(size_bytes, DropReason::Full);
        self.drop(at, link, number, DropReason::Full, observer);
    }

    #[cold]
    fn drop(
        &mut self,
        at: Nanos,
        link: LinkId,
        number: u32,
        reason: DropReason,
        observer: &mut impl Observer<P>,
    ) {
        if let Some(packet) = self.packets.withdraw(number) {
            self.flows.of(packet.flow()).dropped_packets += 1;
            observer.dropped(at, link, &packet, reason);
        }
    }
}
