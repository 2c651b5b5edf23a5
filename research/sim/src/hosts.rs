//! The ends of all connections, on the network and under the timers: one loop over all events.
//!
//! The order is total: by time; at one time first the network's events (in its own order of (time,
//! sequence)), then timers in the order in which they were armed. A packet that a host sends in
//! answer enters the network at the time of the packet that it answers: hosts take no time.

mod connections;
mod cores;
mod coupled;
mod granting;
mod ideal;
mod machines;
mod notice;
mod starting;
mod timer_owner;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use uc_core::{COMPILED, Core};
use uc_net::random::Stream;
use uc_net::{Arrival, BitsPerSec, Ecn, HostId, Nanos, Network};

use crate::capture::{Capture, Watcher};
use crate::coupling::Couplings;
use crate::end::{End, Stage};
use crate::error::SimError;
use crate::instruments::PacketRtts;
use crate::packet::Packet;
use crate::port::Port;
use crate::scenario::{FlowPlan, Scenario};
use crate::start::Starts;
use crate::tenant_port::{Settings, TenantPort};
use crate::timers::{TimerId, Timers};

use cores::Machines;
pub use notice::{Notice, Side, Slot};
use timer_owner::TimerOwner;

/// Maximum number of events at one time; with more, time counts as standing still. 256 for each of
/// the possible connections.
const EVENTS_PER_INSTANT_MAX: u32 = 1 << 24;

/// The network, the ends of all connections, and the timers.
#[derive(Debug)]
pub struct Hosts {
    network: Network<Packet>,
    /// Rate and propagation delay of each link.
    wires: Vec<(BitsPerSec, Nanos)>,
    /// Core that decides about packets at all ports.
    core: Core,
    /// Ports of the hosts that have had a connection with a policy.
    ports: BTreeMap<HostId, Rc<RefCell<TenantPort>>>,
    port_settings: Settings,
    ends: Vec<End>,
    free: Vec<Slot>,
    timers: Timers,
    owners: Vec<TimerOwner>,
    wakes: Vec<TimerId>,
    notices: VecDeque<Notice>,
    initial_sequence: Stream,
    now: Nanos,
    events: u64,
    instant_events: u32,
    ip_header_bytes: u32,
    rtts: PacketRtts,
    /// Whether the instruments of any end need the marks of the end's data.
    notes_marks: bool,
    couplings: Couplings,
    starts: Starts,
    machines: Machines,
    receiver_machines: BTreeMap<HostId, usize>,
    capture: Option<Box<Capture>>,
    /// Counters of packets that ports have held, summed over connections that are gone.
    held: uc_hold_core::Counts,
}

impl Hosts {
    /// Creates the hosts of a scenario, without connections.
    ///
    /// # Errors
    /// [`SimError::Network`], or [`SimError::NoRoute`] for a flow whose two ends no links connect.
    pub fn new(scenario: &Scenario) -> Result<Hosts, SimError> {
        let mut network = Network::new(&scenario.topology, scenario.seed)?;
        let links = scenario.topology.links().iter();
        let wires = links
            .map(|link| (link.spec.rate, link.spec.delay))
            .collect();
        check_routes(scenario, &network)?;
        network.expect_only(scenario.flows.iter().flat_map(|flow| ways(scenario, flow)));
        let mut timers = Timers::default();
        let wakes: Vec<TimerId> = scenario.flows.iter().map(|_| timers.add()).collect();
        let mut owners: Vec<TimerOwner> = (0..scenario.flows.len()).map(TimerOwner::Flow).collect();
        let machines = Machines::new(scenario, &mut timers, &mut owners);
        Ok(Hosts {
            network,
            wires,
            core: COMPILED,
            ports: BTreeMap::new(),
            port_settings: Settings::default(),
            ends: Vec::new(),
            free: Vec::new(),
            timers,
            owners,
            wakes,
            notices: VecDeque::new(),
            initial_sequence: Stream::new(scenario.seed, "hosts/iss"),
            now: Nanos::ZERO,
            events: 0,
            instant_events: 0,
            ip_header_bytes: scenario.ip_header_bytes,
            rtts: PacketRtts::default(),
            notes_marks: false,
            couplings: Couplings::new(&scenario.groups),
            starts: Starts::new(scenario),
            machines,
            receiver_machines: scenario.consolidation.receivers.clone(),
            capture: None,
            held: uc_hold_core::Counts::default(),
        })
    }

    /// Has a core decide at the ports of all connections that open from now on.
    pub fn decide_by(&mut self, core: Core) {
        self.core = core;
    }

    /// Sets the settings of ports that are created from now on. A host's port is created with the host's first
    /// connection that has a policy.
    pub fn set_ports(&mut self, settings: Settings) {
        self.port_settings = settings;
    }

    /// Captures packets from now on. Call it before the first packet.
    pub fn start_capture(&mut self, capture: Capture) {
        self.network.show_all();
        self.capture = Some(Box::new(capture));
    }

    /// Ends the capture and returns it, with all packets up to now; `None`: no capture was started.
    pub fn end_capture(&mut self) -> Option<Capture> {
        self.capture.take().map(|capture| *capture)
    }

    /// Returns the time up to which all events have been processed.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Processes events up to and including `limit`. Stops at the first notice for an application and returns it; the
    /// current time is then that of the notice. `None`: no notice came by `limit`.
    ///
    /// # Errors
    /// Events follow one another without time advancing.
    pub fn run(&mut self, limit: Nanos) -> Result<Option<Notice>, SimError> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Some(notice));
        }
        loop {
            let until = self.timers.next_at().min(limit);
            let notice = if let Some(arrival) = self.next_arrival(until) {
                self.advance_to(arrival.at)?;
                self.deliver(arrival)
            } else if let Some((at, timer)) = self.timers.first().filter(|&(at, _)| at <= limit) {
                self.advance_to(at)?;
                self.ring(timer)
            } else {
                self.now = limit;
                return Ok(None);
            };
            if notice.is_some() {
                return Ok(notice);
            }
        }
    }

    /// Returns the next packet that reaches a host up to `until`; `None`: none does.
    #[inline(always)]
    fn next_arrival(&mut self, until: Nanos) -> Option<Arrival> {
        if self.capture.is_some() {
            return self.next_captured(until);
        }
        self.network.next_arrival(until, &mut ())
    }

    /// Returns the next packet that reaches a host up to `until` (`None`: none does), and shows the capture each packet
    /// on the way.
    #[cold]
    #[inline(never)]
    fn next_captured(&mut self, until: Nanos) -> Option<Arrival> {
        let (capture, ends) = (self.capture.as_deref_mut()?, &self.ends);
        let mut watcher = Watcher { capture, ends };
        self.network.next_arrival(until, &mut watcher)
    }

    fn advance_to(&mut self, at: Nanos) -> Result<(), SimError> {
        self.events += 1;
        if at > self.now {
            self.now = at;
            self.instant_events = 0;
            return Ok(());
        }
        self.instant_events += 1;
        if self.instant_events > EVENTS_PER_INSTANT_MAX {
            return Err(SimError::Refused(format!(
                "at {at} more than {EVENTS_PER_INSTANT_MAX} events happened without time \
                 advancing; give links a delay, or applications a gap"
            )));
        }
        Ok(())
    }

    #[inline(always)]
    fn deliver(&mut self, arrival: Arrival) -> Option<Notice> {
        // Copied, because the answer takes the packet's place in the network.
        let mut packet = *self.network.arrived(&arrival)?;
        self.network.release(arrival);
        let place = packet.to.place();
        let end = self.ends.get_mut(place)?;
        if end.route.address != packet.to {
            return None;
        }
        if !end.is_plain() || self.starts.is_used() || self.notes_marks {
            return self.deliver_in_part(place, &mut packet);
        }
        let (network, rtts) = (&mut self.network, &mut self.rtts);
        let couplings = &mut self.couplings;
        end.receive(self.now, &mut packet.segment, network, rtts, couplings);
        let over = settle(&mut self.timers, end)?;
        self.notice(place, over)
    }

    /// Delivers a packet that concerns more than its end: a virtual machine, a coupled group, the control of starts, or
    /// an instrument that needs marks.
    fn deliver_in_part(&mut self, place: usize, packet: &mut Packet) -> Option<Notice> {
        let end = &self.ends[place];
        if self.starts.is_used() {
            if let Some(turn) = packet.turn() {
                self.turn_arrives(packet, turn);
                return None;
            }
            let bytes = uc_net::Packet::size_bytes(packet);
            let start = end.start.as_ref();
            let steady = start.is_none_or(|start| start.is_steady(packet));
            self.starts.heard(end.route.from, bytes, steady, self.now);
        }
        if end.start.is_some() && self.start_hears(place, packet) {
            return None;
        }
        self.pass(place, packet)
    }

    /// Passes a packet to its end, once no start holds it back. Returns a notice for the end's application, if one is
    /// due.
    fn pass(&mut self, place: usize, packet: &mut Packet) -> Option<Notice> {
        if self.ends[place].vm_end.is_some() {
            return self.deliver_to_machine(*packet);
        }
        // Before the port may take the mark off.
        if self.notes_marks && packet.segment.ecn == Ecn::Ce {
            self.note_mark(packet);
        }
        let (network, rtts) = (&mut self.network, &mut self.rtts);
        let couplings = &mut self.couplings;
        self.ends[place].receive(self.now, &mut packet.segment, network, rtts, couplings);
        if self.ends[place].coupled.is_some() {
            self.couple(place);
        }
        if self.ends[place].start.is_some() {
            self.start_sends(place);
        }
        let over = settle(&mut self.timers, &mut self.ends[place])?;
        self.notice(place, over)
    }

    /// Records data that reached a receiver's host with a mark, at the instruments of the data's sender. (The sender
    /// itself learns of marks only from an echo.)
    fn note_mark(&mut self, packet: &Packet) {
        let segment = &packet.segment;
        let peer = self.ends.get_mut(packet.to.peer().place());
        if let Some(instruments) = peer.and_then(|end| end.instruments.as_mut())
            && let Some(exact) = &mut instruments.exact
        {
            exact.marked(segment.seq, segment.payload_bytes);
        }
    }

    /// Handles a timer that fired; its deadline may have moved on since it was armed. Returns a notice for an
    /// application, if one is due.
    fn ring(&mut self, timer: TimerId) -> Option<Notice> {
        let place = match self.owners[timer.index()] {
            TimerOwner::End(place) => place,
            TimerOwner::Flow(flow) => {
                self.timers.set(timer, None);
                return Some(Notice::Wake(flow));
            }
            TimerOwner::Start(place) => {
                self.timers.set(timer, None);
                let notice = self.turn_comes(place);
                self.start_rings(place);
                return notice;
            }
            TimerOwner::Core(core) => return self.turn(core),
            TimerOwner::Migration(number, begins) => return self.migrate(number, timer, begins),
        };
        if let Some(vm_end) = &self.ends[place].vm_end {
            return self.ring_on_machine(place, vm_end.machine);
        }
        let end = &mut self.ends[place];
        let now = self.now;
        if end.connection.deadline().is_some_and(|at| at <= now) {
            end.act(now, &mut self.network, self.rtts.is_on(), |tcp, mut out| {
                tcp.expire(now, &mut out)
            });
            self.couple(place);
            self.start_sends(place);
        }
        self.send_dupacks(place);
        let end = &mut self.ends[place];
        if end.hold.is_some() {
            end.release(now, &mut self.network, &mut self.rtts);
            self.couple(place);
        }
        let end = &mut self.ends[place];
        self.timers.set(timer, end.deadline());
        let over = end.settle()?;
        self.notice(place, over)
    }

    /// Passes the duplicate ACKs that are due now through a port to its guest.
    fn send_dupacks(&mut self, place: usize) {
        let now = self.now;
        let port = self.ends[place].port.as_mut();
        for _ in 0..port.map_or(0, |port| port.take_dupacks(now)) {
            let end = &mut self.ends[place];
            let Some(mut ack) = end.port.as_deref().and_then(Port::dupack) else {
                return;
            };
            let (network, rtts) = (&mut self.network, &mut self.rtts);
            end.receive(now, &mut ack, network, rtts, &mut self.couplings);
            self.couple(place);
            self.start_sends(place);
        }
    }

    /// Returns the notice for a stage that is over; `None`: its application gets none, or gets one when the other side
    /// closes, too.
    fn notice(&mut self, place: usize, over: Stage) -> Option<Notice> {
        let slot = Slot(place as u32 / 2);
        let side = if place.is_multiple_of(2) {
            Side::Guest
        } else {
            Side::Receiver
        };
        match over {
            Stage::Opening => Some(Notice::Established(slot, side)),
            Stage::Reading => Some(Notice::Reached(slot, side)),
            Stage::Silent => None,
            Stage::Closing => {
                let both = [Side::Guest, Side::Receiver].map(|side| &self.ends[slot.end(side)]);
                let is_closed = both.iter().all(|end| end.connection.is_closed());
                is_closed.then_some(Notice::Closed(slot))
            }
        }
    }
}

/// Sets an end's timer after a packet. Returns the end's stage if it is over; otherwise `None`.
#[inline(always)]
fn settle(timers: &mut Timers, end: &mut End) -> Option<Stage> {
    timers.keep(end.timer, end.deadline());
    end.settle()
}

/// Returns the pairs of hosts, sender first, between which a flow's packets go.
fn ways(scenario: &Scenario, flow: &FlowPlan) -> impl Iterator<Item = (HostId, HostId)> {
    let granter = scenario.granter.map(|(host, _)| host);
    let granter = granter.filter(|_| flow.start_policy.is_some());
    let others = flow.receivers.iter().copied().chain(granter);
    others.flat_map(|other| [(flow.guest, other), (other, flow.guest)])
}

/// Checks that a path leads in both directions of every flow.
fn check_routes(scenario: &Scenario, network: &Network<Packet>) -> Result<(), SimError> {
    for flow in &scenario.flows {
        for (from, to) in ways(scenario, flow) {
            match network.path(from, to, || 0) {
                Ok(_) => {}
                Err(uc_net::NetError::NoRoute { from, to }) => {
                    return Err(SimError::NoRoute {
                        flow: flow.name.clone(),
                        from,
                        to,
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
