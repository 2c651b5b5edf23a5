//! Storage for the packets that cross the network. A packet keeps one number, its index here, from its
//! injection to its end; links and the agenda know it by that.

use crate::packet::Packet;
use crate::topology::HostId;

/// A packet in the network.
#[derive(Clone, Debug)]
struct Place<P> {
    packet: Option<P>,
    /// Number of its coming to the last link, in the order of all; the maximum before the first.
    sequence: u64,
    to: HostId,
    /// Whether the next link has refused it already.
    is_doomed: bool,
}

/// The packets in the network. The table grows to the largest number of packets that were in the
/// network at once.
#[derive(Clone, Debug)]
pub(crate) struct Depot<P> {
    places: Vec<Place<P>>,
    /// Unused numbers. The number freed last is used first, since its packet's memory is still in the
    /// cache.
    free: Vec<u32>,
}

impl<P: Packet> Depot<P> {
    pub(crate) fn new() -> Depot<P> {
        Depot {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a packet for host `to` and returns its number.
    #[inline]
    pub(crate) fn store(&mut self, packet: P, to: HostId) -> u32 {
        let place = Place {
            packet: Some(packet),
            sequence: u64::MAX,
            to,
            is_doomed: false,
        };
        match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Returns the host for which packet `number` is.
    #[inline]
    pub(crate) fn to(&self, number: u32) -> HostId {
        self.places[number as usize].to
    }

    /// Sets the number of a packet's coming to a link, and returns that of the link before.
    #[inline]
    pub(crate) fn set_sequence(&mut self, number: u32, sequence: u64) -> u64 {
        std::mem::replace(&mut self.places[number as usize].sequence, sequence)
    }

    /// Notes that the next link has refused packet `number`.
    #[cold]
    pub(crate) fn doom(&mut self, number: u32) {
        self.places[number as usize].is_doomed = true;
    }

    /// Returns whether the next link has refused packet `number`.
    #[inline]
    pub(crate) fn is_doomed(&self, number: u32) -> bool {
        self.places[number as usize].is_doomed
    }

    /// Returns packet `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&P> {
        self.places[number as usize].packet.as_ref()
    }

    /// Returns packet `number` for update.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut P> {
        self.places[number as usize].packet.as_mut()
    }

    /// Stores a copy of packet `number` and returns the copy's number.
    #[cold]
    pub(crate) fn duplicate(&mut self, number: u32) -> Option<u32> {
        let place = &self.places[number as usize];
        let (copy, to) = (place.packet.clone()?, place.to);
        Some(self.store(copy, to))
    }

    /// Removes and returns packet `number`, which is invalid from then on.
    #[inline]
    pub(crate) fn withdraw(&mut self, number: u32) -> Option<P> {
        self.free.push(number);
        self.places[number as usize].packet.take()
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

    #[test]
    fn numbers_are_reused_and_marking_a_packet_does_not_mark_its_copy() {
        let mut depot = Depot::new();
        let first = depot.store(Letter(60, Ecn::Ect0), HostId(3));
        let copy = depot.duplicate(first).unwrap();
        assert_eq!([first, copy].map(|number| depot.to(number)), [HostId(3); 2]);
        depot.get_mut(first).unwrap().set_ce();
        assert_eq!(depot.get(first), Some(&Letter(60, Ecn::Ce)));
        assert_eq!(depot.withdraw(copy), Some(Letter(60, Ecn::Ect0)));
        assert_eq!(depot.withdraw(first), Some(Letter(60, Ecn::Ce)));
        for size in 0..10 {
            let numbers =
                [size, size + 1].map(|size| depot.store(Letter(size, Ecn::Ce), HostId(0)));
            for (number, size) in numbers.into_iter().zip(size..) {
                assert_eq!(depot.withdraw(number), Some(Letter(size, Ecn::Ce)));
            }
        }
        assert_eq!(depot.places.len(), 2);
    }
}
