//! HWatch's corollary 4.2.1, lemma 4.3 and corollary 4.3.1: for how long three batches of first
//! windows take, on the queue of `uc-net`, with the windows of the core.
//!
//! T is the time in which a full buffer drains. The premises are those of theorems 4.1 and 4.2
//! (`watch_theorems.rs`); long flows keep the queue at up to 2K all the time. The lemma has one
//! switch and no propagation, and so, by its proof, a round-trip time of 2T; the corollary has a
//! longer path, whose round-trip time R is that of a packet behind a full buffer.

use std::collections::VecDeque;

use uc_core::Segment;
use uc_core::consts::{ACK, CE, ECT0, FROM_GUEST, TO_GUEST};
use uc_core::watch::{Bucket, Path, Start};
use uc_net::random::Stream;
use uc_net::{Ecn, Nanos};

use crate::common::bottleneck::{
    BEGIN, Bottleneck, DATA_BYTES, DATA_NS, MSS, ROUNDS, SEED, begin, policy, probe, queue_before,
};

/// Probes of a flow, and so the segments that it asks for.
const SEGMENTS: u64 = 10;
/// The flow number of the long flows.
const LONG: u32 = 0;

/// One drawn case: K, the long flows' queue, and the number of flows that start together.
#[derive(Clone, Copy, Debug)]
struct Case {
    k: u64,
    before: u64,
    flows: u64,
}

impl Case {
    fn draw(random: &mut Stream) -> Case {
        let k = 10 + random.below(60);
        Case {
            k,
            before: queue_before(k, random),
            flows: 1 + random.below(7 * k / SEGMENTS),
        }
    }

    /// T: 7K packets, and the one that is being transmitted.
    fn drain(self) -> Nanos {
        Nanos((7 * self.k + 1) * DATA_NS)
    }

    /// Offers the long flows' packets.
    fn queue(self) -> Bottleneck {
        let mut bottleneck = Bottleneck::new(self.k);
        bottleneck.fill_to(self.before);
        bottleneck
    }

    /// Draws a base round-trip time of at least three hops: up to 8 times T.
    fn base(self, random: &mut Stream) -> Nanos {
        Nanos(6 * DATA_NS + random.below(8 * self.drain().0))
    }

    /// Returns the flows' batches by the core, T apart: X_UM, and the two parts of X_M.
    fn batches(self, random: &mut Stream) -> [(Nanos, u64); 3] {
        let mut sums = [0; 3];
        for marks in probe(self.k, self.flows) {
            let (start, first) = begin(&marks, random);
            let unmarked = marks
                .iter()
                .filter(|mark| **mark == Some(Ecn::Ect0))
                .count() as u64;
            let batches = [unmarked, first - unmarked, u64::from(start.owed_halves / 2)];
            assert_eq!(batches.iter().sum::<u64>(), SEGMENTS, "{self:?}");
            sums = std::array::from_fn(|index| sums[index] + batches[index]);
        }
        let t = self.drain();
        [(Nanos::ZERO, sums[0]), (t, sums[1]), (t + t, sums[2])]
    }
}

/// Sends batches of packets at their times. Returns when the last packet arrives behind the queue;
/// `None` if the queue lost one, which then waits for its retransmission timer.
fn send(case: Case, batches: &[(Nanos, u64)]) -> Option<Nanos> {
    let mut bottleneck = case.queue();
    let mut left: u64 = batches.iter().map(|&(_, packets)| packets).sum();
    let mut batches = batches.iter().copied().peekable();
    while left > 0 {
        let until = batches.peek().map_or(Nanos::MAX, |&(at, _)| at);
        if let Some(parcel) = bottleneck.receive(until) {
            if parcel.flow == LONG {
                bottleneck.offer(LONG, DATA_BYTES);
            } else {
                left -= 1;
            }
        } else if let Some((at, packets)) = batches.next() {
            bottleneck.now = at;
            for _ in 0..packets {
                bottleneck.offer(1, DATA_BYTES);
            }
            if bottleneck.drops > 0 {
                return None;
            }
        }
    }
    Some(bottleneck.now)
}

#[test]
fn corollary_4_2_1_three_batches_lose_nothing_where_two_lose_packets() {
    let mut random = Stream::new(SEED, "corollary 4.2.1");
    let mut lossy = 0;
    for round in 0..ROUNDS {
        let case = Case::draw(&mut random);
        let three = case.batches(&mut random);
        assert!(send(case, &three).is_some(), "round {round}: {case:?}");
        // X_UM at once, and then all of X_M
        let [first, (t, one), (_, other)] = three;
        lossy += u32::from(send(case, &[first, (t, one + other)]).is_none());
    }
    println!("corollary 4.2.1: two batches lose packets in {lossy} of {ROUNDS} rounds");
    assert!(lossy > ROUNDS / 100, "two batches are enough: {lossy}");
}

#[test]
fn lemma_4_3_three_batches_end_within_two_round_trips() {
    let mut random = Stream::new(SEED, "lemma 4.3");
    let mut longest = 0.0_f64;
    for round in 0..ROUNDS {
        let case = Case::draw(&mut random);
        let t = case.drain();
        let arrived = send(case, &case.batches(&mut random));
        let arrived = arrived.unwrap_or_else(|| panic!("round {round}: {case:?} loses packets"));
        // half of a round trip, T, for the last ACK
        let round_trips = (arrived + t).0 as f64 / (2 * t.0) as f64;
        assert!(
            round_trips <= 2.0,
            "round {round}: {case:?}: {round_trips} round trips"
        );
        longest = longest.max(round_trips);
    }
    println!("lemma 4.3: {longest:.3} round trips at most");
    assert!(longest > 1.75, "the bound is never near: {longest}");
}

#[test]
fn corollary_4_3_1_batches_t_apart_end_within_a_round_trip_and_2t() {
    let mut random = Stream::new(SEED, "corollary 4.3.1");
    let mut longest = 0.0_f64;
    for round in 0..ROUNDS {
        let case = Case::draw(&mut random);
        let (t, base) = (case.drain(), case.base(&mut random));
        let arrived = send(case, &case.batches(&mut random));
        let arrived = arrived.unwrap_or_else(|| panic!("round {round}: {case:?} loses packets"));
        // R + 2T, R = base + T
        let part = (arrived + base).0 as f64 / (base + t + t + t).0 as f64;
        assert!(
            part <= 1.0,
            "round {round}: {case:?}, base {base:?}: {part}"
        );
        longest = longest.max(part);
    }
    println!("corollary 4.3.1: {longest:.3} of R + 2T at most");
    assert!(longest > 0.95, "the bound is never near: {longest}");
}

/// A flow whose windows the core sets, from its first segment on. Its sender sends what they allow,
/// its receiver acknowledges each segment.
struct Flow {
    start: Start,
    path: Path,
    /// Segments allowed, sent, arrived, and acknowledged.
    edge: u64,
    sent: u64,
    arrived: u64,
    acked: u64,
}

impl Flow {
    fn new(marks: &[Option<Ecn>], random: &mut Stream) -> Flow {
        let (start, edge) = begin(marks, random);
        Flow {
            start,
            path: Path::default(),
            edge,
            sent: 0,
            arrived: 0,
            acked: 0,
        }
    }

    /// Sends what the window allows, of the segments that were asked for.
    fn send(&mut self, number: u32, bottleneck: &mut Bottleneck) {
        let edge = self.edge.min(SEGMENTS);
        while self.sent < edge {
            bottleneck.offer(number, DATA_BYTES);
            self.sent += 1;
        }
    }

    /// Handles the next segment's arrival. Returns the ACK: its number and right edge, in segments.
    fn receive(&mut self, ecn: Ecn, now: Nanos) -> (u64, u64) {
        let at = |segments: u64| BEGIN + segments as u32 * u32::from(MSS);
        let ecn = if ecn == Ecn::Ce { CE } else { ECT0 };
        self.start.arrives(&Segment {
            seq: at(self.arrived),
            payload_bytes: MSS.into(),
            wire_payload_bytes: MSS,
            flags: ACK as u8,
            window: u16::MAX,
            ecn: ecn as u8,
            direction: TO_GUEST as u8,
            ..Segment::default()
        });
        self.arrived += 1;
        let ack = Segment {
            ack: at(self.arrived),
            flags: ACK as u8,
            window: u16::MAX,
            direction: FROM_GUEST as u8,
            ..Segment::default()
        };
        let ends = (&mut self.path, &Bucket::default());
        let policy = policy(SEGMENTS as u8);
        let answer = self.start.leaves(&policy, ends, &ack, now.0 + 1, 0);
        (self.arrived, self.arrived + u64::from(answer.window / MSS))
    }
}

/// Starts flows together by the core's windows; the part that waits leaves with the first ACK of
/// data. Returns when all segments are acknowledged; `None` if the queue lost one.
fn run(case: Case, base: Nanos, random: &mut Stream) -> Option<Nanos> {
    let mut bottleneck = case.queue();
    let mut flows: Vec<Flow> = probe(case.k, case.flows)
        .iter()
        .map(|marks| Flow::new(marks, random))
        .collect();
    for (number, flow) in (LONG + 1..).zip(&mut flows) {
        flow.send(number, &mut bottleneck);
    }
    // the ACKs under way: time, flow, number, right edge
    let mut acks: VecDeque<(Nanos, u32, u64, u64)> = VecDeque::new();
    while bottleneck.drops == 0 {
        let until = acks.front().map_or(Nanos::MAX, |ack| ack.0);
        if let Some(parcel) = bottleneck.receive(until) {
            let now = bottleneck.now;
            if parcel.flow == LONG {
                bottleneck.offer(LONG, DATA_BYTES);
                continue;
            }
            let flow = &mut flows[parcel.flow as usize - 1];
            let (number, edge) = flow.receive(parcel.ecn, now);
            acks.push_back((now + base, parcel.flow, number, edge));
        } else if let Some((at, number, acked, edge)) = acks.pop_front() {
            bottleneck.now = at;
            let flow = &mut flows[number as usize - 1];
            flow.acked = acked;
            flow.edge = flow.edge.max(edge);
            flow.send(number, &mut bottleneck);
            if flows.iter().all(|flow| flow.acked == SEGMENTS) {
                return Some(at);
            }
        }
    }
    None
}

#[test]
fn the_cores_batches_end_within_two_round_trips_and_not_always_within_one_and_2t() {
    let mut random = Stream::new(SEED, "the core's batches");
    let (mut longest, mut later) = (0.0_f64, 0);
    for round in 0..ROUNDS {
        let case = Case::draw(&mut random);
        let (t, base) = (case.drain(), case.base(&mut random));
        let ended = run(case, base, &mut random);
        let ended = ended.unwrap_or_else(|| panic!("round {round}: {case:?} loses packets"));
        let round_trips = ended.0 as f64 / (base + t).0 as f64;
        assert!(
            round_trips <= 2.0,
            "round {round}: {case:?}, base {base:?}: {round_trips} round trips"
        );
        longest = longest.max(round_trips);
        later += u32::from(ended > base + t + t + t);
    }
    println!("the core: {longest:.3} round trips at most, {later} of {ROUNDS} after R + 2T");
    assert!(longest > 1.75, "the bound is never near: {longest}");
    assert!(later > 0, "no path is long enough for the corollary");
}
