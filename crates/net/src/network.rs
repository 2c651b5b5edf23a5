//! The network at work: packets go in at hosts, cross links and come out at hosts.
//!
//! Events happen in the order of (time, sequence), where a packet gets its sequence when it comes
//! to a link. At the same time, arrivals over links come before injections. So the outcome follows
//! from the injections and their times alone; how often [`Network::advance`] is called changes
//! nothing.

use std::collections::{BTreeMap, VecDeque};

use crate::agenda::{Agenda, Key, NEVER, key};
use crate::error::NetError;
use crate::link::Link;
use crate::packet::{Packet, Tagged};
use crate::queue::{DropReason, Verdict};
use crate::routes::Routes;
use crate::stats::{FlowCounts, LinkReport};
use crate::topology::{HostId, LinkId, Topology};
use crate::units::Nanos;

/// Who is told of what happens inside a network; `()` for nobody.
pub trait Observer<P> {
    /// `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

impl<P> Observer<P> for () {}

/// What comes out of a network. Only deliveries must be dealt with.
pub trait Sink<P> {
    /// `packet` reached `host` at `at`.
    fn deliver(&mut self, at: Nanos, host: HostId, packet: P);

    /// `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

/// A sink, as far as it observes.
struct Watching<'a, S>(&'a mut S);

impl<P, S: Sink<P>> Observer<P> for Watching<'_, S> {
    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &P, reason: DropReason) {
        self.0.dropped(at, link, packet, reason);
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &P) {
        self.0.marked(at, link, packet);
    }
}

/// A packet that reached a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// When it did.
    pub at: Nanos,
    /// Which host.
    pub host: HostId,
    /// The packet.
    pub packet: P,
}

/// Where a packet goes, and which of two that are due at one time comes first.
#[derive(Clone, Copy, Debug)]
struct Route {
    sequence: u64,
    to: HostId,
}

/// A packet on its way through the network.
type Envelope<P> = Tagged<Route, P>;

/// A link in its place.
#[derive(Clone, Debug)]
struct Port<P> {
    link: Link<Envelope<P>>,
    /// The node at the far end: a host below the number of hosts, a switch from there on.
    to: usize,
}

impl<P: Packet> Port<P> {
    fn next_key(&self) -> Key {
        match (self.link.next_event(), self.link.head()) {
            (Some(at), Some(envelope)) => key(at, envelope.tag.sequence),
            _ => NEVER,
        }
    }
}

/// A packet that was injected and has not come to its first link yet.
#[derive(Clone, Debug)]
struct Injected<P> {
    at: Nanos,
    link: LinkId,
    to: HostId,
    packet: P,
}

/// A network of hosts, switches and links.
#[derive(Clone, Debug)]
pub struct Network<P> {
    ports: Vec<Port<P>>,
    routes: Routes,
    hosts: usize,
    agenda: Agenda,
    inbox: VecDeque<Injected<P>>,
    clock: Nanos,
    sequence: u64,
    flows: BTreeMap<u32, FlowCounts>,
}

impl<P: Packet> Network<P> {
    /// An empty network at time zero. The same `topology` and `seed` give the same network.
    ///
    /// # Errors
    /// [`NetError::Link`] names the link and the value that can't be used.
    pub fn new(topology: &Topology, seed: u64) -> Result<Network<P>, NetError> {
        let mut ports = Vec::with_capacity(topology.links().len());
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
            routes: Routes::new(topology),
            hosts: topology.host_count(),
            inbox: VecDeque::new(),
            clock: Nanos::ZERO,
            sequence: 0,
            flows: BTreeMap::new(),
        })
    }

    /// Takes a packet from host `from` for host `to` at `now`. Time does not run backwards: a
    /// packet dated before the last injection or [`Network::advance`] is taken at that time.
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
        let Some(link) = self.routes.next(from.0 as usize, to) else {
            return Err(NetError::NoRoute {
                from: from.0,
                to: to.0,
            });
        };
        let at = now.max(self.inbox.back().map_or(self.clock, |last| last.at));
        self.inbox.push_back(Injected {
            at,
            link,
            to,
            packet,
        });
        Ok(())
    }

    /// Takes a copy of a packet for every other host that can be reached, in the order of their
    /// numbers. Every copy crosses the sender's own link, unlike on Ethernet, where the switch
    /// makes them: meant for the few small frames of ARP and neighbour discovery.
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
            if self.routes.next(from.0 as usize, to).is_some() {
                self.inject(now, from, to, packet.clone())?;
            }
        }
        Ok(())
    }

    /// When the network next has something to do; none when it is empty.
    pub fn next_event(&self) -> Option<Nanos> {
        let link = self.agenda.first().map(|(at, _)| at);
        let injected = self.inbox.front().map(|injected| injected.at);
        link.into_iter().chain(injected).min()
    }

    /// Lets everything happen that happens up to and including `now`.
    pub fn advance(&mut self, now: Nanos, sink: &mut impl Sink<P>) {
        while let Some(Delivery { at, host, packet }) =
            self.next_delivery(now, &mut Watching(&mut *sink))
        {
            sink.deliver(at, host, packet);
        }
    }

    /// Lets things happen up to the next delivery at or before `limit`, and stops there: the clock
    /// then says when it was, and what is injected now goes its way before anything later happens.
    /// None if no packet reaches a host by `limit`; the clock then says `limit`.
    pub fn next_delivery(
        &mut self,
        limit: Nanos,
        observer: &mut impl Observer<P>,
    ) -> Option<Delivery<P>> {
        loop {
            let injected = self
                .inbox
                .front()
                .map_or(Nanos::MAX, |injected| injected.at);
            match self.agenda.first() {
                Some((at, link)) if at <= injected && at <= limit => {
                    if let Some(delivery) = self.arrive(at, link, observer) {
                        self.clock = self.clock.max(delivery.at);
                        return Some(delivery);
                    }
                }
                _ if injected <= limit => {
                    let Some(Injected {
                        at,
                        link,
                        to,
                        packet,
                    }) = self.inbox.pop_front()
                    else {
                        break;
                    };
                    self.offer(at, link, to, packet, observer);
                }
                _ => break,
            }
        }
        self.clock = self.clock.max(limit);
        None
    }

    /// The time up to which the network has advanced.
    pub fn clock(&self) -> Nanos {
        self.clock
    }

    /// A link's totals and queue at [`Network::clock`]; none for a link of another topology.
    pub fn link(&mut self, link: LinkId) -> Option<LinkReport> {
        let report = self.ports.get_mut(link.0 as usize)?.link.report(self.clock);
        self.schedule(link);
        Some(report)
    }

    /// Drops and marks by flow; a flow that suffered neither is absent.
    pub fn flows(&self) -> &BTreeMap<u32, FlowCounts> {
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

    /// A link's event: it may hand a packet to the node at its far end.
    fn arrive(
        &mut self,
        at: Nanos,
        link: u32,
        observer: &mut impl Observer<P>,
    ) -> Option<Delivery<P>> {
        let port = &mut self.ports[link as usize];
        let arrived = port.link.receive(at);
        self.agenda.set(link, port.next_key());
        let node = port.to;
        let (at, Envelope { tag, packet }) = arrived?;
        if node < self.hosts {
            let host = HostId(node as u32);
            return Some(Delivery { at, host, packet });
        }
        if let Some(link) = self.routes.next(node, tag.to) {
            self.offer(at, link, tag.to, packet, observer);
        }
        None
    }

    fn offer(
        &mut self,
        at: Nanos,
        link: LinkId,
        to: HostId,
        packet: P,
        observer: &mut impl Observer<P>,
    ) {
        let flows = &mut self.flows;
        let mut saw = |verdict: Verdict, envelope: &Envelope<P>| match verdict {
            Verdict::Queued => {}
            Verdict::Marked => {
                flows.entry(envelope.flow()).or_default().marked_packets += 1;
                observer.marked(at, link, &envelope.packet);
            }
            Verdict::Dropped(reason) => {
                flows.entry(envelope.flow()).or_default().dropped_packets += 1;
                observer.dropped(at, link, &envelope.packet, reason);
            }
        };
        let tag = Route {
            sequence: self.sequence,
            to,
        };
        let envelope = Envelope { tag, packet };
        self.sequence += 1;
        self.ports[link.0 as usize]
            .link
            .offer(at, envelope, &mut saw);
        self.schedule(link);
    }

    fn schedule(&mut self, link: LinkId) {
        self.agenda
            .set(link.0, self.ports[link.0 as usize].next_key());
    }
}
