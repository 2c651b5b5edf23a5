//! One end of one connection in its place: what it sends to whom, and what is waited for.

use uc_net::{HostId, Nanos, Network};
use uc_tcp::{Connection, RttSample, Segment};

use crate::coupling::{Coupled, Couplings};
use crate::hypervisor::Resident;
use crate::instruments::{Instruments, PacketRtts};
use crate::packet::{Address, Packet};
use crate::port::Port;
use crate::start::StartEnd;
use crate::timers::TimerId;

/// What an end waits for, so that its application need not be asked at every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The handshake.
    Opening,
    /// Bytes for its application; all of [`End::watched_bytes`].
    Reading,
    /// Nothing.
    Silent,
    /// The other end's last words.
    Closing,
}

/// Where an end's packets go, and under what name.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The host that it is on.
    pub from: HostId,
    /// The host of its peer.
    pub to: HostId,
    /// Its own address.
    pub address: Address,
    /// The flow of the record.
    pub flow: u32,
    /// The IP header of its packets.
    pub ip_header_bytes: u32,
}

/// One end of one connection.
#[derive(Clone, Debug)]
pub struct End {
    /// The TCP.
    pub connection: Connection,
    /// The core between it and the network.
    pub port: Option<Port>,
    /// Where it sends.
    pub route: Route,
    /// Its one timer.
    pub timer: TimerId,
    /// Its place among those with which it shares a window; at guests that do.
    pub coupled: Option<Box<Coupled>>,
    /// The same of its port's flow; at ports with law `coupled`.
    pub shares: Option<Box<Coupled>>,
    /// Its part in how the flow starts, where that is `watch`.
    pub start: Option<Box<StartEnd>>,
    /// Its part in a virtual machine; none on a host with a core of its own.
    pub resident: Option<Box<Resident>>,
    /// What is measured; at guests.
    pub instruments: Option<Box<Instruments>>,
    stage: Stage,
    /// [`Stage::Reading`] ends when so much was delivered; 0 where every packet may end the stage,
    /// and the largest number where none can.
    watched_bytes: u64,
}

impl End {
    /// An end that has not said anything.
    pub fn new(connection: Connection, port: Option<Port>, route: Route, timer: TimerId) -> End {
        End {
            connection,
            port,
            route,
            timer,
            coupled: None,
            shares: None,
            start: None,
            resident: None,
            instruments: None,
            stage: Stage::Opening,
            watched_bytes: 0,
        }
    }

    /// Waits for something else.
    pub fn wait_for(&mut self, stage: Stage, bytes: u64) {
        self.stage = stage;
        self.watched_bytes = match stage {
            Stage::Reading => bytes,
            Stage::Silent => u64::MAX,
            Stage::Opening | Stage::Closing => 0,
        };
    }

    /// What it waits for.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The stage that is over, if it is; the end then waits for nothing.
    #[inline]
    pub fn settle(&mut self) -> Option<Stage> {
        if self.connection.totals().delivered_bytes < self.watched_bytes {
            return None;
        }
        self.settle_slowly()
    }

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

    /// A packet arrives. `rtts` is told how long each packet took that it acknowledges.
    #[inline]
    pub fn receive(
        &mut self,
        now: Nanos,
        mut segment: Segment,
        network: &mut Network<Packet>,
        rtts: &mut PacketRtts,
        couplings: &mut Couplings,
    ) {
        if !self.arrive(now, &mut segment, couplings) {
            return;
        }
        self.observe(now, &segment, rtts);
        let (connection, mut out) = self.wire(now, network, rtts.is_on());
        connection.receive(now, &segment, &mut out);
    }

    /// A packet arrives at its port. Whether it goes on to the guest.
    #[inline]
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

    /// The guest takes a packet that has passed the port; the round-trip time that it may show
    /// counts as `sample` says.
    pub fn take(
        &mut self,
        now: Nanos,
        segment: &Segment,
        sample: RttSample,
        network: &mut Network<Packet>,
        rtts: &mut PacketRtts,
    ) {
        self.observe(now, segment, rtts);
        let (connection, mut out) = self.wire(now, network, rtts.is_on());
        connection.receive_judged(now, segment, sample, &mut out);
    }

    #[inline]
    fn observe(&mut self, now: Nanos, segment: &Segment, rtts: &mut PacketRtts) {
        if let Some(instruments) = &mut self.instruments {
            let (flow, port) = (self.route.flow, self.port.as_ref());
            instruments.arrived(now, segment, port, |rtt| rtts.record(flow, rtt));
        }
    }

    /// Lets the connection do something that may make it send. `is_timed`: whether the packets'
    /// round-trip times are wanted.
    pub fn act(
        &mut self,
        now: Nanos,
        network: &mut Network<Packet>,
        is_timed: bool,
        what: impl FnOnce(&mut Connection, &mut dyn FnMut(Segment)),
    ) {
        let (connection, mut out) = self.wire(now, network, is_timed);
        what(connection, &mut out);
    }

    /// The connection, and where its segments go: through the port, past the instruments and into
    /// the network.
    #[inline]
    fn wire<'a>(
        &'a mut self,
        now: Nanos,
        network: &'a mut Network<Packet>,
        is_timed: bool,
    ) -> (&'a mut Connection, impl FnMut(Segment) + 'a) {
        let (route, port, instruments) = (self.route, &mut self.port, &mut self.instruments);
        let start = &mut self.start;
        let out = move |mut segment: Segment| {
            // What a guard drops never was on the network.
            if let Some(port) = port
                && port.from_guest(now, &mut segment).drops()
            {
                return;
            }
            if let Some(instruments) = instruments {
                instruments.leaves(now, &segment, is_timed);
            }
            if let Some(start) = start {
                start.sent.push(segment);
                return;
            }
            let peer = route.address.peer();
            let packet = Packet::new(segment, route.ip_header_bytes, peer, route.flow);
            let taken = network.inject(now, route.from, route.to, packet);
            // Both ways of every flow were tried before time began.
            debug_assert!(taken.is_ok(), "{taken:?}");
        };
        (&mut self.connection, out)
    }
}
