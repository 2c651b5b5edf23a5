//! Plays cases: many at once in a thread, each step to its end before the next.
//!
//! A frame that is written to a tap is processed before the call returns, with everything that it
//! lets out. The guest's programs write in the same thread. So the order of a flow's segments at the
//! port is the order in which its kernel took them in and sent them; only its timers run meanwhile.
//! What they sent is read from the tap before the next ACK passes the port.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use uc_core::consts;
use uc_lab::frame::{Frame, Pool};
use uc_lab::tap::FRAME_BYTES_MAX;

use super::case::Case;
use super::flow::{Flow, Step};
use super::frame::{self, Parsed};
use super::record::{Fate, Record};
use super::world::{Offers, World, connect};

/// Flows under way in a thread at once.
const AT_ONCE: usize = 200;
/// A flow that takes longer is given up.
const LONGEST: Duration = Duration::from_secs(6);
/// Time between two starts, so that not all flows send at the same moments.
const APART_NS: u64 = 1_000_000;
const PORTS: std::ops::Range<u16> = 10_000..60_000;

/// What happens at a time.
#[derive(Debug)]
enum Due {
    /// A frame arrives: way 0 at the far end, way 1 at the guest.
    Frame(usize, Frame),
    Step(Step),
}

/// An entry of the agenda, ordered by time and then by number.
#[derive(Debug)]
struct Entry {
    at_ns: u64,
    number: u64,
    port: u16,
    due: Due,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// A thread that plays cases; it is in the guest's namespace.
struct Player<'a> {
    world: &'a World,
    offers: Offers,
    flows: HashMap<u16, Flow>,
    agenda: BinaryHeap<Reverse<Entry>>,
    number: u64,
    next_port: u16,
    pool: Pool,
    buffer: Vec<u8>,
    start: Instant,
    /// Flows that sent since their kernel was last asked.
    sent: Vec<u16>,
    /// Flows that may have ended.
    ended: Vec<u16>,
}

/// Plays the cases that `draw` returns, and hands each with its record to `done`.
pub fn play(
    world: &World,
    draw: &(dyn Fn() -> Option<Case> + Sync),
    done: &mut (dyn FnMut(Case, Record) + Send),
) {
    let run = || {
        let mut player = Player {
            world,
            offers: Offers::here().unwrap(),
            flows: HashMap::new(),
            agenda: BinaryHeap::new(),
            number: 0,
            next_port: PORTS.start,
            pool: Pool::default(),
            buffer: vec![0; FRAME_BYTES_MAX],
            start: Instant::now(),
            sent: Vec::new(),
            ended: Vec::new(),
        };
        player.play(draw, done);
    };
    world.guest.enter(run).unwrap();
}

impl Player<'_> {
    fn now_ns(&self) -> u64 {
        // not 0, which the core takes for never
        self.start.elapsed().as_nanos() as u64 + 1_000_000_000
    }

    fn play(
        &mut self,
        draw: &dyn Fn() -> Option<Case>,
        done: &mut (dyn FnMut(Case, Record) + Send),
    ) {
        let mut start_ns = 0;
        let mut more = true;
        while more || !self.flows.is_empty() {
            if more && self.flows.len() < AT_ONCE && self.now_ns() >= start_ns {
                start_ns = self.now_ns() + APART_NS;
                match draw() {
                    Some(case) => self.begin(case),
                    None => more = false,
                }
            }
            self.drain_guest();
            self.drain_far();
            let now_ns = self.now_ns();
            match self.agenda.peek() {
                Some(Reverse(entry)) if entry.at_ns <= now_ns => {
                    let Reverse(entry) = self.agenda.pop().unwrap();
                    self.happen(entry);
                }
                next => {
                    let next_ns = next.map_or(u64::MAX, |Reverse(entry)| entry.at_ns);
                    let wait_ns = (next_ns - now_ns).min(APART_NS);
                    self.wait(Duration::from_nanos(wait_ns));
                }
            }
            self.end_flows(done);
        }
    }

    /// Waits for a frame, or for a time.
    fn wait(&self, longest: Duration) {
        // poll(2) counts whole milliseconds
        if longest < Duration::from_micros(200) {
            return;
        }
        let mut fds = [&self.world.guest_tap, &self.world.far_tap]
            .map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN));
        let _ = poll(&mut fds, PollTimeout::from(1u8));
    }

    fn begin(&mut self, case: Case) {
        self.drain_guest();
        self.offers.set(case.offers()).unwrap();
        let (port, now_ns) = (self.next_port, self.now_ns());
        self.next_port += 1;
        if self.next_port == PORTS.end {
            self.next_port = PORTS.start;
        }
        let socket = connect(&case, port).unwrap();
        let flow = Flow::new(case, socket, now_ns, now_ns + LONGEST.as_nanos() as u64);
        self.at(flow.deadline_ns, port, Due::Step(Step::GuestWrites));
        self.flows.insert(port, flow);
        self.drain_guest();
    }

    /// Passes all that the guest has sent through the port and onto the path.
    fn drain_guest(&mut self) {
        let world = self.world;
        while let Some(length) = world.guest_tap.read(&mut self.buffer).unwrap() {
            let now_ns = self.now_ns();
            let Some(parsed) = frame::parse(&self.buffer[..length], consts::FROM_GUEST) else {
                continue;
            };
            let Some(flow) = self.flows.get_mut(&parsed.source) else {
                continue;
            };
            let edit = flow.port(&parsed.segment, now_ns);
            if let Some(edit) = edit {
                frame::write(&mut self.buffer[..length], &edit);
            }
            let mut frame = self
                .pool
                .frame(&self.buffer[..length], parsed.source.into());
            let (arrivals, fate) = flow.ways.pass(0, &mut frame, now_ns);
            flow.note(parsed.segment, fate, now_ns);
            if !self.sent.contains(&parsed.source) {
                self.sent.push(parsed.source);
            }
            self.arrive(parsed.source, 0, frame, arrivals);
        }
        let now_ns = self.now_ns();
        for port in std::mem::take(&mut self.sent) {
            if let Some(flow) = self.flows.get_mut(&port) {
                flow.note_kernel(now_ns);
            }
        }
    }

    /// Puts all that the far end has sent onto the path.
    fn drain_far(&mut self) {
        let world = self.world;
        while let Some(length) = world.far_tap.read(&mut self.buffer).unwrap() {
            let now_ns = self.now_ns();
            let Some(parsed) = frame::parse(&self.buffer[..length], consts::TO_GUEST) else {
                continue;
            };
            let Some(flow) = self.flows.get_mut(&parsed.destination) else {
                continue;
            };
            let mut frame = self
                .pool
                .frame(&self.buffer[..length], parsed.destination.into());
            let (arrivals, _) = flow.ways.pass(1, &mut frame, now_ns);
            self.arrive(parsed.destination, 1, frame, arrivals);
        }
    }

    fn arrive(&mut self, port: u16, way: usize, frame: Frame, arrivals: [Option<u64>; 2]) {
        for at_ns in arrivals.into_iter().flatten() {
            self.at(at_ns, port, Due::Frame(way, frame.clone()));
        }
    }

    fn at(&mut self, at_ns: u64, port: u16, due: Due) {
        self.number += 1;
        self.agenda.push(Reverse(Entry {
            at_ns,
            number: self.number,
            port,
            due,
        }));
    }

    fn happen(&mut self, entry: Entry) {
        let port = entry.port;
        if !self.flows.contains_key(&port) {
            return;
        }
        match entry.due {
            Due::Frame(0, frame) => self.reach_far(port, &frame),
            Due::Frame(_, frame) => self.reach_guest(port, &frame),
            Due::Step(step) => self.step(port, step),
        }
    }

    fn reach_far(&mut self, port: u16, frame: &Frame) {
        self.world.far_tap.write(frame.bytes()).unwrap();
        if !self.flows[&port].is_accepted() {
            self.accept();
        }
        self.step(port, Step::FarReads);
        self.step(port, Step::FarWrites);
    }

    fn reach_guest(&mut self, port: u16, frame: &Frame) {
        self.drain_guest();
        let now_ns = self.now_ns();
        let Some(Parsed { segment, .. }) = frame::parse(frame.bytes(), consts::TO_GUEST) else {
            return;
        };
        let flow = self.flows.get_mut(&port).unwrap();
        let mut bytes = frame.bytes().to_vec();
        if let Some(edit) = flow.port(&segment, now_ns) {
            frame::write(&mut bytes, &edit);
        }
        flow.note(segment, Fate::default(), now_ns);
        // the kernel reads its settings again when it takes in the answer
        if uc_core::is_answer(&segment) {
            self.offers.set(flow.case.offers()).unwrap();
        }
        self.world.guest_tap.write(&bytes).unwrap();
        self.sent.push(port);
        self.drain_guest();
        self.step(port, Step::GuestWrites);
    }

    fn step(&mut self, port: u16, step: Step) {
        let now_ns = self.now_ns();
        let Some(flow) = self.flows.get_mut(&port) else {
            return;
        };
        let next = match step {
            Step::GuestWrites => flow.guest_acts(now_ns),
            Step::FarWrites => flow.far_writes(now_ns),
            Step::FarReads => flow.far_reads(now_ns),
        };
        if let Some((at_ns, step)) = next {
            self.at(at_ns, port, Due::Step(step));
        }
        if step == Step::GuestWrites {
            self.drain_guest();
        }
        self.ended.push(port);
    }

    /// Hands new connections of the far end to their flows.
    fn accept(&mut self) {
        for listener in &self.world.listeners {
            let Ok((socket, peer)) = listener.accept() else {
                continue;
            };
            let SocketAddr::V4(peer) = peer else { continue };
            socket.set_nonblocking(true).unwrap();
            if let Some(flow) = self.flows.get_mut(&peer.port()) {
                flow.accepted(socket);
            }
        }
    }

    fn end_flows(&mut self, done: &mut (dyn FnMut(Case, Record) + Send)) {
        let now_ns = self.now_ns();
        for port in std::mem::take(&mut self.ended) {
            let over = |flow: &mut Flow| now_ns >= flow.deadline_ns || flow.is_done();
            if !self.flows.get_mut(&port).is_some_and(over) {
                continue;
            }
            let mut flow = self.flows.remove(&port).unwrap();
            flow.record.finished = flow.is_done();
            done(flow.case, flow.record);
        }
    }
}
