//! One game: guests, their ports, the link and their peers for a fixed time.

use std::collections::VecDeque;

use uc_core::Segment;
use uc_net::random::Stream;

use crate::games::behaviour::Frame;
use crate::games::guest::Guest;
use crate::games::network::{FULL_BYTES, Link, Network, wire_bytes};
use crate::games::peer::Peer;
use crate::games::plan::Plan;
use crate::games::port::{Cores, Guard};
use crate::games::{MSS, TICK_NS};

/// Time on the clock of native cores at the first tick, in ns.
const START_NS: u64 = 1_000_000_000;
/// Divisor: at each tick a guest does nothing with a probability of 1/8, so that guests are not in step.
const IDLE_ONE_IN: u64 = 8;
/// Divisor: answers of peers arrive up to `delay_ticks / UNEVEN` later than the path's delay, at random. Without this
/// noise guests send in step.
const UNEVEN: u64 = 4;

/// Goodput of a game's guests, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goodput {
    /// Goodput of the first guest, which may be the adversary.
    pub first: u64,
    /// Goodput of all other guests together.
    pub neighbours: u64,
    /// Payload that the link has carried for the first guest beyond its goodput. It does not count as a loss of the
    /// neighbours: to take room on the link a guest needs no trick, since UDP does that.
    pub useless: u64,
}

impl std::iter::Sum for Goodput {
    fn sum<I: Iterator<Item = Goodput>>(games: I) -> Goodput {
        games.fold(Goodput::default(), |sum, game| Goodput {
            first: sum.first + game.first,
            neighbours: sum.neighbours + game.neighbours,
            useless: sum.useless + game.useless,
        })
    }
}

/// The guests' ports, one each, by the guest's number.
pub trait Ports {
    /// Waits until it is this tick's time, if the ports have a clock of their own.
    fn wait(&mut self, tick: u64);

    /// Passes a frame of guest `of`; returns the segment that leaves the port, `None` if the port drops the frame.
    fn pass_from_guest(&mut self, of: usize, frame: &Frame) -> Option<Segment>;

    /// Passes a segment to guest `of`; returns it as the guest gets it, `None` if the port drops it.
    fn pass_to_guest(&mut self, of: usize, segment: &Segment) -> Option<Segment>;

    /// Hands the flow of guest `of` over to a new port, through the layout with this number. The clock of the new
    /// port's host is `clock` units of 128 µs ahead of the game's.
    fn hand_over(&mut self, of: usize, clock: u32, layout: u32);
}

/// Native cores on the game's own clock.
#[derive(Clone, Debug)]
pub struct Virtual {
    cores: Cores,
    now_ns: u64,
    /// Number of flows that were handed over.
    pub moves: u64,
}

impl Virtual {
    /// Creates the ports of a network's guests with this guard.
    #[must_use]
    pub fn new(network: &Network, guard: Guard) -> Virtual {
        Virtual {
            cores: Cores::new(network.guests(), guard.on(network.policy), network.core),
            now_ns: START_NS,
            moves: 0,
        }
    }
}

impl Ports for Virtual {
    fn wait(&mut self, tick: u64) {
        self.now_ns = START_NS + tick * TICK_NS;
    }

    fn pass_from_guest(&mut self, of: usize, frame: &Frame) -> Option<Segment> {
        self.cores.from_guest(of, frame, self.now_ns)
    }

    fn pass_to_guest(&mut self, of: usize, segment: &Segment) -> Option<Segment> {
        self.cores.to_guest(of, segment, self.now_ns)
    }

    fn hand_over(&mut self, of: usize, clock: u32, layout: u32) {
        let host = (clock, layout);
        self.moves += u64::from(self.cores.hand_over(of, host, self.now_ns));
    }
}

/// Plays one game with native cores; the first guest has the plan, its neighbours are honest. `seed` decides about
/// start times, delays and the order of events.
#[must_use]
pub fn play(plan: &Plan, network: &Network, guard: Guard, seed: u64) -> Goodput {
    play_on(&mut Virtual::new(network, guard), plan, network, seed)
}

/// Plays one game with other ports; there is one for each of the network's guests.
#[must_use]
pub fn play_on(ports: &mut impl Ports, plan: &Plan, network: &Network, seed: u64) -> Goodput {
    let mut table = Table::new(ports, plan, network, seed);
    for tick in 0..network.ticks {
        table.ports.wait(tick);
        table.tick(tick);
    }
    let got = |peer: &Peer| peer.received_bytes();
    let first = got(&table.peers[0]);
    Goodput {
        first,
        neighbours: table.peers[1..].iter().map(got).sum(),
        useless: (table.carried * u64::from(MSS) / FULL_BYTES).saturating_sub(first),
    }
}

struct Table<'a, P> {
    network: &'a Network,
    random: Stream,
    guests: Vec<Guest>,
    peers: Vec<Peer>,
    ports: &'a mut P,
    link: Link,
    /// Bytes of the first guest that the link has carried.
    carried: u64,
    /// Tick at which the answers of the present tick arrive: no earlier than those before, so that none overtakes
    /// another.
    arrival: u64,
    /// Answers on their way: the tick of their arrival, guest and segment.
    answers: VecDeque<(u64, usize, Segment)>,
}

impl<P: Ports> Table<'_, P> {
    fn new<'a>(ports: &'a mut P, plan: &Plan, network: &'a Network, seed: u64) -> Table<'a, P> {
        let mut random = Stream::new(seed, "game");
        let count = network.guests();
        let guests = (0..count).map(|of| {
            let plan = if of == 0 {
                plan.clone()
            } else {
                Plan::honest()
            };
            Guest::new(plan, random.bits32(), random.below(2 * network.delay_ticks))
        });
        let guests = guests.collect();
        let peers = (0..count).map(|_| {
            Peer::new(
                network.echoes_exactly(),
                network.delayed_acks,
                random.bits32(),
            )
        });
        let peers = peers.collect();
        Table {
            network,
            guests,
            peers,
            ports,
            link: Link::default(),
            carried: 0,
            arrival: 0,
            answers: VecDeque::new(),
            random,
        }
    }

    fn tick(&mut self, tick: u64) {
        let late = self.random.below(self.network.delay_ticks / UNEVEN + 1);
        self.arrival = self.arrival.max(tick + self.network.delay_ticks + late);
        let arrival = self.arrival;
        self.link.tick();
        while let Some((of, segment)) = self.link.carry() {
            self.carried += if of == 0 { wire_bytes(&segment) } else { 0 };
            let answer = self.peers[of].hear(&segment, tick);
            self.answers
                .extend(answer.map(|answer| (arrival, of, answer)));
        }
        for (of, peer) in self.peers.iter_mut().enumerate() {
            self.answers
                .extend(peer.wake(tick).map(|answer| (arrival, of, answer)));
        }
        while self.answers.front().is_some_and(|answer| answer.0 <= tick) {
            let Some((_, of, answer)) = self.answers.pop_front() else {
                break;
            };
            if let Some(segment) = self.ports.pass_to_guest(of, &answer) {
                self.guests[of].hear(&segment, tick);
            }
        }
        let count = self.guests.len();
        let first = self.random.below(count as u64) as usize;
        for turn in 0..count {
            if self.random.below(IDLE_ONE_IN) > 0 {
                self.act((first + turn) % count, tick);
            }
        }
    }

    fn act(&mut self, of: usize, tick: u64) {
        let Table {
            network,
            guests,
            ports,
            link,
            ..
        } = self;
        guests[of].act(tick, &mut |frame| {
            let passed = ports.pass_from_guest(of, &frame);
            if let (Some(segment), false) = (passed, frame.dies) {
                link.enqueue(network, of, segment);
            }
            passed.is_some()
        });
        if let Some((clock, layout)) = guests[of].take_move() {
            ports.hand_over(of, clock, layout);
        }
    }
}
