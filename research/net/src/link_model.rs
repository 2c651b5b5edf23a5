//! One direction of a link without its packets: when each arrives at the far end.
//!
//! Packets leave in the order in which they come, and a later packet never delays an earlier one. So a packet's time of
//! arrival at the far end is known when the packet comes to the link, and a link needs no event of its own.

use uc_words::{BitsPerSec, Nanos};

use crate::error::SpecError;
use crate::fault::{Fault, FaultRule, Faults};
use crate::packet::Packet;
use crate::queue::{DropReason, Queue, QueueSpec, Verdict};
use crate::random::Stream;
use crate::serializer::Serializer;
use crate::stats::{LinkReport, LinkStats};

/// A link as an experiment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate of the link's transmitter.
    pub rate: BitsPerSec,
    /// Propagation delay of the link, one way.
    pub delay: Nanos,
    /// CPU time that the sending or receiving host spends on each packet. The transmission of a packet takes its
    /// serialization time plus this time.
    pub processing: Nanos,
    /// Queue of packets that wait for the transmitter.
    pub queue: QueueSpec,
    /// Fault rules, in order; empty for a link without faults.
    pub faults: Vec<FaultRule>,
}

impl LinkSpec {
    /// Describes a link without faults and without processing time.
    pub fn new(rate: BitsPerSec, delay: Nanos, queue: QueueSpec) -> LinkSpec {
        LinkSpec {
            rate,
            delay,
            processing: Nanos::ZERO,
            queue,
            faults: Vec::new(),
        }
    }
}

/// The queue, the transmitter and the totals of one direction of a link. A packet that need not wait uses only the
/// first two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct LinkModel {
    /// Time at which the transmitter has sent all packets accepted so far. Packets wait only while this lies in the
    /// future.
    free_at: Nanos,
    /// Number of packets that were not dropped. Not beside `accepted_bytes`: the compiler would add to both numbers in
    /// one vector register, which takes more instructions.
    accepted_packets: u64,
    serializer: Serializer,
    /// Bytes of the packets that were not dropped.
    accepted_bytes: u64,
    delay: Nanos,
    /// Fault rules; `None`: the link has none. Boxed, since few links have any and the hot fields stay together.
    faults: Option<Box<Faults>>,
    queue: Queue,
    rare: Box<Rare>,
}

/// Totals of rare events. Stored apart, so that the links that all packets use at once fit into the cache.
#[derive(Clone, Debug, Default)]
struct Rare {
    duplicated_packets: u64,
    duplicated_bytes: u64,
    reordered_packets: u64,
    marked_packets: u64,
    dropped_packets: [u64; DropReason::ALL.len()],
    dropped_bytes: u64,
}

impl LinkModel {
    /// Creates an empty link. Its random numbers are seeded by `seed` and `name`.
    ///
    /// # Errors
    /// Names the value of `spec` that can't be used.
    pub(crate) fn new(spec: &LinkSpec, seed: u64, name: &str) -> Result<LinkModel, SpecError> {
        if spec.rate.0 == 0 {
            return Err(SpecError::Zero { what: "the rate" });
        }
        let faults = match spec.faults.as_slice() {
            [] => None,
            rules => {
                let random = Stream::new(seed, &format!("{name}/faults"));
                Some(Box::new(Faults::new(rules, random)?))
            }
        };
        Ok(LinkModel {
            free_at: Nanos::ZERO,
            accepted_packets: 0,
            accepted_bytes: 0,
            serializer: Serializer::new(spec.rate, spec.processing),
            delay: spec.delay,
            faults,
            queue: Queue::new(&spec.queue, Stream::new(seed, &format!("{name}/queue")))?,
            rare: Box::default(),
        })
    }

    /// Returns whether the link has fault rules.
    #[inline]
    pub(crate) fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// Returns the fault that a rule chooses for an arriving packet, and counts it; `None`: no rule matches. Unless the
    /// fault is a loss, the caller must pass the packet to [`LinkModel::judge`] next, twice for a duplicate.
    pub(crate) fn strike(&mut self, packet: &impl Packet) -> Option<Fault> {
        let faults = self.faults.as_mut()?;
        let fault = faults.strike(packet.flow())?;
        match fault {
            Fault::Loss => self.count_drop(packet.size_bytes(), DropReason::Fault),
            Fault::Duplicate => {
                self.rare.duplicated_packets += 1;
                self.rare.duplicated_bytes += u64::from(packet.size_bytes());
            }
            Fault::Reorder { .. } => self.rare.reordered_packets += 1,
        }
        Some(fault)
    }

    /// Returns the queue's verdict on a packet of `size_bytes` at `now`, which must not lie before an earlier call's
    /// `now`. A packet that is not dropped must be passed to [`LinkModel::accept`] next.
    #[inline(always)]
    pub(crate) fn judge(
        &mut self,
        now: Nanos,
        size_bytes: u32,
        packet: &mut impl Packet,
    ) -> Verdict {
        self.queue.start_due(now);
        if self.free_at <= now {
            self.queue.idle(self.free_at);
        }
        let verdict = self.queue.judge(now, size_bytes, packet);
        match verdict {
            Verdict::Queued => {}
            Verdict::Marked => self.rare.marked_packets += 1,
            Verdict::Dropped(reason) => {
                self.count_drop(size_bytes, reason);
                // A free transmitter polls at every arrival. After a drop it finds nothing at
                // `now`, so RED's idle period, which the arrival ended, starts again.
                self.awake(now);
            }
        }
        verdict
    }

    /// Takes a packet at `now`, and returns when it arrives at the far end. `None`, without taking the packet, if the
    /// DropTail queue has no room, or if the link has fault rules or another queue.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Nanos, size_bytes: u32) -> Option<Nanos> {
        self.queue.start_due(now);
        let has_room = self.faults.is_none() && self.queue.has_room(size_bytes);
        has_room.then(|| self.accept(now, size_bytes, Nanos::ZERO))
    }

    /// Accounts for a packet that finds no room at `now`, except for the drop, which [`LinkModel::count_drop`] counts
    /// later.
    pub(crate) fn refuse(&mut self, now: Nanos) {
        self.awake(now);
    }

    /// Returns whether packets arrive in the order in which they come to the link, and later than they come: the link
    /// has a delay and no fault rules.
    pub(crate) fn keeps_order(&self) -> bool {
        self.faults.is_none() && self.delay > Nanos::ZERO
    }

    /// Returns whether the queue is DropTail.
    pub(crate) fn is_drop_tail(&self) -> bool {
        self.queue.is_drop_tail()
    }

    /// Returns when the packet that arrives at `at` left the transmitter.
    pub(crate) fn left_at(&self, at: Nanos) -> Nanos {
        at.since(self.delay)
    }

    /// Takes a packet that was judged at `now`, and returns when it arrives at the far end. `hold` is the delay that a
    /// reordering rule adds, otherwise 0.
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Nanos, size_bytes: u32, hold: Nanos) -> Nanos {
        if self.free_at > now {
            self.queue.push(self.free_at, size_bytes);
        } else {
            self.awake(now);
        }
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(size_bytes);
        self.free_at += self.serializer.transmission(size_bytes);
        self.free_at + self.delay + hold
    }

    /// Starts a busy period of the transmitter, if it was idle.
    #[inline]
    fn awake(&mut self, now: Nanos) {
        if self.free_at < now {
            self.free_at = now;
            self.serializer.restart();
        }
    }

    /// Counts a packet that the link's queue or a loss rule dropped.
    pub(crate) fn count_drop(&mut self, size_bytes: u32, reason: DropReason) {
        self.rare.dropped_packets[reason as usize] += 1;
        self.rare.dropped_bytes += u64::from(size_bytes);
    }

    /// Returns totals and queue at `now`, which must not lie before an earlier call's `now`. Counts all accepted
    /// packets as delivered: the caller, who holds the packets, subtracts those that have not arrived.
    pub(crate) fn report(&mut self, now: Nanos) -> LinkReport {
        self.queue.start_due(now);
        let backlog = self.queue.backlog();
        let dropped: u64 = self.rare.dropped_packets.iter().sum();
        LinkReport {
            stats: LinkStats {
                offered_packets: self.accepted_packets + dropped - self.rare.duplicated_packets,
                offered_bytes: self.accepted_bytes + self.rare.dropped_bytes
                    - self.rare.duplicated_bytes,
                duplicated_packets: self.rare.duplicated_packets,
                reordered_packets: self.rare.reordered_packets,
                sent_packets: self.accepted_packets - backlog.packets,
                sent_bytes: self.accepted_bytes - backlog.bytes,
                delivered_packets: self.accepted_packets,
                marked_packets: self.rare.marked_packets,
                dropped_packets: self.rare.dropped_packets,
            },
            backlog,
            average_bytes: self.queue.average_bytes(),
        }
    }
}
