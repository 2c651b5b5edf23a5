//! Sender, element, network and receiver on one virtual clock.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use uc_net::Nanos;
use uc_tcp::{Config, Connection, Info, Segment, Totals};

use crate::direction::DirectionState;
use crate::element::{Element, Shadow};
use crate::plan::{After, Burst, Plan};

/// The cause of an act of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The application opened the connection.
    Open,
    /// A segment arrived, shown as it was before the element saw it.
    Arrival(Segment),
    /// The timer of the sender expired.
    Timer,
    /// The application wrote data.
    Write,
}

/// The sender's state at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Variables of the sender's TCP at that time.
    pub info: Info,
    /// Counters of the sender's TCP at that time.
    pub totals: Totals,
    /// Bytes that the application has written so far.
    pub written_bytes: u64,
    /// The sender's shadow at its port; `None` if no port follows the sender.
    pub shadow: Option<Shadow>,
}

/// An observer of a run; a method that returns `false` ends the run.
pub trait Observer {
    /// Observes a segment of the sender, as the network sees it.
    fn sent(&mut self, now: Nanos, segment: &Segment) -> bool;
    /// Observes that the network loses the segment sent last.
    fn lost(&mut self, _: &Segment) {}
    /// Observes an act of the sender.
    fn acted(&mut self, now: Nanos, cause: &Cause, before: &State, after: &State) -> bool;
}

/// Settings of a run: those of both hosts, and when the run ends.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Settings of the sender; segment size and initial window are the plan's.
    pub sender: Config,
    /// Settings of the receiver; segment size and buffer are the plan's.
    pub receiver: Config,
    /// Delay of a segment between the sender and its element, in each direction.
    pub host_delay: Nanos,
    /// Whether the receiver's application writes, too, without end.
    pub both_ways: bool,
    /// Time at which the run ends; a plan's number of packets may end it earlier.
    pub until: Nanos,
}

/// The totals of a completed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of segments sent, segments delivered to the sender, timers and writes.
    pub events: u64,
    /// Time of the run's last event.
    pub end: Nanos,
    /// Number of payload bytes that were acknowledged.
    pub acknowledged_bytes: u64,
}

/// An event that waits for its time.
#[derive(Clone, Debug)]
enum Happening {
    AtElement(Segment),
    AtReceiver(Segment),
    AtPort(Segment),
    AtSender { wire: Segment, seen: Segment },
    Write(Burst),
    Read(Nanos),
}

#[derive(Clone, Debug)]
struct Entry {
    at: Nanos,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Orders the heap so that its greatest entry is the earliest; at one time, the one entered
    /// first.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Maximum number of events per packet of the plan; it ends cases with timers that fire without
/// sending, or with ACKs only.
const EVENTS_PER_PACKET_MAX: u64 = 16;

/// Initial sequence number of the receiver.
const RECEIVER_ISS: u32 = 1;

/// A simulated run that is in progress.
pub struct World<'a, E, O> {
    plan: &'a Plan,
    hosts: &'a Hosts,
    now: Nanos,
    queue: BinaryHeap<Entry>,
    entered: u64,
    sender: Connection,
    element: E,
    receiver: Connection,
    data: DirectionState<'a>,
    acks: DirectionState<'a>,
    observer: &'a mut O,
    state: State,
    /// Number of the plan's writes so far.
    bursts: usize,
    /// Whether the next write waits for its time.
    writing: bool,
    arrivals: u32,
    stalls: usize,
    stalled: Option<Nanos>,
    packets: u32,
    events: u64,
    going: bool,
    /// Buffer for the segments that an endpoint sends in one call.
    out: Vec<Segment>,
}

impl<'a, E: Element, O: Observer> World<'a, E, O> {
    /// Creates both ends before the handshake.
    pub fn new(plan: &'a Plan, hosts: &'a Hosts, element: E, observer: &'a mut O) -> Self {
        let sender = Config {
            mss_bytes: plan.mss_bytes,
            initial_window_segments: plan.initial_window_segments,
            ..hosts.sender.clone()
        };
        let receiver = Config {
            mss_bytes: plan.mss_bytes,
            receive_buffer_bytes: u32::from(plan.mss_bytes)
                * u32::from(plan.receive_buffer_segments),
            ..hosts.receiver.clone()
        };
        let mut receiver = Connection::server(&receiver, RECEIVER_ISS);
        if hosts.both_ways {
            receiver.write(Nanos::ZERO, u64::MAX, &mut |_| {});
        }
        World {
            plan,
            hosts,
            now: Nanos::ZERO,
            queue: BinaryHeap::new(),
            entered: 0,
            sender: Connection::client(&sender, plan.iss),
            element,
            receiver,
            data: DirectionState::new(&plan.data),
            acks: DirectionState::new(&plan.acks),
            observer,
            state: State::default(),
            bursts: 0,
            writing: false,
            arrivals: 0,
            stalls: 0,
            stalled: None,
            packets: 0,
            events: 0,
            going: true,
            out: Vec::new(),
        }
    }

    /// Runs the case to its end.
    pub fn run(mut self) -> Summary {
        let events_max = u64::from(self.plan.packets).saturating_mul(EVENTS_PER_PACKET_MAX);
        self.sender_acts(Cause::Open, |sender, now, mut out| {
            sender.open(now, &mut out)
        });
        while self.going && self.events < events_max && self.packets < self.plan.packets {
            let queued = self.queue.peek().map_or(Nanos::MAX, |entry| entry.at);
            let sender = self.sender.deadline().unwrap_or(Nanos::MAX);
            let receiver = self.receiver.deadline().unwrap_or(Nanos::MAX);
            let next = queued.min(sender).min(receiver);
            if next == Nanos::MAX || next > self.hosts.until {
                break;
            }
            self.now = next.max(self.now);
            if queued <= next {
                if let Some(entry) = self.queue.pop() {
                    self.happen(entry.what);
                }
            } else if sender <= next {
                self.sender_acts(Cause::Timer, |sender, now, mut out| {
                    sender.expire(now, &mut out)
                });
            } else {
                self.receiver_acts(|receiver, now, mut out| receiver.expire(now, &mut out));
            }
        }
        Summary {
            events: self.events,
            end: self.now,
            acknowledged_bytes: self.state.totals.acknowledged_bytes,
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::AtElement(segment) => self.leave_host(segment),
            Happening::AtReceiver(segment) => {
                self.arrivals += 1;
                self.receiver_acts(|receiver, now, mut out| {
                    receiver.receive(now, &segment, &mut out)
                });
                self.maybe_stall();
            }
            Happening::AtPort(segment) => self.enter_host(segment),
            Happening::AtSender { wire, seen } => {
                self.sender_acts(Cause::Arrival(wire), |sender, now, mut out| {
                    sender.receive(now, &seen, &mut out);
                });
            }
            Happening::Write(burst) => self.write(burst),
            Happening::Read(pause) => self.read(pause),
        }
    }

    fn enter(&mut self, at: Nanos, what: Happening) {
        let order = self.entered;
        self.entered += 1;
        self.queue.push(Entry { at, order, what });
    }

    fn sender_acts(
        &mut self,
        cause: Cause,
        act: impl FnOnce(&mut Connection, Nanos, &mut dyn FnMut(Segment)),
    ) {
        let mut out = std::mem::take(&mut self.out);
        act(&mut self.sender, self.now, &mut |segment| out.push(segment));
        self.events += 1;
        for segment in out.drain(..) {
            if self.hosts.host_delay == Nanos::ZERO {
                self.leave_host(segment);
            } else {
                self.enter(
                    self.now + self.hosts.host_delay,
                    Happening::AtElement(segment),
                );
            }
        }
        self.out = out;
        let before = self.state;
        self.state.info = self.sender.info();
        self.state.totals = *self.sender.totals();
        self.state.shadow = self.element.shadow();
        self.going &= self.observer.acted(self.now, &cause, &before, &self.state);
        self.plan_write();
        self.plan_read();
    }

    /// Passes a segment of the sender through its element into the network.
    fn leave_host(&mut self, mut segment: Segment) {
        self.element.towards_network(self.now, &mut segment);
        self.events += 1;
        self.packets += 1;
        self.going &= self.observer.sent(self.now, &segment);
        if let Some((at, ecn)) = self.data.carry(self.now, segment.ecn) {
            segment.ecn = ecn;
            self.enter(at, Happening::AtReceiver(segment));
        } else {
            self.observer.lost(&segment);
        }
    }

    /// Passes a segment for the sender through its element.
    fn enter_host(&mut self, wire: Segment) {
        let mut seen = wire;
        self.element.towards_guest(self.now, &mut seen);
        let what = Happening::AtSender { wire, seen };
        if self.hosts.host_delay == Nanos::ZERO {
            self.happen(what);
        } else {
            self.enter(self.now + self.hosts.host_delay, what);
        }
    }

    fn receiver_acts(&mut self, act: impl FnOnce(&mut Connection, Nanos, &mut dyn FnMut(Segment))) {
        let mut out = std::mem::take(&mut self.out);
        act(&mut self.receiver, self.now, &mut |segment| {
            out.push(segment)
        });
        for mut segment in out.drain(..) {
            if let Some((at, ecn)) = self.acks.carry(self.now, segment.ecn) {
                segment.ecn = ecn;
                self.enter(at, Happening::AtPort(segment));
            }
        }
        self.out = out;
    }

    fn write(&mut self, burst: Burst) {
        let mss_bytes = u64::from(self.plan.mss_bytes);
        let bytes = u64::from(burst.segments) * mss_bytes + u64::from(burst.odd_bytes);
        self.state.written_bytes += bytes;
        self.writing = false;
        self.sender_acts(Cause::Write, |sender, now, mut out| {
            sender.write(now, bytes, &mut out)
        });
    }

    /// Schedules the next write, once its condition holds.
    fn plan_write(&mut self) {
        let Some(&burst) = self.plan.bursts.get(self.bursts).filter(|_| !self.writing) else {
            return;
        };
        let acknowledged = self.state.totals.acknowledged_bytes;
        let done = match burst.after {
            After::Sent => acknowledged + u64::from(self.state.info.flight_bytes),
            After::Acked => acknowledged,
        };
        if done < self.state.written_bytes {
            return;
        }
        self.bursts += 1;
        self.writing = true;
        let rto_ns =
            u128::from(self.state.info.rto.0) * u128::from(burst.pause_rto_permille) / 1_000;
        let pause = Nanos::from_micros(u64::from(burst.pause_us)) + Nanos(rto_ns as u64);
        self.enter(self.now + pause, Happening::Write(burst));
    }

    fn maybe_stall(&mut self) {
        let Some(stall) = self.plan.stalls.get(self.stalls) else {
            return;
        };
        if self.arrivals < stall.arrivals || self.stalled.is_some() {
            return;
        }
        self.stalls += 1;
        self.stalled = Some(Nanos::from_micros(u64::from(stall.pause_us)));
        self.receiver_acts(|receiver, now, mut out| receiver.set_reading(now, false, &mut out));
    }

    /// Schedules reading for some time after the window alone stopped the sender, so that the window update comes in a
    /// segment of its own.
    fn plan_read(&mut self) {
        if !self.is_blocked() {
            return;
        }
        if let Some(pause) = self.stalled.filter(|&pause| pause != Nanos::MAX) {
            self.stalled = Some(Nanos::MAX);
            self.enter(self.now + pause, Happening::Read(pause));
        }
    }

    /// Lets the receiver's application read again, if the sender is still blocked by a closed
    /// window. If a window update has unblocked it meanwhile, the application goes on pausing
    /// until the sender is blocked again.
    fn read(&mut self, pause: Nanos) {
        if !self.is_blocked() {
            self.stalled = Some(pause);
            return;
        }
        self.stalled = None;
        self.receiver_acts(|receiver, now, mut out| receiver.set_reading(now, true, &mut out));
    }

    fn is_blocked(&self) -> bool {
        let State {
            info,
            totals,
            written_bytes,
            ..
        } = &self.state;
        info.flight_bytes == 0
            && *written_bytes > totals.acknowledged_bytes
            && info.send_window_bytes < u32::from(self.plan.mss_bytes)
    }
}
