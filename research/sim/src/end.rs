//! One end of one connection: its TCP, its port, its route, and the event that its application
//! waits for.

use uc_net::{Nanos, Network};
use uc_tcp::{Connection, Outlet, RttSample, Segment};

use crate::coupling::{Coupled, Couplings};
use crate::hold::{Held, Way};
use crate::hypervisor::VmEnd;
use crate::instruments::{Instruments, PacketRtts};
use crate::packet::Packet;
use crate::port::Port;
use crate::route::Route;
use crate::start::StartEnd;
use crate::timers::TimerId;
use crate::wire::{Wire, inject};

/// The event that an end waits for, so that the application need not be called at every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The end waits for the handshake.
    Opening,
    /// The end waits until [`End::watched_bytes`] have been delivered to its application.
    Reading,
    /// The end waits for nothing of its peer.
    Silent,
    /// The end waits until it is closed.
    Closing,
}

/// One end of one connection. Fields that every packet reads are in the first cache lines; fields
/// that few ends need are boxed.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct End {
    /// Addresses and flow number of the end's packets.
    pub route: Route,
    /// Timer of the end's TCP connection and port.
    pub timer: TimerId,
    /// Membership of the end's connection in a coupled group; `None`: the guest does not couple its own connections.
    pub coupled: Option<Box<Coupled>>,
    /// State of the flow's start, if its start law is `watch`; otherwise `None`.
    pub start: Option<Box<StartEnd>>,
    /// State on its virtual machine; `None` on a host with a core of its own.
    pub vm_end: Option<Box<VmEnd>>,
    /// The port with the core, between the end and the network; `None` without one.
    pub port: Option<Box<Port>>,
    /// Measuring instruments of a guest; `None` at receivers.
    pub instruments: Option<Box<Instruments>>,
    /// Packets that the port holds; `None`: nothing is held.
    pub hold: Option<Box<Held>>,
    /// [`Stage::Reading`] ends when this many bytes were delivered; 0 where every packet may end
    /// the stage, and the maximum where none can.
    watched_bytes: u64,
    /// The TCP connection at this end.
    pub connection: Connection,
    /// Membership of the port's flow in a coupled group, at ports with law `coupled` or `share`; otherwise `None`.
    pub shares: Option<Box<Coupled>>,
    stage: Stage,
}

impl End {
    /// Creates an end that has sent nothing and waits for nothing.
    pub fn new(connection: Connection, port: Option<Port>, route: Route, timer: TimerId) -> End {
        End {
            route,
            timer,
            coupled: None,
            start: None,
            vm_end: None,
            port: port.map(Box::new),
            instruments: None,
            hold: None,
            watched_bytes: 0,
            connection,
            shares: None,
            stage: Stage::Opening,
        }
    }

    /// Returns the first time at which the end's TCP, its port's duplicate ACKs, or the packets that its port holds
    /// need the end's timer; `None`: nothing does.
    #[inline(always)]
    pub fn deadline(&self) -> Option<Nanos> {
        let own = self.connection.deadline();
        if self.port.is_none() && self.hold.is_none() {
            return own;
        }
        let dupacks = self.port.as_deref().and_then(Port::dupacks_due);
        let held = self.hold.as_ref().and_then(|hold| hold.due());
        [own, dupacks, held].into_iter().flatten().min()
    }

    /// Returns the counters of the packets that the port has held.
    pub fn held_counts(&self) -> uc_hold_core::Counts {
        let counts = self.hold.as_ref().map(|hold| hold.counts());
        counts.unwrap_or_default()
    }

    /// Returns whether the end is in no coupled group, has no start and is on no VM: its packets concern only the port
    /// and the instruments.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.coupled.is_none() && self.start.is_none() && self.vm_end.is_none()
    }

    /// Waits for another event; `bytes` counts for [`Stage::Reading`] only.
    pub fn wait_for(&mut self, stage: Stage, bytes: u64) {
        self.stage = stage;
        self.watched_bytes = match stage {
            Stage::Reading => bytes,
            Stage::Silent => u64::MAX,
            Stage::Opening | Stage::Closing => 0,
        };
    }

    /// Returns the event that the end waits for.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the stage if it is over, after which the end waits for nothing; `None`: it is not over.
    #[inline(always)]
    pub fn settle(&mut self) -> Option<Stage> {
        if self.connection.totals().delivered_bytes < self.watched_bytes {
            return None;
        }
        self.settle_slowly()
    }

    #[cold]
    fn settle_slowly(&mut self) -> Option<Stage> {
        let is_over = match self.stage {
            Stage::Opening => self.connection.is_established(),
            Stage::Reading => true,
            Stage::Silent => false,
            Stage::Closing => self.connection.is_closed(),
        };
        if !is_over {
            return None;
        }
        let over = self.stage;
        self.wait_for(Stage::Silent, 0);
        Some(over)
    }

    /// Processes an arriving packet. `rtts` records the round-trip time of each packet that the arriving one
    /// acknowledges.
    #[inline(always)]
    pub fn receive(
        &mut self,
        now: Nanos,
        segment: &mut Segment,
        network: &mut Network<Packet>,
        rtts: &mut PacketRtts,
        couplings: &mut Couplings,
    ) {
        if !self.arrive(now, segment, couplings) {
            return;
        }
        if let Some(hold) = &mut self.hold {
            let answers = self.port.as_ref().is_some_and(|port| port.flow().is_some());
            hold.arrived(now, segment, answers);
            self.release(now, network, rtts);
            return;
        }
        self.observe(now, segment, rtts);
        let (connection, mut wire) = self.wire(now, network, rtts.is_on());
        connection.receive(now, segment, &mut wire);
    }

    /// Passes an arriving packet through the port. Returns whether the packet goes on to the guest; false: the port
    /// drops it.
    #[inline(always)]
    pub fn arrive(&mut self, now: Nanos, segment: &mut Segment, couplings: &mut Couplings) -> bool {
        let Some(port) = &mut self.port else {
            return true;
        };
        let shares = &mut self.shares;
        let reason = port.to_guest_of(now, segment, &mut |report| {
            couplings.share(shares.as_mut()?, report, now)
        });
        !reason.drops()
    }

    /// Sends the packets held at the port that are due now, to the guest and to the network.
    pub fn release(&mut self, now: Nanos, network: &mut Network<Packet>, rtts: &mut PacketRtts) {
        while let Some(out) = self.hold.as_mut().and_then(|hold| hold.take(now)) {
            match out {
                Way::ToGuest(segment) => {
                    self.observe(now, &segment, rtts);
                    let (connection, mut wire) = self.wire(now, network, rtts.is_on());
                    connection.receive(now, &segment, &mut wire);
                }
                Way::ToNetwork(segment) => self.retransmit(now, segment, network),
            }
        }
    }

    /// Passes a segment of the guest that the port has stored through the port programs again, and sends it to
    /// the network as a retransmission.
    fn retransmit(&mut self, now: Nanos, mut segment: Segment, network: &mut Network<Packet>) {
        if let Some(port) = &mut self.port
            && port.from_guest(now, &mut segment).drops()
        {
            return;
        }
        inject(now, &self.route, segment, network);
    }

    /// Delivers a packet that has passed the port to the guest; `sample` decides the use of its
    /// round-trip time sample.
    pub fn take(
        &mut self,
        now: Nanos,
        segment: &Segment,
        sample: RttSample,
        network: &mut Network<Packet>,
        rtts: &mut PacketRtts,
    ) {
        self.observe(now, segment, rtts);
        let (connection, mut wire) = self.wire(now, network, rtts.is_on());
        connection.receive_judged(now, segment, sample, &mut wire);
    }

    #[inline]
    fn observe(&mut self, now: Nanos, segment: &Segment, rtts: &mut PacketRtts) {
        if let Some(instruments) = &mut self.instruments {
            let (flow, port) = (self.route.flow, self.port.as_deref());
            instruments.arrived(now, segment, port, |rtt| rtts.record(flow, rtt));
        }
    }

    /// Runs an operation of the connection that may make it send. `is_timed`: whether the
    /// round-trip times of the packets are measured.
    pub fn act(
        &mut self,
        now: Nanos,
        network: &mut Network<Packet>,
        is_timed: bool,
        what: impl FnOnce(&mut Connection, &mut dyn FnMut(Segment)),
    ) {
        let (connection, mut wire) = self.wire(now, network, is_timed);
        what(connection, &mut |segment| wire.send(segment));
    }

    /// Returns the connection and the path of its segments.
    #[inline(always)]
    fn wire<'a>(
        &'a mut self,
        now: Nanos,
        network: &'a mut Network<Packet>,
        is_timed: bool,
    ) -> (&'a mut Connection, Wire<'a>) {
        let wire = Wire {
            now,
            is_timed,
            route: &self.route,
            instruments: self.instruments.as_deref_mut(),
            port: &mut self.port,
            start: &mut self.start,
            hold: &mut self.hold,
            network,
        };
        (&mut self.connection, wire)
    }
}
