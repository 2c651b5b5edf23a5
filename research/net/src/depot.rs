//! Storage for the packets that cross the network. A packet keeps one number, its index here, from its
//! injection to its end; links and the agenda know it by that.

use crate::packet::Packet;
use crate::topology::HostId;

/// What the network knows of a packet.
#[derive(Clone, Debug)]
struct Label {
    /// Number of its coming to the last link, in the order of all; the maximum before the first.
    sequence: u64,
    to: HostId,
    size_bytes: u32,
    /// Whether the next link has refused it already.
    is_doomed: bool,
}

/// The packets in the network. The tables grow to the largest number of packets that were in the
/// network at once.
#[derive(Clone, Debug)]
pub(crate) struct Depot<P> {
    labels: Vec<Label>,
    packets: Vec<Option<P>>,
    /// Unused numbers. The number freed last is used first, since its packet's memory is still in the
    /// cache.
    free: Vec<u32>,
}

impl<P: Packet> Depot<P> {
    pub(crate) fn new() -> Depot<P> {
        Depot {
            labels: Vec::new(),
            packets: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Reserves a number for a packet of this size to host `to`, which [`Depot::put`] stores.
    #[inline]
    pub(crate) fn reserve(&mut self, to: HostId, size_bytes: u32) -> u32 {
        let label = Label {
            sequence: u64::MAX,
            to,
            size_bytes,
            is_doomed: false,
        };
        match self.free.pop() {
            Some(number) => {
                self.labels[number as usize] = label;
                number
            }
            None => {
                self.labels.push(label);
                self.packets.push(None);
                self.labels.len() as u32 - 1
            }
        }
    }

    /// Stores packet `number`.
    #[inline]
    pub(crate) fn put(&mut self, number: u32, packet: P) {
        self.packets[number as usize] = Some(packet);
    }

    /// Returns the host for which packet `number` is.
    #[inline]
    pub(crate) fn to(&self, number: u32) -> HostId {
        self.labels[number as usize].to
    }

    /// Returns the size of packet `number`.
    #[inline]
    pub(crate) fn size_bytes(&self, number: u32) -> u32 {
        self.labels[number as usize].size_bytes
    }

    /// Sets the number of a packet's coming to a link, and returns that of the link before.
    #[inline]
    pub(crate) fn set_sequence(&mut self, number: u32, sequence: u64) -> u64 {
        std::mem::replace(&mut self.labels[number as usize].sequence, sequence)
    }

    /// Notes that the next link has refused packet `number`.
    #[cold]
    pub(crate) fn doom(&mut self, number: u32) {
        self.labels[number as usize].is_doomed = true;
    }

    /// Returns whether the next link has refused packet `number`.
    #[inline]
    pub(crate) fn is_doomed(&self, number: u32) -> bool {
        self.labels[number as usize].is_doomed
    }

    /// Returns packet `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&P> {
        self.packets[number as usize].as_ref()
    }

    /// Returns packet `number` for update.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut P> {
        self.packets[number as usize].as_mut()
    }

    /// Stores a copy of packet `number` and returns the copy's number.
    #[cold]
    pub(crate) fn duplicate(&mut self, number: u32) -> Option<u32> {
        let copy = self.get(number)?.clone();
        let stored = self.reserve(self.to(number), self.size_bytes(number));
        self.put(stored, copy);
        Some(stored)
    }

    /// Removes and returns packet `number`, which is invalid from then on.
    #[inline]
    pub(crate) fn withdraw(&mut self, number: u32) -> Option<P> {
        self.free.push(number);
        self.packets[number as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;

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

    fn store(depot: &mut Depot<Letter>, packet: Letter) -> u32 {
        let number = depot.reserve(HostId(3), packet.0);
        depot.put(number, packet);
        number
    }

    #[test]
    fn numbers_are_reused_and_marking_a_packet_does_not_mark_its_copy() {
        let mut depot = Depot::new();
        let first = store(&mut depot, Letter(60, Ecn::Ect0));
        let copy = depot.duplicate(first).unwrap();
        for number in [first, copy] {
            assert_eq!(
                (depot.to(number), depot.size_bytes(number)),
                (HostId(3), 60)
            );
        }
        depot.get_mut(first).unwrap().set_ce();
        assert_eq!(depot.get(first), Some(&Letter(60, Ecn::Ce)));
        assert_eq!(depot.withdraw(copy), Some(Letter(60, Ecn::Ect0)));
        assert_eq!(depot.withdraw(first), Some(Letter(60, Ecn::Ce)));
        for size in 0..10 {
            let numbers = [size, size + 1].map(|size| store(&mut depot, Letter(size, Ecn::Ce)));
            for (number, size) in numbers.into_iter().zip(size..) {
                assert_eq!(depot.withdraw(number), Some(Letter(size, Ecn::Ce)));
            }
        }
        assert_eq!(depot.packets.len(), 2);
    }
}
