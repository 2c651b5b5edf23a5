//! One end of one connection in its place: what it sends to whom, and what is waited for.

use uc_net::{HostId, Nanos, Network};
use uc_tcp::{Connection, Segment, flags};

use crate::packet::{Address, Packet};
use crate::port::Port;
use crate::timers::TimerId;

/// The width of a bin, and how many there are; the last one takes all longer gaps, too.
const ACK_GAP_BIN_NS: u64 = 100_000_000;
const ACK_GAP_BINS: usize = 64;

/// Gaps between ACKs that reached a sender.
#[derive(Clone, Debug)]
pub struct AckGaps {
    last: Option<Nanos>,
    bins: [u32; ACK_GAP_BINS],
}

impl Default for AckGaps {
    fn default() -> AckGaps {
        AckGaps {
            last: None,
            bins: [0; ACK_GAP_BINS],
        }
    }
}

impl AckGaps {
    #[inline]
    fn acknowledged(&mut self, now: Nanos) {
        let last = self.last.replace(now);
        if let Some(last) = last {
            let gap_ns = now.since(last).0;
            let bin = (gap_ns / ACK_GAP_BIN_NS).min(ACK_GAP_BINS as u64 - 1);
            self.bins[bin as usize] += 1;
        }
    }

    /// How many gaps were of [100·i, 100·(i + 1)) ms.
    pub fn bins(&self) -> &[u32] {
        &self.bins
    }
}

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
    /// ACKs that reached it; kept at guests.
    pub gaps: Option<Box<AckGaps>>,
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
            gaps: None,
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

    /// A packet arrives.
    #[inline]
    pub fn receive(&mut self, now: Nanos, mut segment: Segment, network: &mut Network<Packet>) {
        if let Some(port) = &mut self.port {
            port.to_guest(now, &mut segment);
        }
        if let Some(gaps) = &mut self.gaps
            && segment.has(flags::ACK)
        {
            gaps.acknowledged(now);
        }
        let mut out = wire(now, self.route, &mut self.port, network);
        self.connection.receive(now, &segment, &mut out);
    }

    /// Lets the connection do something that may make it send.
    pub fn act(
        &mut self,
        now: Nanos,
        network: &mut Network<Packet>,
        what: impl FnOnce(&mut Connection, &mut dyn FnMut(Segment)),
    ) {
        let mut out = wire(now, self.route, &mut self.port, network);
        what(&mut self.connection, &mut out);
    }
}

/// Where an end's segments go: through its port, and into the network.
#[inline]
fn wire<'a>(
    now: Nanos,
    route: Route,
    port: &'a mut Option<Port>,
    network: &'a mut Network<Packet>,
) -> impl FnMut(Segment) + 'a {
    move |mut segment| {
        if let Some(port) = port {
            port.from_guest(now, &mut segment);
        }
        let peer = route.address.peer();
        let packet = Packet::new(segment, route.ip_header_bytes, peer, route.flow);
        let taken = network.inject(now, route.from, route.to, packet);
        // Both ways of every flow were tried before time began.
        debug_assert!(taken.is_ok(), "{taken:?}");
    }
}
