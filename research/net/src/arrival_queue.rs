//! The packets in the network by time of arrival.
//!
//! A wheel has slots for the window of time that has begun and for the next one, and a second wheel a
//! slot for each later window. A slot is a list in no order, which links packets by their numbers. When the
//! first packet of a slot is the next to arrive, all of the slot move to a heap. The faster the links are, the
//! narrower are the slots. So to add or to take a packet costs the same at any rate, but for the logarithm of the
//! packets in one slot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use uc_words::{BitsPerSec, Nanos};

use crate::packet_store::{Label, NONE, PacketStore, Rank};

/// Base-2 logarithm of a slot's width in ns, if no link is faster than [`WIDE_RATE`]; faster links have narrower slots.
const WIDE_BITS: u32 = 8;
const WIDE_RATE: BitsPerSec = BitsPerSec(10_000_000_000);
/// Base-2 logarithm of the number of slots of a wheel.
const WHEEL_BITS: u32 = 11;
const SLOTS: usize = 1 << WHEEL_BITS;
/// Base-2 logarithm of the number of slots in a window: half of the first wheel.
const WINDOW_BITS: u32 = WHEEL_BITS - 1;

/// A ring of lists, with a bit for each list that is not empty.
#[derive(Clone, Debug)]
struct Wheel {
    /// Number of the first packet in each list; [`NONE`] for an empty list.
    lists: Box<[u32; SLOTS]>,
    used: [u64; SLOTS / 64],
}

impl Wheel {
    fn new() -> Wheel {
        Wheel {
            lists: Box::new([NONE; SLOTS]),
            used: [0; SLOTS / 64],
        }
    }

    /// Adds a packet to the front of the list `slot`.
    #[inline(always)]
    fn add<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, slot: usize) {
        let first = std::mem::replace(&mut self.lists[slot], packet);
        packets.label_mut(packet).next = first;
        self.used[slot / 64] |= 1 << (slot % 64);
    }

    /// Empties the list `slot`, and returns its first packet, to which the others are linked.
    #[inline(always)]
    fn take(&mut self, slot: usize) -> u32 {
        self.used[slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.lists[slot], NONE)
    }

    /// Returns the index of the first list that is not empty, from `slot` to the wheel's end; `None` without one.
    #[inline]
    fn next_used(&self, slot: usize) -> Option<usize> {
        self.next_in_word(slot).or_else(|| {
            let words = self.used.iter().enumerate().skip(slot / 64 + 1);
            let mut used = words.filter(|&(_, &bits)| bits != 0);
            let (word, bits) = used.next()?;
            Some(word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Returns the index of the first list that is not empty, from `slot` on, if its bit is in the same word of `used`.
    #[inline(always)]
    fn next_in_word(&self, slot: usize) -> Option<usize> {
        let word = slot / 64;
        let masked = self.used[word] & (u64::MAX << (slot % 64));
        (masked != 0).then(|| word * 64 + masked.trailing_zeros() as usize)
    }
}

/// A packet in the heap: time of arrival and rank, which order packets, and the packet's number.
type Soon = Reverse<(Nanos, Rank, u32)>;

/// The packets in the network by time of arrival. Their labels, which link them, are in the
/// [`PacketStore`].
#[derive(Clone, Debug)]
pub(crate) struct ArrivalQueue {
    /// Base-2 logarithm of a slot's width in ns.
    slot_bits: u32,
    /// The packets of all slots up to `heap_slot`; empty only if the network has no packet.
    heap: BinaryHeap<Soon>,
    /// The number of the last slot whose packets are in the heap: time divided by the slot's width.
    heap_slot: u64,
    /// The number of the window after the one that has begun: time divided by the window's width.
    horizon: u64,
    /// Slots of the window that has begun and of the next one.
    near: Wheel,
    /// A slot for each window after `horizon` in the same turn of this wheel. `beyond` has the packets of later turns.
    far: Wheel,
    beyond: Vec<u32>,
}

impl ArrivalQueue {
    /// Creates a queue for packets of a network whose fastest link has this rate.
    pub(crate) fn new(rate: BitsPerSec) -> ArrivalQueue {
        let times_faster = rate.0.div_ceil(WIDE_RATE.0).max(1);
        ArrivalQueue {
            slot_bits: WIDE_BITS.saturating_sub(times_faster.ilog2()),
            heap: BinaryHeap::new(),
            heap_slot: 0,
            horizon: 1,
            near: Wheel::new(),
            far: Wheel::new(),
            beyond: Vec::new(),
        }
    }

    fn slot(&self, at: Nanos) -> u64 {
        at.0 >> self.slot_bits
    }

    fn window(&self, at: Nanos) -> u64 {
        self.slot(at) >> WINDOW_BITS
    }

    /// Returns the time of the first arrival; `None` if the queue is empty.
    #[inline]
    pub(crate) fn first_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Returns the time of the first arrival if it is not after `limit`.
    #[inline(always)]
    pub(crate) fn due(&self, limit: Nanos) -> Option<Nanos> {
        self.first_at().filter(|at| *at <= limit)
    }

    /// Adds a packet that was [addressed](Label::address) to `at` and `rank`. The packet must not arrive before the
    /// packet that was removed last.
    #[inline(always)]
    pub(crate) fn add<P: Clone>(
        &mut self,
        packets: &mut PacketStore<P>,
        packet: u32,
        at: Nanos,
        rank: Rank,
    ) {
        if self.slot(at) <= self.heap_slot {
            self.heap.push(Reverse((at, rank, packet)));
        } else if self.heap.is_empty() {
            self.begin(packets, self.window(at));
            self.heap_slot = self.slot(at);
            self.heap.push(Reverse((at, rank, packet)));
        } else {
            self.file(packets, packet, at);
        }
    }

    /// Puts a packet into the list of its slot, or of its window if that is far.
    #[inline(always)]
    fn file<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, at: Nanos) {
        if self.window(at) <= self.horizon {
            self.near
                .add(packets, packet, self.slot(at) as usize % SLOTS);
        } else {
            self.put_off(packets, packet, self.window(at));
        }
    }

    /// Stores a packet by its window, until the window is near.
    #[cold]
    fn put_off<P: Clone>(&mut self, packets: &mut PacketStore<P>, packet: u32, window: u64) {
        if window >> WHEEL_BITS == self.horizon >> WHEEL_BITS {
            self.far.add(packets, packet, window as usize % SLOTS);
        } else {
            self.beyond.push(packet);
        }
    }

    /// Removes the packet that arrives first, and returns its number.
    ///
    /// # Panics
    /// If the queue is empty.
    #[inline(always)]
    pub(crate) fn remove_first<P: Clone>(&mut self, packets: &mut PacketStore<P>) -> u32 {
        let Some(Reverse((.., packet))) = self.heap.pop() else {
            panic!("no packet is in the network");
        };
        if self.heap.is_empty() {
            self.refill(packets);
        }
        packet
    }

    /// Moves the packets of the first slot that has some to the empty heap.
    #[inline(always)]
    fn refill<P: Clone>(&mut self, packets: &mut PacketStore<P>) {
        // Mostly one of the 64 slots whose bits are in one word.
        let next = (self.heap_slot as usize + 1) % SLOTS;
        let Some(used) = self
            .near
            .next_in_word(next)
            .or_else(|| self.find(packets, next))
        else {
            return;
        };
        let mut packet = self.near.take(used);
        self.heap_slot = self.slot(packets.label(packet).at);
        while packet != NONE {
            let &Label { at, rank, next, .. } = packets.label(packet);
            self.heap.push(Reverse((at, rank, packet)));
            packet = next;
        }
    }

    /// Returns the first slot from `next` on that has packets, and begins its window if needed; `None`: no slot has
    /// any.
    #[cold]
    fn find<P: Clone>(&mut self, packets: &mut PacketStore<P>, next: usize) -> Option<usize> {
        let near = |wheel: &Wheel| wheel.next_used(next).or_else(|| wheel.next_used(0));
        if let Some(used) = near(&self.near) {
            // The slots behind the heap's are of the window that has begun and of the next one.
            let first = packets.label(self.near.lists[used]).at;
            if self.window(first) >= self.horizon {
                self.begin(packets, self.window(first));
            }
            return Some(used);
        }
        let first = self.first_beyond(packets)?;
        self.begin(packets, self.window(first));
        Some(self.slot(first) as usize % SLOTS)
    }

    /// Returns the first time of arrival after the windows of `near`; `None` without a packet there.
    #[cold]
    fn first_beyond<P: Clone>(&self, packets: &PacketStore<P>) -> Option<Nanos> {
        let next = (self.horizon as usize % SLOTS) + 1;
        let used = (next < SLOTS).then(|| self.far.next_used(next)).flatten();
        let at = |number: u32| packets.label(number).at;
        match used {
            Some(slot) => list(packets, self.far.lists[slot]).map(at).min(),
            None => self.beyond.iter().copied().map(at).min(),
        }
    }

    /// Begins a window, unless that window or a later one has begun: distributes the packets that are near now over the
    /// slots.
    #[cold]
    fn begin<P: Clone>(&mut self, packets: &mut PacketStore<P>, window: u64) {
        let (before, horizon) = (self.horizon, window + 1);
        if horizon <= before {
            return;
        }
        self.horizon = horizon;
        for near in window.max(before + 1)..=horizon {
            let mut packet = self.far.take(near as usize % SLOTS);
            while packet != NONE {
                let Label { at, next, .. } = *packets.label(packet);
                self.file(packets, packet, at);
                packet = next;
            }
        }
        if horizon >> WHEEL_BITS != before >> WHEEL_BITS {
            // Those that still are far beyond join the end.
            let count = self.beyond.len();
            for place in 0..count {
                let packet = self.beyond[place];
                let at = packets.label(packet).at;
                self.file(packets, packet, at);
            }
            self.beyond.drain(..count);
        }
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
                Some(wheel.lists[used])
            })
        });
        let listed = lists.flat_map(move |first| list(packets, first));
        let soon = self.heap.iter().map(|Reverse((.., packet))| *packet);
        let all = soon.chain(listed).chain(self.beyond.iter().copied());
        all.map(|number| packets.label(number))
    }
}

/// Iterates over the packets of one list of the wheel.
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
        // From many packets in a slot to a few in every turn of the far wheel, and the widest and narrowest slots.
        let spans = [3, 8, 14, 20, 26, 32, 40];
        let spans = spans.into_iter();
        for (span_bits, gbit) in spans.flat_map(|span| [(span, 1), (span, 9_999)]) {
            let rate = BitsPerSec(gbit * 1_000_000_000);
            let (mut arrivals, mut packets) = (ArrivalQueue::new(rate), PacketStore::new());
            let mut expected = std::collections::BTreeMap::new();
            let mut now = Nanos::ZERO;
            for step in 0..20_000u64 {
                let shown = format!("seed {seed}, span 2^{span_bits}, {gbit} Gb/s, step {step}");
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
