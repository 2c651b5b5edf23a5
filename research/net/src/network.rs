//! A running network: hosts inject packets, links carry them, hosts receive them.
//!
//! Events happen in the order of (time, sequence); a packet gets its sequence when it comes to a link. At the same
//! time, arrivals over links come before injections. So the outcome depends on the injections and their times alone,
//! not on how often [`Network::advance`] is called.

mod ahead;
mod injection;
mod offer;

use std::collections::VecDeque;

use uc_words::{BitsPerSec, Nanos};

use crate::arrival_queue::ArrivalQueue;
use crate::error::NetError;
use crate::link_model::LinkModel;
use crate::packet::Packet;
use crate::packet_store::PacketStore;
use crate::routes::Routes;
use crate::sink::{Arrival, Delivery, Observer, Sink, Watching};
use crate::stats::{FlowTable, LinkReport};
use crate::topology::{HostId, LinkId, Topology};

/// Maximum number of links: a link's number has 20 bits.
const LINKS_MAX: usize = 1 << 20;

/// A packet that was injected and has not reached its first link yet.
#[derive(Clone, Debug)]
struct Injected {
    at: Nanos,
    link: LinkId,
    packet: u32,
}

/// A network of hosts, switches and links.
#[derive(Clone, Debug)]
pub struct Network<P> {
    links: Vec<LinkModel>,
    /// Index of the node at the far end of each link: hosts first, then switches.
    ends: Vec<usize>,
    packets: PacketStore<P>,
    routes: Routes,
    hosts: usize,
    arrivals: ArrivalQueue,
    inbox: VecDeque<Injected>,
    clock: Nanos,
    sequence: u64,
    flows: FlowTable,
    /// For each host, the link to it that takes packets early and that link's only source (module `ahead`), or
    /// `NO_LINK` twice; empty if no link takes packets early.
    early: Vec<(LinkId, LinkId)>,
    /// Mask: all bits are set if a link takes packets early, otherwise 0.
    ahead: u64,
    /// Whether each link shows the observer all packets ([`Network::show_all`]).
    shows_all: bool,
}

impl<P: Packet> Network<P> {
    /// Creates an empty network at time zero. The same `topology` and `seed` give the same network.
    ///
    /// # Errors
    /// [`NetError::Link`] names the link and the value that can't be used.
    pub fn new(topology: &Topology, seed: u64) -> Result<Network<P>, NetError> {
        let count = topology.links().len();
        if count > LINKS_MAX {
            return Err(NetError::TooManyLinks { links: count });
        }
        let mut links = Vec::with_capacity(count);
        let ends = topology.links().iter().map(|plan| topology.index(plan.to));
        for plan in topology.links() {
            let model =
                LinkModel::new(&plan.spec, seed, &plan.name).map_err(|problem| NetError::Link {
                    link: plan.name.clone(),
                    problem,
                })?;
            links.push(model);
        }
        let rates = topology.links().iter().map(|plan| plan.spec.rate);
        let fastest = rates.max().unwrap_or(BitsPerSec(0));
        Ok(Network {
            links,
            ends: ends.collect(),
            packets: PacketStore::new(),
            routes: Routes::new(topology, seed),
            hosts: topology.host_count(),
            arrivals: ArrivalQueue::new(fastest),
            inbox: VecDeque::new(),
            clock: Nanos::ZERO,
            sequence: 0,
            flows: FlowTable::default(),
            early: Vec::new(),
            ahead: 0,
            shows_all: false,
        })
    }

    /// Returns the time of the next event; `None` when the network is empty.
    pub fn next_event(&self) -> Option<Nanos> {
        let injected = self.inbox.front().map(|injected| injected.at);
        self.arrivals.first_at().into_iter().chain(injected).min()
    }

    /// Processes every event up to and including `now`.
    pub fn advance(&mut self, now: Nanos, sink: &mut impl Sink<P>) {
        while let Some(Delivery { at, host, packet }) =
            self.next_delivery(now, &mut Watching(&mut *sink))
        {
            sink.deliver(at, host, packet);
        }
    }

    /// Processes events up to the next delivery at or before `limit`, and stops there.
    /// [`Network::clock`] is then the time of the delivery, and packets injected now precede any
    /// later event. Returns `None` if no packet reaches a host by `limit`; the clock is then
    /// `limit`.
    pub fn next_delivery(
        &mut self,
        limit: Nanos,
        observer: &mut impl Observer<P>,
    ) -> Option<Delivery<P>> {
        let Arrival { at, host, number } = self.next_arrival(limit, observer)?;
        let packet = self.packets.withdraw(number)?;
        Some(Delivery { at, host, packet })
    }

    /// Does what [`Network::next_delivery`] does, but leaves the packet in the network's memory, so that a caller can
    /// copy only what it needs. The caller must [`Network::release`] it.
    #[inline]
    pub fn next_arrival(
        &mut self,
        limit: Nanos,
        observer: &mut impl Observer<P>,
    ) -> Option<Arrival> {
        loop {
            let injected = self.inbox.front().map_or(Nanos::MAX, |next| next.at);
            let (at, link, packet) = if let Some(at) = self.arrivals.due(injected.min(limit)) {
                let packet = self.arrivals.remove_first(&mut self.packets);
                let label = self.packets.label(packet);
                let end = self.ends[label.link as usize];
                if end < self.hosts {
                    self.clock = self.clock.max(at);
                    let host = HostId(end as u32);
                    let number = packet;
                    return Some(Arrival { at, host, number });
                }
                let path_key = || self.packets.get(packet).map_or(0, P::path_key);
                let Some(link) = self.routes.next(end, label.to, path_key) else {
                    continue;
                };
                if label.is_refused() {
                    self.lose(at, link, packet, observer);
                    continue;
                }
                (at, link, packet)
            } else {
                match self.inbox.pop_front_if(|next| next.at <= limit) {
                    Some(Injected { at, link, packet }) => (at, link, packet),
                    None => break,
                }
            };
            self.offer(at, link, packet, observer);
        }
        self.clock = self.clock.max(limit);
        None
    }

    /// Returns a packet that has arrived; `None` if its memory has been freed.
    #[inline]
    pub fn arrived(&self, arrival: &Arrival) -> Option<&P> {
        self.packets.get(arrival.number)
    }

    /// Frees the memory of a packet that has arrived.
    #[inline]
    pub fn release(&mut self, arrival: Arrival) {
        self.packets.discard(arrival.number);
    }

    /// Returns the time up to which the network has advanced.
    pub fn clock(&self) -> Nanos {
        self.clock
    }

    /// Returns a link's totals and queue at [`Network::clock`]; `None` for a link of another
    /// topology.
    pub fn link(&mut self, link: LinkId) -> Option<LinkReport> {
        let model = self.links.get_mut(link.0 as usize)?;
        let mut report = model.report(self.clock);
        self.take_back(link, &mut report);
        Some(report)
    }

    /// Returns drops and marks by flow; a flow without either is absent.
    pub fn flows(&self) -> &FlowTable {
        &self.flows
    }
}
