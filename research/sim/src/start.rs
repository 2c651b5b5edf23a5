//! HWatch's start at one end of a connection: what its host does before a packet enters the network
//! and with one that comes out of it. The decisions are `core/watch.h`'s; here is what a home does
//! around them: probes and packets that wait for their moment.
//!
//! The guest sends the data, so its host probes; the receiver's host counts and sets the windows.
//! Either of them may have opened the connection.

mod known;
mod policy;
mod probing;

use std::collections::VecDeque;

use uc_core::consts::FROM_GUEST;
use uc_core::watch::{Bucket, Start, StartPolicy};
use uc_net::{HostId, Nanos};
use uc_tcp::{Segment, flags};

use crate::packet::{Packet, Probe};
use crate::port::parse;
use crate::timers::TimerId;

pub use known::{StartCounts, Starts};
pub use policy::start_policy;
use probing::Probing;

/// Between which hosts, seen from the end's own.
pub type Ends = (HostId, HostId);

/// One end's part.
#[derive(Clone, Debug)]
pub struct StartEnd {
    policy: StartPolicy,
    /// Rings when something that is held has its moment.
    pub timer: TimerId,
    role: Role,
    /// What its TCP has just sent.
    pub sent: Vec<Segment>,
    held: VecDeque<Segment>,
    /// When the first of what is held leaves; all of it follows.
    release: Nanos,
}

#[derive(Clone, Debug)]
enum Role {
    Sending(Probing),
    Receiving(Start),
}

/// What the end sends now.
#[derive(Debug, PartialEq, Eq)]
pub enum Leaving {
    /// A segment of its TCP.
    Segment(Segment),
    /// A probe.
    Probe(Probe),
}

impl StartEnd {
    /// The part of the guest's host.
    pub fn sending(policy: StartPolicy, timer: TimerId) -> StartEnd {
        StartEnd::new(policy, timer, Role::Sending(Probing::default()))
    }

    /// That of the receiver's.
    pub fn receiving(policy: StartPolicy, timer: TimerId) -> StartEnd {
        StartEnd::new(policy, timer, Role::Receiving(Start::default()))
    }

    fn new(policy: StartPolicy, timer: TimerId, role: Role) -> StartEnd {
        StartEnd {
            policy,
            timer,
            role,
            sent: Vec::new(),
            held: VecDeque::new(),
            release: Nanos::ZERO,
        }
    }

    /// A packet out of the network, before the port sees it. True: it was for the host alone.
    pub fn arrives(&mut self, now: Nanos, ends: Ends, packet: &Packet, hosts: &mut Starts) -> bool {
        let segment = &packet.segment;
        match (&mut self.role, packet.probe()) {
            (Role::Receiving(start), Some(Probe { index, of, sent_ns })) => {
                hosts.counts.arrived += 1;
                hosts.counts.marked += u64::from(segment.ecn == uc_net::Ecn::Ce);
                let ecn = start.timed(&self.policy, segment.ecn.bits(), sent_ns, now.0);
                hosts.counts.late += u64::from(ecn != segment.ecn.bits());
                start.probe(index, of, ecn);
                true
            }
            (Role::Sending(_), Some(_)) => true,
            (Role::Receiving(start), None) => {
                start.arrives(&parse(segment, uc_core::consts::TO_GUEST));
                false
            }
            (Role::Sending(probing), None) => {
                let path = hosts.paths.entry(ends).or_default();
                probing.hears(now, &self.policy, segment, path);
                false
            }
        }
    }

    /// What the TCP has sent goes on: out into the network, or it waits here.
    pub fn departs(
        &mut self,
        now: Nanos,
        ends: Ends,
        hosts: &mut Starts,
        out: &mut impl FnMut(Leaving),
    ) {
        for mut segment in std::mem::take(&mut self.sent) {
            let wait_ns = match &mut self.role {
                Role::Sending(probing) => probing.asks(now, &self.policy, &segment, ends, hosts),
                Role::Receiving(start) => {
                    gives(now, start, &self.policy, &mut segment, ends, hosts)
                }
            };
            if self.held.is_empty() && wait_ns > 0 {
                self.release = now + Nanos(wait_ns);
            }
            if self.held.is_empty() && wait_ns == 0 {
                out(Leaving::Segment(segment));
            } else if !(segment.has(flags::SYN) && self.holds_syn()) {
                // A copy of a SYN that waits says nothing that the SYN itself doesn't.
                self.held.push_back(segment);
            }
        }
    }

    fn holds_syn(&self) -> bool {
        self.held.iter().any(|segment| segment.has(flags::SYN))
    }

    /// Whether a packet out of the network belongs to what follows the flow's first window, or to a
    /// flow whose windows are not set here.
    pub fn is_steady(&self, packet: &Packet) -> bool {
        match &self.role {
            Role::Sending(_) => true,
            Role::Receiving(start) => {
                packet.probe().is_none()
                    && start.is_steady(&parse(&packet.segment, uc_core::consts::TO_GUEST))
            }
        }
    }

    /// When something that is held has its moment; none if nothing is.
    pub fn due(&self) -> Option<Nanos> {
        if self.held.is_empty() {
            return None;
        }
        let probe = match &self.role {
            Role::Sending(probing) => probing.next_probe(),
            Role::Receiving(_) => None,
        };
        Some(probe.unwrap_or(self.release).min(self.release))
    }

    /// The moment has come: everything leaves whose time it is.
    pub fn ring(&mut self, now: Nanos, hosts: &mut Starts, out: &mut impl FnMut(Leaving)) {
        if self.held.is_empty() {
            return;
        }
        if let Role::Sending(probing) = &mut self.role {
            while probing.next_probe().is_some_and(|at| at <= now) {
                hosts.counts.probes += 1;
                out(Leaving::Probe(Probe {
                    index: probing.next as u8,
                    of: probing.probes as u8,
                    sent_ns: now.0 as u32,
                }));
                probing.next += 1;
            }
        }
        if self.release <= now {
            self.held
                .drain(..)
                .for_each(|segment| out(Leaving::Segment(segment)));
        }
    }
}

/// A segment of the receiver, on its way to the guest: its window, and how long it waits.
fn gives(
    now: Nanos,
    start: &mut Start,
    policy: &StartPolicy,
    segment: &mut Segment,
    ends: Ends,
    hosts: &mut Starts,
) -> u64 {
    let path = hosts.paths.entry(ends).or_default();
    let (bucket, _) = hosts
        .links
        .entry(ends.0)
        .or_insert((Bucket::default(), *policy));
    let parsed = parse(segment, FROM_GUEST);
    let random = hosts.random.bits32();
    let answer = start.leaves(policy, (path, bucket), &parsed, now.0, random);
    segment.window = answer.window;
    bucket.settle(policy, answer.settle_bytes);
    let wait_ns = bucket.wait_ns(policy, answer.grant_bytes, now.0);
    hosts.counts.waited += u64::from(wait_ns > 0);
    hosts.counts.waited_ns += wait_ns;
    wait_ns
}
