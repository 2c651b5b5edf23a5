//! Properties for any path: losses, order, clumps of ACKs, little memory.

use std::collections::BTreeMap;

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::TestCaseError;
use uc_hold_core::{Buffer, Hold, Out, Segment, Settings};

use crate::port::{Frame, IRS, MS, MSS, SCALE, ack, at, data, syn, syn_ack};

/// How long a guest waits for an ACK before it retransmits its first segment.
const GUEST_TIMEOUT: u64 = 200 * MS;

/// An input: what becomes of packets, in turn; and the port's settings.
#[derive(Clone, Debug)]
struct Path {
    /// Which packets of the guest are lost, and which of the peer.
    lost: Vec<bool>,
    /// Time of each packet on its way, in tenths of a millisecond; so some overtake others.
    delays: Vec<u8>,
    /// The peer answers this many segments by one ACK.
    clump: u32,
    has_sack: bool,
    /// Bytes of the peer's data in each of its ACKs.
    payload: u32,
    segments: u32,
    window: u32,
}

/// Everything on the way, and both ends.
struct World {
    path: Path,
    hold: Hold<u16, Frame>,
    limit: usize,
    now: u64,
    drawn: usize,
    /// By time and number, so that packets of one time keep their order.
    to_peer: BTreeMap<(u64, usize), Segment>,
    to_host: BTreeMap<(u64, usize), Segment>,
    guest_una: u32,
    guest_nxt: u32,
    guest_heard: u64,
    /// Segments that the peer has, by number.
    has: Vec<bool>,
    waiting: u32,
    peer_sent: u32,
    peer_acked: u32,
    resent: u64,
    edge: u32,
}

impl World {
    fn new(path: Path, settings: Settings) -> World {
        let mut hold = Hold::new(settings);
        hold.sent(0, 0, &syn(), || Frame(syn()));
        hold.arrived(10 * MS, 0, &syn_ack(), Frame(syn_ack()));
        assert!(hold.take(10 * MS).is_some());
        World {
            has: vec![false; path.segments as usize],
            path,
            hold,
            limit: settings.bytes_max,
            now: 10 * MS,
            drawn: 0,
            to_peer: BTreeMap::new(),
            to_host: BTreeMap::new(),
            guest_una: 0,
            guest_nxt: 0,
            guest_heard: 10 * MS,
            waiting: 0,
            peer_sent: 0,
            peer_acked: 0,
            resent: 0,
            edge: 0,
        }
    }

    /// Draws the fate of the next packet: when it arrives, unless it is lost.
    fn draw(&mut self) -> Option<(u64, usize)> {
        self.drawn += 1;
        // the end of the path is good, so that each run ends
        let is_lost = self.path.lost.get(self.drawn).copied().unwrap_or(false);
        let delay = self.path.delays[self.drawn % self.path.delays.len()];
        let at = self.now + MS + u64::from(delay) * MS / 10;
        (!is_lost).then_some((at, self.drawn))
    }

    fn guest_sends(&mut self, number: u32) {
        let mut segment = data(number);
        segment.ack = IRS + 1 + self.peer_sent;
        let before = self.hold.counts();
        self.hold.sent(self.now, 0, &segment, || Frame(segment));
        // what the guest sends is on its way already: the hold returns no packet for it
        assert_eq!(self.hold.counts().retransmits, before.retransmits);
        if let Some(at) = self.draw() {
            self.to_peer.insert(at, segment);
        }
    }

    fn guest_fills_window(&mut self) {
        let until = self.path.segments.min(self.guest_una + self.path.window);
        while self.guest_nxt < until {
            self.guest_sends(self.guest_nxt);
            self.guest_nxt += 1;
        }
    }

    fn peer_takes(&mut self, segment: &Segment) {
        let number = (segment.seq.wrapping_sub(at(0)) / MSS) as usize;
        let was = std::mem::replace(&mut self.has[number], true);
        let acked = self.has.iter().take_while(|&&has| has).count() as u32;
        let in_order = acked > self.peer_acked && !was;
        self.waiting += 1;
        let is_last = acked == self.path.segments;
        if in_order && self.waiting < self.path.clump && !is_last {
            return;
        }
        self.waiting = 0;
        self.peer_acked = acked;
        let mut answer = ack(acked);
        answer.seq = IRS + 1 + self.peer_sent;
        answer.payload_bytes = self.path.payload;
        let beyond = self.has.iter().skip(acked as usize);
        if self.path.has_sack && beyond.clone().any(|&has| has) {
            let from = acked + beyond.clone().take_while(|&&has| !has).count() as u32;
            let more = self.has.iter().skip(from as usize);
            let to = from + more.take_while(|&&has| has).count() as u32;
            answer.sack[0] = (at(from), at(to));
        }
        self.peer_sent += answer.payload_bytes;
        if let Some(at) = self.draw() {
            self.to_host.insert(at, answer);
        }
    }

    /// Carries out what the hold returns, and checks it.
    fn collect(&mut self) -> Result<(), TestCaseError> {
        while let Some(out) = self.hold.take(self.now) {
            match out {
                Out::ToNetwork(frame) => {
                    let number = frame.0.seq.wrapping_sub(at(0)) / MSS;
                    prop_assert!(number < self.guest_nxt, "{number} was never sent");
                    prop_assert_eq!(frame.0.seq, at(number));
                    prop_assert_eq!(frame.0.payload_bytes, MSS);
                    self.resent += 1;
                    if let Some(at) = self.draw() {
                        self.to_peer.insert(at, frame.0);
                    }
                }
                Out::ToGuest { packet, ack, .. } => {
                    let own = (packet.0.ack, packet.0.window);
                    let (number, window) = ack.map_or(own, |edit| (edit.ack, edit.window));
                    self.guest_takes(number, window)?;
                }
            }
            prop_assert!(self.hold.bytes() <= self.limit);
        }
        Ok(())
    }

    fn guest_takes(&mut self, number: u32, window: u16) -> Result<(), TestCaseError> {
        let acked = number.wrapping_sub(at(0)) / MSS;
        prop_assert!(acked <= self.peer_acked, "ahead of the peer");
        let edge = number
            .wrapping_sub(at(0))
            .wrapping_add(u32::from(window) << SCALE);
        if acked >= self.guest_una {
            let unit = 1 << SCALE;
            prop_assert!(edge + unit > self.edge, "the right edge moved back");
            self.edge = self.edge.max(edge);
        }
        if acked > self.guest_una {
            self.guest_una = acked;
            self.guest_heard = self.now;
        }
        self.guest_fills_window();
        Ok(())
    }

    /// Runs until the guest knows that all is acknowledged. Returns how often its timer fired.
    fn run(&mut self) -> Result<u32, TestCaseError> {
        let mut timeouts = 0;
        self.guest_fills_window();
        for _ in 0..100_000 {
            self.collect()?;
            if self.guest_una == self.path.segments {
                return Ok(timeouts);
            }
            let peer = self.to_peer.first_key_value().map(|(&(at, _), _)| at);
            let host = self.to_host.first_key_value().map(|(&(at, _), _)| at);
            let hold = self.hold.next_at();
            let timer = self.guest_heard + GUEST_TIMEOUT;
            let next = [peer, host, hold, Some(timer)];
            let next = next.into_iter().flatten().min().unwrap_or(timer);
            self.now = self.now.max(next);
            if peer == Some(next) {
                if let Some((_, segment)) = self.to_peer.pop_first() {
                    self.peer_takes(&segment);
                }
            } else if host == Some(next) {
                if let Some((_, segment)) = self.to_host.pop_first() {
                    self.hold.arrived(self.now, 0, &segment, Frame(segment));
                }
            } else if next == timer {
                timeouts += 1;
                self.guest_heard = self.now;
                self.guest_sends(self.guest_una);
            }
        }
        Err(TestCaseError::fail("the guest never got the last ACK"))
    }
}

fn path() -> impl prop::strategy::Strategy<Value = Path> {
    use prop::strategy::Strategy;
    let lost = prop::collection::vec(prop::bool::weighted(0.15), 0..200);
    let delays = prop::collection::vec(0..20u8, 1..30);
    let peer = (
        1..12u32,
        any::<bool>(),
        prop::sample::select(vec![0, 0, 300]),
    );
    (lost, delays, peer, 1..120u32, 1..40u32).prop_map(
        |(lost, delays, (clump, has_sack, payload), segments, window)| Path {
            lost,
            delays,
            clump,
            has_sack,
            payload,
            segments,
            window,
        },
    )
}

proptest! {
    #[test]
    fn all_is_acknowledged_within_the_peers_numbers_and_the_memory(
        path in path(),
        pace in any::<bool>(),
        buffers in any::<bool>(),
        limit in 2_000..60_000usize,
    ) {
        let settings = Settings {
            pace,
            buffer: buffers.then(Buffer::default),
            bytes_max: limit,
        };
        World::new(path, settings).run()?;
    }

    #[test]
    fn after_the_loss_of_any_one_packet_the_guests_timer_does_not_fire(
        path in path(),
        lost in 0..150usize,
        pace in any::<bool>(),
    ) {
        let path = Path {
            lost: (0..=lost).map(|number| number == lost).collect(),
            // or the peer's answers, which no timer releases, would wait for retransmissions
            clump: 1,
            ..path
        };
        let settings = Settings {
            pace,
            buffer: Some(Buffer::default()),
            bytes_max: 1 << 20,
        };
        let mut world = World::new(path, settings);
        let timeouts = world.run()?;
        prop_assert_eq!(timeouts, 0, "{} retransmissions", world.resent);
    }
}
