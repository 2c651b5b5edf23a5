//! Storage for the packets that cross the network. A packet keeps one number, its index in the store, from its
//! injection to its end; links and the queue of arrivals use that number.

use uc_words::Nanos;

use crate::topology::HostId;

/// The order of packets that arrive at the same time: the lower rank comes first.
pub(crate) type Rank = (Nanos, u64);

/// Stands for no packet, where a packet's number is expected.
pub(crate) const NONE: u32 = u32::MAX;

/// Value of [`Label`]'s `sequence` before a packet's first link.
const NO_SEQUENCE: u64 = u64::MAX;
/// Value of [`Label`]'s `sequence` after the next link has refused the packet; no later link reads it.
const REFUSED: u64 = u64::MAX - 1;

/// The network's metadata of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// Time of arrival at the far end of `link`.
    pub(crate) at: Nanos,
    /// Order among packets with the same `at`: the lower rank comes first. No two ranks are equal.
    pub(crate) rank: Rank,
    pub(crate) link: u32,
    /// Number of the next packet in the same list of the queue of arrivals; [`NONE`] for the last.
    pub(crate) next: u32,
    /// When the packet came to its last link, in the order of all packets' comings to links; [`NO_SEQUENCE`] before the
    /// first link, [`REFUSED`] after a refusal.
    sequence: u64,
    pub(crate) to: HostId,
    pub(crate) size_bytes: u32,
}

impl Default for Label {
    fn default() -> Label {
        Label {
            at: Nanos::ZERO,
            rank: (Nanos::ZERO, 0),
            link: 0,
            next: NONE,
            sequence: NO_SEQUENCE,
            to: HostId(0),
            size_bytes: 0,
        }
    }
}

impl Label {
    /// Sets when the packet arrives at the far end of `link`, and its rank.
    #[inline(always)]
    pub(crate) fn address(&mut self, at: Nanos, rank: Rank, link: u32) {
        // One by one: a label made elsewhere and copied as a whole is read before it is written.
        self.at = at;
        self.rank.0 = rank.0;
        self.rank.1 = rank.1;
        self.link = link;
        self.next = NONE;
    }

    /// Sets `sequence` when the packet comes to a link, and returns its value at the link before.
    #[inline]
    pub(crate) fn set_sequence(&mut self, sequence: u64) -> u64 {
        std::mem::replace(&mut self.sequence, sequence)
    }

    /// Notes that the next link has refused the packet.
    #[cold]
    pub(crate) fn set_refused(&mut self) {
        self.sequence = REFUSED;
    }

    /// Returns whether the next link has refused the packet.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.sequence == REFUSED
    }
}

/// A packet with its label. The label comes first and begins a cache line, since it is used first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Stored<P> {
    label: Label,
    packet: Option<P>,
}

/// The packets in the network. The table grows to the largest number of packets that were in the
/// network at once.
#[derive(Clone, Debug)]
pub(crate) struct PacketStore<P> {
    stored: Vec<Stored<P>>,
    /// Unused numbers. The number freed last is used first, since its packet's memory is still in the
    /// cache.
    free: Vec<u32>,
}

impl<P: Clone> PacketStore<P> {
    pub(crate) fn new() -> PacketStore<P> {
        PacketStore {
            stored: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a packet of this size to host `to`, and returns its number.
    #[inline(always)]
    pub(crate) fn store(&mut self, to: HostId, size_bytes: u32, packet: P) -> u32 {
        // `grow` gets no packet, so that the packet is made in its place and never elsewhere.
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.grow(),
        };
        let stored = &mut self.stored[number as usize];
        stored.label.sequence = NO_SEQUENCE;
        stored.label.to = to;
        stored.label.size_bytes = size_bytes;
        stored.packet = Some(packet);
        number
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.stored.push(Stored {
            label: Label::default(),
            packet: None,
        });
        self.stored.len() as u32 - 1
    }

    /// Returns the label of packet `number`.
    #[inline]
    pub(crate) fn label(&self, number: u32) -> &Label {
        &self.stored[number as usize].label
    }

    /// Returns the label of packet `number` for update.
    #[inline]
    pub(crate) fn label_mut(&mut self, number: u32) -> &mut Label {
        &mut self.stored[number as usize].label
    }

    /// Returns the stored packet with this number; `None` if there is none.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&P> {
        self.stored[number as usize].packet.as_ref()
    }

    /// Returns the stored packet with this number for update; `None` if there is none.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut P> {
        self.stored[number as usize].packet.as_mut()
    }

    /// Stores a copy of packet `number` and returns the copy's number; `None` if there is no such packet.
    #[cold]
    pub(crate) fn duplicate(&mut self, number: u32) -> Option<u32> {
        let copy = self.get(number)?.clone();
        let Label { to, size_bytes, .. } = *self.label(number);
        Some(self.store(to, size_bytes, copy))
    }

    /// Removes packet `number`, which is invalid from then on.
    #[inline]
    pub(crate) fn discard(&mut self, number: u32) {
        self.free.push(number);
        self.stored[number as usize].packet = None;
    }

    /// Removes and returns packet `number`, `None` if there is none; the number is invalid from then on.
    #[inline]
    pub(crate) fn withdraw(&mut self, number: u32) -> Option<P> {
        self.free.push(number);
        self.stored[number as usize].packet.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, Packet};

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Letter(u32, Ecn);

    impl Packet for Letter {
        fn size_bytes(&self) -> u32 {
            self.0
        }

        fn ecn(&self) -> Ecn {
            self.1
        }

        fn set_ce(&mut self) {
            self.1 = Ecn::Ce;
        }

        fn flow(&self) -> u32 {
            self.0 + 1
        }
    }

    fn store(packets: &mut PacketStore<Letter>, packet: Letter) -> u32 {
        packets.store(HostId(3), packet.0, packet)
    }

    #[test]
    fn numbers_are_reused_and_marking_a_packet_does_not_mark_its_copy() {
        let mut packets = PacketStore::new();
        let first = store(&mut packets, Letter(60, Ecn::Ect0));
        let copy = packets.duplicate(first).unwrap();
        for number in [first, copy] {
            let label = packets.label(number);
            assert_eq!((label.to, label.size_bytes), (HostId(3), 60));
        }
        packets.get_mut(first).unwrap().set_ce();
        assert_eq!(packets.get(first), Some(&Letter(60, Ecn::Ce)));
        assert_eq!(packets.withdraw(copy), Some(Letter(60, Ecn::Ect0)));
        assert_eq!(packets.withdraw(first), Some(Letter(60, Ecn::Ce)));
        for size in 0..10 {
            let numbers = [size, size + 1].map(|size| store(&mut packets, Letter(size, Ecn::Ce)));
            for (number, size) in numbers.into_iter().zip(size..) {
                assert_eq!(packets.withdraw(number), Some(Letter(size, Ecn::Ce)));
            }
        }
        assert_eq!(packets.stored.len(), 2);
    }
}
