//! The packets in the network by time of arrival.
//!
//! A wheel has slots for the window of time that has begun and for the next one, and a second wheel a
//! slot for each later window. A slot is a list, which links packets by their numbers: to add a packet
//! or to take the first costs the same however many there are, and allocates nothing.

use uc_words::Nanos;

use crate::packet_store::{Label, NONE, PacketStore, Rank};

/// Width of a slot, and number of slots of a wheel, as powers of two.
const SLOT_BITS: u32 = 8;
const WHEEL_BITS: u32 = 11;
const SLOTS: usize = 1 << WHEEL_BITS;
/// Width of a window: half of the span of the first wheel.
const WINDOW_BITS: u32 = SLOT_BITS + WHEEL_BITS - 1;

/// A ring of lists, with a bit for each list that is not empty.
#[derive(Clone, Debug)]
struct Wheel {
    /// First and last packet of each list.
    lists: Box<[(u32, u32); SLOTS]>,
    used: [u64; SLOTS / 64],
}

impl Wheel {
    fn new() -> Wheel {
        Wheel {
            lists: Box::new([(NONE, NONE); SLOTS]),
            used: [0; SLOTS / 64],
        }
    }

    /// Returns the first list that is not empty, from `slot` on.
    #[inline]
    fn next_used(&self, slot: usize) -> Option<usize> {
        self.next_in_word(slot).or_else(|| {
            let words = self.used.iter().enumerate().skip(slot / 64 + 1);
            let mut used = words.filter(|&(_, &bits)| bits != 0);
            let (word, bits) = used.next()?;
            Some(word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Returns the first list that is not empty, from `slot` on, if its bit is in the same word.
    #[inline(always)]
    fn next_in_word(&self, slot: usize) -> Option<usize> {
        let word = slot / 64;
        let masked = self.used[word] & (u64::MAX << (slot % 64));
        (masked != 0).then(|| word * 64 + masked.trailing_zeros() as usize)
    }
}

/// The packets in the network by time of arrival. Their labels, which link them, are in the
/// [`PacketStore`].
#[derive(Clone, Debug)]
pub(crate) struct ArrivalQueue {
    /// The packet that arrives first, and when; `NONE` if there is none.
    first: u32,
    first_at: Nanos,
    /// The number of the window after the one that has begun: time over the window's width.
    horizon: u64,
    /// When that window begins.
    horizon_at: Nanos,
    /// The window that has begun and the next one.
    near: Wheel,
    /// The windows after `horizon` in the same turn of this wheel, and later ones.
    far: Wheel,
    beyond: Vec<u32>,
}

fn slot(at: Nanos) -> usize {
    (at.0 >> SLOT_BITS) as usize % SLOTS
}

fn window(at: Nanos) -> u64 {
    at.0 >> WINDOW_BITS
}

/// Returns when a window begins.
fn start(window: u64) -> Nanos {
    Nanos(window << WINDOW_BITS)
}

impl ArrivalQueue {
    pub(crate) fn new() -> ArrivalQueue {
        ArrivalQueue {
            first: NONE,
            first_at: Nanos::MAX,
            horizon: 1,
            horizon_at: start(1),
            near: Wheel::new(),
            far: Wheel::new(),
            beyond: Vec::new(),
        }
    }

    /// Returns the time of the first arrival; `None` if the queue is empty.
    #[inline]
    pub(crate) fn first_at(&self) -> Option<Nanos> {
        (self.first != NONE).then_some(self.first_at)
    }

    /// Returns the time of the first arrival if it is not after `limit`.
    #[inline(always)]
    pub(crate) fn due(&self, limit: Nanos) -> Option<Nanos> {
        (self.first_at <= limit && self.first != NONE).then_some(self.first_at)
    }

    /// Adds a packet that was [addressed](Label::address) to `at` and `rank`, which must not arrive
    /// before the one removed last.
    #[inline(always)]
    pub(crate) fn add<P: Clone>(
        &mut self,
        packets: &mut PacketStore<P>,
        packet: u32,
        at: Nanos,
        rank: Rank,
    ) {
        self.file(packets, packet, at, rank);
        // Without another packet `first_at` is the maximum.
        let is_first = at < self.first_at || (at == self.first_at && self.is_before(packets, rank));
        if is_first {
            (self.first, self.first_at) = (packet, at);
        }
    }

    /// Returns whether a packet of this rank precedes the one that arrives first, at the same time.
    fn is_before<P: Clone>(&self, packets: &PacketStore<P>, rank: Rank) -> bool {
        self.first == NONE || rank < packets.label(self.first).rank
    }

    /// Puts a packet into the list to which it belongs now.
    #[inline(always)]
    fn file<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, at: Nanos, rank: Rank) {
        if window(at) <= self.horizon {
            self.sort_in(packets, packet, (at, rank));
        } else {
            self.put_off(packets, packet, window(at));
        }
    }

    /// Puts a packet into a list of the first wheel, behind all that come no later.
    #[inline(always)]
    fn sort_in<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, own: (Nanos, Rank)) {
        let slot = slot(own.0);
        let (first, last) = self.near.lists[slot];
        if first == NONE {
            self.near.lists[slot] = (packet, packet);
            self.near.used[slot / 64] |= 1 << (slot % 64);
        } else if key(packets, last) < own {
            packets.label_mut(last).next = packet;
            self.near.lists[slot].1 = packet;
        } else if own < key(packets, first) {
            packets.label_mut(packet).next = first;
            self.near.lists[slot].0 = packet;
        } else {
            let mut before = first;
            loop {
                let next = packets.label(before).next;
                if own < key(packets, next) {
                    packets.label_mut(packet).next = next;
                    packets.label_mut(before).next = packet;
                    return;
                }
                before = next;
            }
        }
    }

    /// Keeps a packet until its window is near.
    #[cold]
    fn put_off<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, window: u64) {
        if window >> WHEEL_BITS != self.horizon >> WHEEL_BITS {
            self.beyond.push(packet);
            return;
        }
        let slot = window as usize % SLOTS;
        let (first, _) = self.far.lists[slot];
        packets.label_mut(packet).next = first;
        self.far.lists[slot].0 = packet;
        self.far.used[slot / 64] |= 1 << (slot % 64);
    }

    /// Removes the packet that arrives first, and returns its number.
    ///
    /// # Panics
    /// If the queue is empty.
    #[inline(always)]
    pub(crate) fn remove_first<P: Clone>(&mut self, packets: &mut PacketStore<P>) -> u32 {
        let packet = self.first;
        if self.first_at >= self.horizon_at {
            self.begin(packets, window(self.first_at));
        }
        let slot = slot(self.first_at);
        let next = packets.label(packet).next;
        self.near.lists[slot].0 = next;
        if next == NONE {
            self.near.used[slot / 64] &= !(1 << (slot % 64));
            self.find_first(packets, slot);
        } else {
            self.first = next;
            self.first_at = packets.label(next).at;
        }
        packet
    }

    /// Finds the packet that arrives first, in no slot of the window that has begun before `slot`.
    #[inline(always)]
    fn find_first<P: Clone>(&mut self, packets: &PacketStore<P>, slot: usize) {
        // Mostly in one of the 64 slots whose bits are in one word.
        let Some(used) = self.near.next_in_word(slot) else {
            return self.find_far(packets, slot);
        };
        self.first = self.near.lists[used].0;
        self.first_at = packets.label(self.first).at;
    }

    #[cold]
    fn find_far<P: Clone>(&mut self, packets: &PacketStore<P>, slot: usize) {
        let near = self.near.next_used(slot);
        self.first = match near.or_else(|| self.near.next_used(0)) {
            Some(used) => self.near.lists[used].0,
            None => self.first_beyond(packets),
        };
        self.first_at = if self.first == NONE {
            Nanos::MAX
        } else {
            packets.label(self.first).at
        };
    }

    /// Returns the packet that arrives first after the first wheel's windows.
    #[cold]
    fn first_beyond<P: Clone>(&self, packets: &PacketStore<P>) -> u32 {
        let next = (self.horizon as usize % SLOTS) + 1;
        let used = (next < SLOTS).then(|| self.far.next_used(next)).flatten();
        let by_key = |&number: &u32| key(packets, number);
        let first = match used {
            Some(slot) => list(packets, self.far.lists[slot].0).min_by_key(by_key),
            None => self.beyond.iter().copied().min_by_key(by_key),
        };
        first.unwrap_or(NONE)
    }

    /// Begins a window: distributes the packets that are near now over the slots.
    #[cold]
    fn begin<P: Clone>(&mut self, packets: &mut PacketStore<P>, window: u64) {
        let (before, horizon) = (self.horizon, window + 1);
        self.horizon = horizon;
        self.horizon_at = start(horizon);
        for near in window.max(before + 1)..=horizon {
            let slot = near as usize % SLOTS;
            let (mut packet, _) = std::mem::replace(&mut self.far.lists[slot], (NONE, NONE));
            self.far.used[slot / 64] &= !(1 << (slot % 64));
            while packet != NONE {
                let next = packets.label(packet).next;
                self.file_again(packets, packet);
                packet = next;
            }
        }
        if horizon >> WHEEL_BITS != before >> WHEEL_BITS {
            // Those that still are far beyond join the end.
            let count = self.beyond.len();
            for place in 0..count {
                self.file_again(packets, self.beyond[place]);
            }
            self.beyond.drain(..count);
        }
    }

    fn file_again<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32) {
        let label = packets.label_mut(packet);
        label.next = NONE;
        let (at, rank) = (label.at, label.rank);
        self.file(packets, packet, at, rank);
    }

    /// Iterates over the labels of all packets, in no order.
    pub(crate) fn iter<'a, P: Clone>(
        &'a self,
        packets: &'a PacketStore<P>,
    ) -> impl Iterator<Item = &'a Label> {
        let lists = [&self.near, &self.far].into_iter().flat_map(|wheel| {
            let mut from = 0;
            std::iter::from_fn(move || {
                let used = (from < SLOTS).then(|| wheel.next_used(from)).flatten()?;
                from = used + 1;
                Some(wheel.lists[used].0)
            })
        });
        let listed = lists.flat_map(move |first| list(packets, first));
        let all = listed.chain(self.beyond.iter().copied());
        all.map(|number| packets.label(number))
    }
}

/// Returns what orders packets.
#[inline(always)]
fn key<P: Clone>(packets: &PacketStore<P>, number: u32) -> (Nanos, Rank) {
    let label = packets.label(number);
    (label.at, label.rank)
}

/// Iterates over a list.
fn list<P: Clone>(packets: &PacketStore<P>, first: u32) -> impl Iterator<Item = u32> {
    let known = |number: u32| (number != NONE).then_some(number);
    std::iter::successors(known(first), move |&number| {
        known(packets.label(number).next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use crate::topology::HostId;

    #[test]
    fn packets_come_in_the_order_of_time_and_rank_from_every_distance() {
        let seed = 5;
        let mut random = Stream::new(seed, "arrivals");
        // From many packets in a slot to a few in every turn of the far wheel.
        for span_bits in [3, 8, 14, 20, 26, 32, 40] {
            let (mut arrivals, mut packets) = (ArrivalQueue::new(), PacketStore::new());
            let mut expected = std::collections::BTreeMap::new();
            let mut now = Nanos::ZERO;
            for step in 0..20_000u64 {
                let shown = format!("seed {seed}, span 2^{span_bits}, step {step}");
                let earliest = expected.first_key_value();
                let due = earliest.map(|(&(at, _), _): (&(Nanos, Rank), &u32)| at);
                assert_eq!(arrivals.first_at(), due, "{shown}");
                // More packets in the first half, fewer in the second.
                let adds = random.below(5) < if step < 10_000 { 3 } else { 2 };
                if adds || expected.is_empty() {
                    let at = Nanos(now.0 + random.below(1 << span_bits));
                    let rank = (Nanos(random.below(3)), step);
                    let packet = packets.store(HostId(0), 0, ());
                    packets.label_mut(packet).address(at, rank, step as u32);
                    arrivals.add(&mut packets, packet, at, rank);
                    expected.insert((at, rank), packet);
                } else {
                    let ((at, rank), packet) = expected.pop_first().unwrap();
                    let first = arrivals.remove_first(&mut packets);
                    let label = packets.label(first);
                    assert_eq!((first, label.at, label.rank), (packet, at, rank), "{shown}");
                    assert_eq!(u64::from(label.link), rank.1, "{shown}");
                    packets.withdraw(first);
                    now = at;
                }
                if step % 1_000 == 0 {
                    let labels = arrivals.iter(&packets);
                    let mut listed: Vec<_> = labels.map(|label| (label.at, label.rank)).collect();
                    listed.sort_unstable();
                    assert!(listed.iter().eq(expected.keys()), "{shown}");
                }
            }
        }
    }
}
