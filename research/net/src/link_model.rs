//! One direction of a link without its packets: when each arrives at the far end.
//!
//! Packets leave in the order in which they come, and nothing that comes later delays a packet. So
//! the time of its arrival is known when it comes, and a link needs no event of its own.

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
    /// The transmitter's rate.
    pub rate: BitsPerSec,
    /// Propagation delay, one way.
    pub delay: Nanos,
    /// CPU time that the sending or receiving host spends on each packet. A packet's transmission
    /// starts no earlier than this plus serialization after that of the packet before.
    pub processing: Nanos,
    /// The queue before the transmitter.
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

/// The queue, the transmitter and the totals of one direction of a link. What a packet that need not
/// wait touches is in the first two lines of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct LinkModel {
    /// When the transmitter has sent all that came so far. Packets wait only while this lies in the
    /// future.
    free_at: Nanos,
    /// Packets that were not dropped. Apart from their bytes, because the compiler adds to two numbers
    /// side by side in a vector register, which takes more instructions.
    accepted_packets: u64,
    serializer: Serializer,
    /// Bytes of the packets that were not dropped.
    accepted_bytes: u64,
    delay: Nanos,
    /// Fault rules; boxed, since few links have any and the hot fields stay together.
    faults: Option<Box<Faults>>,
    queue: Queue,
    rare: Box<Rare>,
}

/// Totals of what happens to few packets; apart, so that the links that all packets use at once fit
/// into the cache.
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

    /// Returns the fault that a rule chooses for an arriving packet, and counts it. Unless it is a
    /// loss, the caller judges the packet next, twice for a duplicate.
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

    /// Returns the queue's verdict on a packet of `size_bytes` at `now`, which must not lie before an earlier
    /// call's. A packet that is not dropped must be passed to [`LinkModel::accept`] next.
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

    /// Takes a packet at `now` if the queue has room for it, and returns when it arrives at the far
    /// end. Without room, or at a link that does more than limit, `None`, and nothing changes.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Nanos, size_bytes: u32) -> Option<Nanos> {
        self.queue.start_due(now);
        let has_room = self.faults.is_none() && self.queue.has_room(size_bytes);
        has_room.then(|| self.accept(now, size_bytes, Nanos::ZERO))
    }

    /// Accounts for a packet that finds no room at `now`, but is counted later by [`LinkModel::count_drop`].
    pub(crate) fn refuse(&mut self, now: Nanos) {
        self.awake(now);
    }

    /// Returns whether packets arrive in the order in which they come, and none at once.
    pub(crate) fn keeps_order(&self) -> bool {
        self.faults.is_none() && self.delay > Nanos::ZERO
    }

    /// Returns whether the queue does nothing but to limit.
    pub(crate) fn is_drop_tail(&self) -> bool {
        self.queue.is_drop_tail()
    }

    /// Returns when a packet left the transmitter that arrives at `at`.
    pub(crate) fn left_at(&self, at: Nanos) -> Nanos {
        at.since(self.delay)
    }

    /// Takes a packet that was judged at `now`, and returns when it arrives at the far end; `hold`
    /// is the delay that a reordering rule adds.
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

    /// Counts a dropped packet.
    pub(crate) fn count_drop(&mut self, size_bytes: u32, reason: DropReason) {
        self.rare.dropped_packets[reason as usize] += 1;
        self.rare.dropped_bytes += u64::from(size_bytes);
    }

    /// Returns totals and queue at `now`, which must not lie before an earlier call's. Whoever holds
    /// the packets knows which of them have not arrived yet: here all have.
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
