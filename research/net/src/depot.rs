//! Storage for the packets that cross the network. A packet keeps one table index from its
//! injection to its end; links queue and forward a slip, which holds all that they need to know of
//! the packet.

use crate::packet::{Ecn, Packet};
use crate::topology::HostId;

/// A packet as the links see it. Links copy the slip at every hop, so it is small however large the
/// packet is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slip {
    /// Order among packets that are due at the same time; the lower sequence comes first.
    pub(crate) sequence: u64,
    /// The packet's index in the depot.
    place: u32,
    pub(crate) to: HostId,
    flow: u32,
    size_bytes: u32,
    /// The ECN codepoint. It has 64 bits because they fill the slip: the compiler copies padding in
    /// pieces, and a load that spans several recent stores stalls.
    ecn_bits: u64,
}

impl Packet for Slip {
    #[inline]
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.ecn_bits as u8)
    }

    #[inline]
    fn set_ce(&mut self) {
        self.ecn_bits = Ecn::Ce.bits().into();
    }

    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }
}

/// The packets in the network. The table grows to the largest number of packets that were in the
/// network at once.
#[derive(Clone, Debug)]
pub(crate) struct Depot<P> {
    places: Vec<Option<P>>,
    /// Unused indices. The index freed last is used first, since it is still in the cache.
    free: Vec<u32>,
}

impl<P: Packet> Depot<P> {
    pub(crate) fn new() -> Depot<P> {
        Depot {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a packet for host `to` and returns its slip.
    #[inline]
    pub(crate) fn store(&mut self, packet: P, to: HostId) -> Slip {
        let slip = Slip {
            sequence: 0,
            place: self.free.pop().unwrap_or(self.places.len() as u32),
            to,
            flow: packet.flow(),
            size_bytes: packet.size_bytes(),
            ecn_bits: packet.ecn().bits().into(),
        };
        match self.places.get_mut(slip.place as usize) {
            Some(place) => *place = Some(packet),
            None => self.places.push(Some(packet)),
        }
        slip
    }

    /// Returns the packet of `slip`.
    pub(crate) fn get(&self, slip: &Slip) -> Option<&P> {
        self.places[slip.place as usize].as_ref()
    }

    /// Stores a copy of the packet of `slip` and returns the copy's slip.
    #[cold]
    pub(crate) fn duplicate(&mut self, slip: Slip) -> Option<Slip> {
        let copy = self.places[slip.place as usize].clone()?;
        Some(self.store(copy, slip.to))
    }

    /// Sets CE on the stored packet of `slip`, whose own codepoint is CE already.
    #[inline]
    pub(crate) fn mark(&mut self, slip: &Slip) -> Option<&P> {
        let packet = self.places[slip.place as usize].as_mut()?;
        packet.set_ce();
        Some(packet)
    }

    /// Removes and returns the packet of `slip`, which is invalid from then on.
    #[inline]
    pub(crate) fn withdraw(&mut self, slip: &Slip) -> Option<P> {
        let packet = self.places[slip.place as usize].take();
        self.free.push(slip.place);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn indices_are_reused_and_marking_a_packet_does_not_mark_its_copy() {
        let mut depot = Depot::new();
        let first = depot.store(Letter(60, Ecn::Ect0), HostId(3));
        assert_eq!(
            (first.size_bytes(), first.flow(), first.to),
            (60, 61, HostId(3))
        );
        let copy = depot.duplicate(first).unwrap();
        assert_eq!(depot.mark(&first), Some(&Letter(60, Ecn::Ce)));
        assert_eq!(depot.withdraw(&copy), Some(Letter(60, Ecn::Ect0)));
        assert_eq!(depot.withdraw(&first), Some(Letter(60, Ecn::Ce)));
        for number in 0..10 {
            let slips =
                [number, number + 1].map(|size| depot.store(Letter(size, Ecn::Ce), HostId(0)));
            for slip in slips {
                assert_eq!(
                    depot.withdraw(&slip),
                    Some(Letter(slip.size_bytes(), Ecn::Ce))
                );
            }
        }
        assert_eq!(depot.places.len(), 2);
    }
}
