//! One direction of a link: a queue, a transmitter at a rate, a propagation delay.
//!
//! The time of a departure follows from the arrivals and the rate alone. A link that is called late
//! first catches up to the time of the call, so how often it is called changes nothing.

use std::collections::VecDeque;

use uc_words::{BitsPerSec, Nanos};

use crate::error::SpecError;
use crate::fault::{Fault, FaultRule, Faults};
use crate::packet::{Packet, Tagged};
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

/// A queued packet with the delay that a reordering rule adds.
type Held<P> = Tagged<Nanos, P>;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link<P> {
    queue: Queue<Held<P>>,
    serializer: Serializer,
    delay: Nanos,
    processing: Nanos,
    /// When the transmitter becomes free. Packets wait only while this lies in the future.
    busy_until: Nanos,
    /// Packets on the wire or in transmission, by time of arrival.
    flight: VecDeque<(Nanos, P)>,
    /// Fault rules; boxed, since few links have any and the hot fields stay together.
    faults: Option<Box<Faults>>,
    stats: LinkStats,
}

impl<P: Packet> Link<P> {
    /// Creates an empty link. Its random numbers are seeded by `seed` and `name`.
    ///
    /// # Errors
    /// Names the value of `spec` that can't be used.
    pub fn new(spec: &LinkSpec, seed: u64, name: &str) -> Result<Link<P>, SpecError> {
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
        Ok(Link {
            queue: Queue::new(&spec.queue, Stream::new(seed, &format!("{name}/queue")))?,
            serializer: Serializer::new(spec.rate),
            delay: spec.delay,
            processing: spec.processing,
            busy_until: Nanos::ZERO,
            flight: VecDeque::new(),
            faults,
            stats: LinkStats::default(),
        })
    }

    /// Offers a packet at `now`, which must not lie before an earlier call's. Calls `saw` with the
    /// verdict and the packet, and again for the copy if a rule duplicates the packet.
    pub fn offer(&mut self, now: Nanos, packet: P, saw: &mut impl FnMut(Verdict, &P)) {
        let hold = match self.strike(&packet) {
            None => Nanos::ZERO,
            Some(Fault::Loss) => return saw(Verdict::Dropped(DropReason::Fault), &packet),
            Some(Fault::Reorder { hold }) => hold,
            Some(Fault::Duplicate) => {
                self.enqueue(now, packet.clone(), Nanos::ZERO, saw);
                Nanos::ZERO
            }
        };
        self.enqueue(now, packet, hold, saw);
    }

    fn enqueue(
        &mut self,
        now: Nanos,
        mut packet: P,
        hold: Nanos,
        saw: &mut impl FnMut(Verdict, &P),
    ) {
        let verdict = self.judge(now, &mut packet);
        saw(verdict, &packet);
        if !matches!(verdict, Verdict::Dropped(_)) {
            self.accept(now, packet, hold);
        }
    }

    /// Counts an arriving packet and returns the fault that a rule chose for it. Unless the fault
    /// is a loss, the caller judges the packet next, twice for a duplicate.
    #[inline]
    pub(crate) fn strike(&mut self, packet: &P) -> Option<Fault> {
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += u64::from(packet.size_bytes());
        let fault = self.faults.as_mut()?.strike(packet.flow())?;
        match fault {
            Fault::Loss => self.stats.count_drop(DropReason::Fault),
            Fault::Duplicate => self.stats.duplicated_packets += 1,
            Fault::Reorder { .. } => self.stats.reordered_packets += 1,
        }
        Some(fault)
    }

    /// Returns the queue's verdict on a packet at `now`. A packet that is not dropped must be
    /// passed to [`Link::accept`] next.
    #[inline]
    pub(crate) fn judge(&mut self, now: Nanos, packet: &mut P) -> Verdict {
        self.catch_up(now);
        if self.busy_until <= now {
            self.queue.idle(self.busy_until);
        }
        let verdict = self.queue.judge(now, packet);
        match verdict {
            Verdict::Queued => {}
            Verdict::Marked => self.stats.marked_packets += 1,
            Verdict::Dropped(reason) => {
                self.stats.count_drop(reason);
                // A free transmitter polls at every arrival. After a drop it finds nothing at
                // `now`, so RED's idle period, which the arrival ended, starts again.
                self.awake(now);
            }
        }
        verdict
    }

    /// Takes a packet that was judged at `now`; `hold` is the delay that a reordering rule adds.
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Nanos, packet: P, hold: Nanos) {
        if self.busy_until > now {
            self.queue.push(Held { tag: hold, packet });
            return;
        }
        self.awake(now);
        self.transmit(packet, hold);
    }

    /// Starts a busy period of the transmitter, if it was idle.
    #[inline]
    fn awake(&mut self, now: Nanos) {
        if self.busy_until < now {
            self.busy_until = now;
            self.serializer.restart();
        }
    }

    /// Returns the next packet that has arrived at the far end by `now`, with its time of arrival.
    #[inline]
    pub fn receive(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.catch_up(now);
        if self.flight.front()?.0 > now {
            return None;
        }
        self.stats.delivered_packets += 1;
        self.flight.pop_front()
    }

    /// Returns the earliest time at which [`Link::receive`] can return a packet; `None` for an
    /// empty link.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        let head = self.flight.front()?.0;
        if self.queue.backlog().packets == 0 {
            return Some(head);
        }
        // A waiting packet can't arrive before this time. It lies behind the head's arrival unless
        // a reordering rule delays the head.
        Some(head.min(self.busy_until + self.delay))
    }

    /// Returns whether the next arrival is fixed whatever packets are offered meanwhile.
    #[inline]
    pub(crate) fn is_steady(&self) -> bool {
        self.faults.is_none() && !self.flight.is_empty()
    }

    /// Returns the packet on the wire that arrives next.
    pub(crate) fn head(&self) -> Option<&P> {
        self.flight.front().map(|(_, packet)| packet)
    }

    /// Returns the link's totals and queue at `now`, which must not lie before an earlier call's.
    pub fn report(&mut self, now: Nanos) -> LinkReport {
        self.catch_up(now);
        LinkReport {
            stats: self.stats,
            backlog: self.queue.backlog(),
            average_bytes: self.queue.average_bytes(),
        }
    }

    /// Starts every transmission that was due by `now`, each at its due time.
    #[inline]
    fn catch_up(&mut self, now: Nanos) {
        if self.busy_until <= now && self.queue.backlog().packets > 0 {
            self.start_due(now);
        }
    }

    fn start_due(&mut self, now: Nanos) {
        while self.busy_until <= now
            && let Some(Held { tag: hold, packet }) = self.queue.take()
        {
            self.transmit(packet, hold);
        }
    }

    /// Starts a transmission at the time at which the transmitter becomes free.
    #[inline(always)]
    fn transmit(&mut self, packet: P, hold: Nanos) {
        let size_bytes = packet.size_bytes();
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(size_bytes);
        self.busy_until += self.serializer.transmission(size_bytes);
        self.busy_until += self.processing;
        self.put_on_wire(self.busy_until + self.delay + hold, packet);
    }

    /// Inserts the packet behind all that arrive no later: at the end, unless a delayed packet is
    /// there.
    #[inline]
    fn put_on_wire(&mut self, arrives: Nanos, packet: P) {
        match self.flight.back() {
            Some(&(last, _)) if last > arrives => {
                let place = self.flight.partition_point(|&(at, _)| at <= arrives);
                self.flight.insert(place, (arrives, packet));
            }
            _ => self.flight.push_back((arrives, packet)),
        }
    }
}
