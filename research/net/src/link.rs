//! One direction of a link: a queue, a transmitter at a rate, a propagation delay.
//!
//! Nothing here happens because somebody looked. When a packet leaves follows from the arrivals and
//! the rate; a link that is asked late catches up with its own past first.

use std::collections::VecDeque;

use crate::error::SpecError;
use crate::fault::{Fault, FaultRule, Faults};
use crate::packet::{Packet, Tagged};
use crate::queue::{DropReason, Queue, QueueSpec, Verdict};
use crate::random::Stream;
use crate::stats::{LinkReport, LinkStats};
use crate::units::{BitsPerSec, Nanos, Serializer};

/// A link as an experiment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The transmitter's rate.
    pub rate: BitsPerSec,
    /// Propagation delay, one way.
    pub delay: Nanos,
    /// What each packet takes besides its bits, before the next one can: the processor of a host at
    /// one end.
    pub processing: Nanos,
    /// The queue before the transmitter.
    pub queue: QueueSpec,
    /// Faults, in order; none for a sound link.
    pub faults: Vec<FaultRule>,
}

impl LinkSpec {
    /// A sound link.
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

/// A packet in the queue, with the time that a reordering rule adds to its way.
type Held<P> = Tagged<Nanos, P>;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link<P> {
    queue: Queue<Held<P>>,
    serializer: Serializer,
    delay: Nanos,
    processing: Nanos,
    /// When the transmitter is free; a packet can wait only while this lies ahead.
    busy_until: Nanos,
    /// Packets that were sent or are being sent, by time of arrival.
    flight: VecDeque<(Nanos, P)>,
    /// Boxed: few links have any, and what every packet touches stays together.
    faults: Option<Box<Faults>>,
    stats: LinkStats,
}

impl<P: Packet> Link<P> {
    /// A link with nothing on it. Its random numbers come from `seed` and `name`.
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

    /// Offers a packet at `now`, which must not lie before an earlier call's. `saw` is told what
    /// became of it, and of its copy if a rule makes one, while the packet is still at hand.
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

    /// A packet comes to the link. Says which fault strikes it; all but a loss leave it to be
    /// judged, twice if it is to be duplicated.
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

    /// The queue's verdict on a packet at `now`. One that is not dropped must be given to
    /// [`Link::accept`] next.
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
                // A free transmitter asks at every arrival. After a drop it will have found
                // nothing at `now`, so that RED's idle period, which the arrival ended, begins
                // anew.
                self.awake(now);
            }
        }
        verdict
    }

    /// Takes in a packet that was judged at `now`; `hold` is what a reordering rule adds.
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Nanos, packet: P, hold: Nanos) {
        if self.busy_until > now {
            self.queue.push(Held { tag: hold, packet });
            return;
        }
        self.awake(now);
        self.transmit(packet, hold);
    }

    /// The transmitter, if it has been idle, begins a busy period.
    #[inline]
    fn awake(&mut self, now: Nanos) {
        if self.busy_until < now {
            self.busy_until = now;
            self.serializer.restart();
        }
    }

    /// The next packet that has arrived at the far end by `now`, with the time at which it did.
    #[inline]
    pub fn receive(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.catch_up(now);
        if self.flight.front()?.0 > now {
            return None;
        }
        self.stats.delivered_packets += 1;
        self.flight.pop_front()
    }

    /// When [`Link::receive`] can next have something to say; none for an empty link.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        let head = self.flight.front()?.0;
        if self.queue.backlog().packets == 0 {
            return Some(head);
        }
        // What waits can't arrive before this. It lies behind the head, unless the head is held
        // back by a reordering rule.
        Some(head.min(self.busy_until + self.delay))
    }

    /// Whether another packet can't change what arrives next.
    #[inline]
    pub(crate) fn is_steady(&self) -> bool {
        self.faults.is_none() && !self.flight.is_empty()
    }

    /// The packet that arrives next among those on the wire.
    pub(crate) fn head(&self) -> Option<&P> {
        self.flight.front().map(|(_, packet)| packet)
    }

    /// The link's totals and queue at `now`, which must not lie before an earlier call's.
    pub fn report(&mut self, now: Nanos) -> LinkReport {
        self.catch_up(now);
        LinkReport {
            stats: self.stats,
            backlog: self.queue.backlog(),
            average_bytes: self.queue.average_bytes(),
        }
    }

    /// Starts every transmission that was due by `now`, each at the moment at which it was due.
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

    /// Starts a transmission at the moment at which the transmitter is free.
    #[inline(always)]
    fn transmit(&mut self, packet: P, hold: Nanos) {
        let size_bytes = packet.size_bytes();
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(size_bytes);
        self.busy_until += self.serializer.transmission(size_bytes);
        self.busy_until += self.processing;
        self.put_on_wire(self.busy_until + self.delay + hold, packet);
    }

    /// Behind everything that arrives no later; at the end, unless a held packet is there.
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
