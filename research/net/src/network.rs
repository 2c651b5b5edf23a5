//! A running network: hosts inject packets, links carry them, hosts receive them.
//!
//! Events happen in the order of (time, sequence), where a packet gets its sequence when it comes
//! to a link. At the same time, arrivals over links come before injections. So the outcome follows
//! from the injections and their times alone; how often [`Network::advance`] is called changes
//! nothing.

use std::collections::VecDeque;

use uc_words::Nanos;

use crate::agenda::{self, Agenda, Key, LINKS_MAX, NEVER};
use crate::depot::{Depot, Slip};
use crate::error::NetError;
use crate::fault::Fault;
use crate::link::Link;
use crate::packet::Packet;
use crate::queue::{DropReason, Verdict};
use crate::routes::Routes;
use crate::sink::{Delivery, Observer, Sink, Watching};
use crate::stats::{FlowTable, LinkReport};
use crate::topology::{HostId, LinkId, Topology};

/// A link and the node at its far end.
#[derive(Clone, Debug)]
struct Port {
    link: Link<Slip>,
    /// Index of the node at the far end: hosts first, then switches.
    to: usize,
}

impl Port {
    #[inline]
    fn next_key(&self, link: u32) -> Key {
        match (self.link.next_event(), self.link.head()) {
            (Some(at), Some(slip)) => agenda::key(at, slip.sequence, link),
            _ => NEVER,
        }
    }
}

/// A packet that was injected and has not reached its first link yet.
#[derive(Clone, Debug)]
struct Injected {
    at: Nanos,
    link: LinkId,
    slip: Slip,
}

/// A network of hosts, switches and links.
#[derive(Clone, Debug)]
pub struct Network<P> {
    ports: Vec<Port>,
    depot: Depot<P>,
    routes: Routes,
    hosts: usize,
    agenda: Agenda,
    inbox: VecDeque<Injected>,
    clock: Nanos,
    sequence: u64,
    flows: FlowTable,
}

impl<P: Packet> Network<P> {
    /// Creates an empty network at time zero. The same `topology` and `seed` give the same network.
    ///
    /// # Errors
    /// [`NetError::Link`] names the link and the value that can't be used.
    pub fn new(topology: &Topology, seed: u64) -> Result<Network<P>, NetError> {
        let links = topology.links().len();
        if links > LINKS_MAX {
            return Err(NetError::TooManyLinks { links });
        }
        let mut ports = Vec::with_capacity(links);
        for plan in topology.links() {
            let link =
                Link::new(&plan.spec, seed, &plan.name).map_err(|problem| NetError::Link {
                    link: plan.name.clone(),
                    problem,
                })?;
            ports.push(Port {
                link,
                to: topology.index(plan.to),
            });
        }
        Ok(Network {
            agenda: Agenda::new(ports.len()),
            ports,
            depot: Depot::new(),
            routes: Routes::new(topology, seed),
            hosts: topology.host_count(),
            inbox: VecDeque::new(),
            clock: Nanos::ZERO,
            sequence: 0,
            flows: FlowTable::default(),
        })
    }

    /// Injects a packet from host `from` to host `to` at `now`. Time does not run backwards: a
    /// packet dated before the last injection or [`Network::advance`] is injected at that time.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`], or [`NetError::NoRoute`] (also from a host to itself).
    pub fn inject(
        &mut self,
        now: Nanos,
        from: HostId,
        to: HostId,
        packet: P,
    ) -> Result<(), NetError> {
        self.check_host(from)?;
        self.check_host(to)?;
        let Some(link) = self.routes.next(from.0 as usize, to, || packet.path_key()) else {
            return Err(NetError::NoRoute {
                from: from.0,
                to: to.0,
            });
        };
        let at = now.max(self.inbox.back().map_or(self.clock, |last| last.at));
        let slip = self.depot.store(packet, to);
        self.inbox.push_back(Injected { at, link, slip });
        Ok(())
    }

    /// Injects a copy of a packet for every other host that can be reached, in the order of their
    /// numbers. Every copy crosses the sender's own link, unlike on Ethernet, where the switch
    /// copies: meant for the few small frames of ARP and neighbour discovery.
    ///
    /// # Errors
    /// [`NetError::UnknownNode`].
    pub fn inject_broadcast(
        &mut self,
        now: Nanos,
        from: HostId,
        packet: &P,
    ) -> Result<(), NetError> {
        self.check_host(from)?;
        for to in (0..self.hosts as u32).map(HostId) {
            if self.routes.reach(from.0 as usize, to) {
                self.inject(now, from, to, packet.clone())?;
            }
        }
        Ok(())
    }

    /// Returns the time of the next event; `None` when the network is empty.
    pub fn next_event(&self) -> Option<Nanos> {
        let first = self.agenda.first();
        let arrival = (first != NEVER).then(|| agenda::time(first));
        let injected = self.inbox.front().map(|injected| injected.at);
        arrival.into_iter().chain(injected).min()
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
        loop {
            let first = self.agenda.first();
            let due = agenda::time(first);
            let injected = self.inbox.front().map_or(Nanos::MAX, |next| next.at);
            let (at, link, slip) = if first != NEVER && due <= injected.min(limit) {
                let Some((at, node, slip)) = self.arrive(due, agenda::link(first)) else {
                    continue;
                };
                if node < self.hosts {
                    self.clock = self.clock.max(at);
                    let host = HostId(node as u32);
                    let packet = self.depot.withdraw(&slip)?;
                    return Some(Delivery { at, host, packet });
                }
                let path_key = || self.depot.get(&slip).map_or(0, P::path_key);
                let Some(link) = self.routes.next(node, slip.to, path_key) else {
                    continue;
                };
                (at, link, slip)
            } else {
                match self.inbox.pop_front_if(|next| next.at <= limit) {
                    Some(Injected { at, link, slip }) => (at, link, slip),
                    None => break,
                }
            };
            self.offer(at, link, slip, observer);
        }
        self.clock = self.clock.max(limit);
        None
    }

    /// Returns the time up to which the network has advanced.
    pub fn clock(&self) -> Nanos {
        self.clock
    }

    /// Returns a link's totals and queue at [`Network::clock`]; `None` for a link of another
    /// topology.
    pub fn link(&mut self, link: LinkId) -> Option<LinkReport> {
        let report = self.ports.get_mut(link.0 as usize)?.link.report(self.clock);
        self.schedule(link);
        Some(report)
    }

    /// Returns drops and marks by flow; a flow without either is absent.
    pub fn flows(&self) -> &FlowTable {
        &self.flows
    }

    fn check_host(&self, host: HostId) -> Result<(), NetError> {
        if (host.0 as usize) < self.hosts {
            return Ok(());
        }
        Err(NetError::UnknownNode {
            node: format!("host {}", host.0),
        })
    }

    /// Processes a link's event, which may deliver a packet to the node at its far end.
    #[inline]
    fn arrive(&mut self, due: Nanos, link: u32) -> Option<(Nanos, usize, Slip)> {
        let port = &mut self.ports[link as usize];
        let arrived = port.link.receive(due);
        self.agenda.set(link, port.next_key(link));
        let (at, slip) = arrived?;
        Some((at, port.to, slip))
    }

    /// Offers a packet to a link.
    #[inline]
    fn offer(&mut self, at: Nanos, link: LinkId, slip: Slip, observer: &mut impl Observer<P>) {
        let port = &mut self.ports[link.0 as usize];
        let is_steady = port.link.is_steady();
        match port.link.strike(&slip) {
            None => self.enqueue(at, link, slip, Nanos::ZERO, observer),
            Some(fault) => self.suffer(at, link, slip, fault, observer),
        }
        if !is_steady {
            self.schedule(link);
        }
    }

    #[cold]
    fn suffer(
        &mut self,
        at: Nanos,
        link: LinkId,
        slip: Slip,
        fault: Fault,
        observer: &mut impl Observer<P>,
    ) {
        let hold = match fault {
            Fault::Loss => return self.drop(at, link, slip, DropReason::Fault, observer),
            Fault::Reorder { hold } => hold,
            Fault::Duplicate => {
                if let Some(copy) = self.depot.duplicate(slip) {
                    self.enqueue(at, link, copy, Nanos::ZERO, observer);
                }
                Nanos::ZERO
            }
        };
        self.enqueue(at, link, slip, hold, observer);
    }

    // Always inlined, since passing a slip through memory costs more than this function does.
    #[inline(always)]
    fn enqueue(
        &mut self,
        at: Nanos,
        link: LinkId,
        mut slip: Slip,
        hold: Nanos,
        observer: &mut impl Observer<P>,
    ) {
        slip.sequence = self.sequence;
        self.sequence += 1;
        let on = &mut self.ports[link.0 as usize].link;
        match on.judge(at, &mut slip) {
            Verdict::Queued => {}
            Verdict::Marked => {
                self.flows.of(slip.flow()).marked_packets += 1;
                if let Some(packet) = self.depot.mark(&slip) {
                    observer.marked(at, link, packet);
                }
            }
            Verdict::Dropped(reason) => return self.drop(at, link, slip, reason, observer),
        }
        on.accept(at, slip, hold);
    }

    #[cold]
    fn drop(
        &mut self,
        at: Nanos,
        link: LinkId,
        slip: Slip,
        reason: DropReason,
        observer: &mut impl Observer<P>,
    ) {
        self.flows.of(slip.flow()).dropped_packets += 1;
        if let Some(packet) = self.depot.withdraw(&slip) {
            observer.dropped(at, link, &packet, reason);
        }
    }

    #[inline]
    fn schedule(&mut self, link: LinkId) {
        self.agenda
            .set(link.0, self.ports[link.0 as usize].next_key(link.0));
    }
}
