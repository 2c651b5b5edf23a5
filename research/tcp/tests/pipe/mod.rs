//! Two ends and a small network between them for tests: a bottleneck with a queue, a delay, and
//! faults drawn from a seed. Checks the rules that hold for every sender.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

mod watched;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use uc_net::{Ecn, Nanos};
use uc_tcp::{Config, Connection, Segment};
use watched::Watched;

/// Number of steps after which a run counts as hung.
const MOST_STEPS: u64 = 2_000_000;

/// Faults of the network, each in 1/1000 of the segments; delays in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    pub marking: u64,
    pub ack_loss: u64,
    /// Time of a segment on the bottleneck; 0: no bottleneck.
    pub segment_us: u64,
    /// Number of segments that may wait at the bottleneck.
    pub queue: u64,
    /// Loses the client's nth segment with payload (from 1) once.
    pub lose_nth: u64,
}

/// A random stream (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    number: u64,
    to_server: bool,
    index: usize,
}

pub struct Pipe {
    pub client: Connection,
    pub server: Connection,
    pub now: Nanos,
    pub weather: Weather,
    pub random: Random,
    pub delay: Nanos,
    /// What is seen of each end from outside.
    pub watched: [Watched; 2],
    /// Whether the rules of windows are checked.
    pub watches_windows: bool,
    /// Whether to log every segment.
    pub trace: bool,
    /// The log: time, whether from the client, segment.
    pub log: Vec<(Nanos, bool, Segment)>,
    free_at: Nanos,
    events: BinaryHeap<Reverse<Arrival>>,
    segments: Vec<Segment>,
    spare: Vec<usize>,
    numbers: u64,
    payloads: u64,
    label: String,
}

impl Pipe {
    pub fn new(client: &Config, server: &Config, weather: Weather, seed: u64) -> Pipe {
        let mut random = Random(seed);
        let (iss, irs) = (random.next() as u32, random.next() as u32);
        Pipe {
            client: Connection::client(client, iss),
            server: Connection::server(server, irs),
            now: Nanos::from_millis(1),
            weather,
            random,
            delay: Nanos::from_millis(10),
            watched: [Watched::default(), Watched::default()],
            watches_windows: true,
            trace: false,
            log: Vec::new(),
            free_at: Nanos::ZERO,
            events: BinaryHeap::new(),
            segments: Vec::new(),
            spare: Vec::new(),
            numbers: 0,
            payloads: 0,
            label: format!("seed {seed}, {weather:?}, {client:?}"),
        }
    }

    /// Calls one end and schedules the segments that it sends.
    pub fn with(
        &mut self,
        client: bool,
        call: impl FnOnce(&mut Connection, Nanos, &mut Vec<Segment>),
    ) {
        let mut sent = Vec::new();
        let now = self.now;
        let end = if client {
            &mut self.client
        } else {
            &mut self.server
        };
        call(end, now, &mut sent);
        self.check(client, &sent);
        for segment in sent {
            self.carry(client, segment);
        }
    }

    pub fn open(&mut self) {
        self.with(true, |end, now, sent| {
            end.open(now, &mut |segment| sent.push(segment))
        });
    }

    pub fn write(&mut self, client: bool, bytes: u64) {
        self.with(client, |end, now, sent| {
            end.write(now, bytes, &mut |s| sent.push(s))
        });
    }

    pub fn finish(&mut self, client: bool) {
        self.with(client, |end, now, sent| {
            end.finish(now, &mut |s| sent.push(s))
        });
    }

    pub fn set_reading(&mut self, client: bool, reading: bool) {
        self.with(client, |end, now, sent| {
            end.set_reading(now, reading, &mut |s| sent.push(s))
        });
    }

    fn carry(&mut self, from_client: bool, mut segment: Segment) {
        if self.trace {
            self.log.push((self.now, from_client, segment));
        }
        let payload = segment.payload_bytes > 0;
        self.payloads += u64::from(payload && from_client);
        let chosen = payload && from_client && self.payloads == self.weather.lose_nth;
        let loss = if payload {
            self.weather.loss
        } else {
            self.weather.ack_loss
        };
        if chosen || self.random.permille(loss) {
            return;
        }
        if segment.ecn.can_be_marked() && self.random.permille(self.weather.marking) {
            segment.ecn = Ecn::Ce;
        }
        let mut at = self.now + self.delay;
        if self.weather.segment_us > 0 && payload {
            let service = Nanos::from_micros(self.weather.segment_us);
            let start = self.free_at.max(self.now);
            if start.since(self.now).0 > service.0 * self.weather.queue {
                return;
            }
            self.free_at = start + service;
            at = self.free_at + self.delay;
        }
        if self.random.permille(self.weather.reordering) {
            at += Nanos::from_micros(self.random.below(5_000));
        }
        self.schedule(at, from_client, segment);
        if self.random.permille(self.weather.duplication) {
            let later = at + Nanos::from_micros(self.random.below(3_000));
            self.schedule(later, from_client, segment);
        }
    }

    fn schedule(&mut self, at: Nanos, to_server: bool, segment: Segment) {
        let index = self.spare.pop().unwrap_or(self.segments.len());
        if index == self.segments.len() {
            self.segments.push(segment);
        } else {
            self.segments[index] = segment;
        }
        self.numbers += 1;
        self.events.push(Reverse(Arrival {
            at,
            number: self.numbers,
            to_server,
            index,
        }));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        let arrival = self.events.peek().map(|Reverse(arrival)| arrival.at);
        [arrival, self.client.deadline(), self.server.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Processes the next event; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_at() else {
            return false;
        };
        self.now = self.now.max(at);
        if self
            .events
            .peek()
            .is_some_and(|Reverse(arrival)| arrival.at <= self.now)
        {
            let Reverse(arrival) = self.events.pop().expect("just seen");
            let segment = self.segments[arrival.index];
            self.spare.push(arrival.index);
            self.arrive(!arrival.to_server, &segment);
        } else {
            let client = self
                .client
                .deadline()
                .is_some_and(|deadline| deadline <= self.now);
            self.with(client, |end, now, sent| {
                end.expire(now, &mut |s| sent.push(s))
            });
            let end = if client { &self.client } else { &self.server };
            assert!(
                end.deadline().is_none_or(|deadline| deadline > self.now),
                "a timer that fired stays due: {}",
                self.label
            );
        }
        true
    }

    fn arrive(&mut self, at_client: bool, segment: &Segment) {
        let watched = &mut self.watched[usize::from(!at_client)];
        watched.arrived(segment);
        self.with(at_client, |end, now, sent| {
            end.receive(now, segment, &mut |s| sent.push(s));
        });
    }

    /// Runs until `done` or until no event is left.
    pub fn run(&mut self, done: impl Fn(&Pipe) -> bool) {
        for _ in 0..MOST_STEPS {
            if done(self) || !self.step() {
                return;
            }
        }
        panic!("no end in sight: {}", self.label);
    }

    pub fn run_until(&mut self, at: Nanos) {
        while self.next_at().is_some_and(|next| next <= at) {
            self.step();
        }
        self.now = self.now.max(at);
    }

    /// Checks what must hold after every call of an end.
    fn check(&mut self, client: bool, sent: &[Segment]) {
        let end = if client { &self.client } else { &self.server };
        let (info, totals) = (end.info(), end.totals());
        let watched = &mut self.watched[usize::from(!client)];
        for segment in sent.iter().filter(|_| self.watches_windows) {
            watched.sends(segment, &info, &self.label);
        }
        let whole = watched.whole_bytes();
        assert!(
            totals.delivered_bytes <= whole,
            "{} bytes delivered, {whole} arrived in order: {}",
            totals.delivered_bytes,
            self.label
        );
        assert!(
            totals.acknowledged_bytes <= totals.sent_bytes,
            "{}",
            self.label
        );
    }

    pub fn label(&self) -> &str {
        &self.label
    }
}
