//! HWatch's start at one end of a connection: its host's handling of packets before they enter the
//! network and after they leave it. The decisions are `core/watch.h`'s; this module does the
//! platform's part: probes and packets that wait for their time.
//!
//! The guest sends the data, so its host probes; the receiver's host counts and sets the windows.
//! Either of them may have opened the connection.

mod granter;
mod granting;
mod known;
mod policy;
mod probing;

use std::collections::VecDeque;

use uc_core::consts::FROM_GUEST;
use uc_core::watch::{Bucket, Start, StartPolicy};
use uc_net::Nanos;
use uc_tcp::{Segment, flags};

use crate::packet::{Packet, Probe, Turn};
use crate::port::parse;
use crate::timers::TimerId;

use granting::Asking;
pub use known::{Ends, StartCounts, Starts};
pub use policy::start_policy;
use probing::Probing;

/// The state of a flow's start at one end.
#[derive(Clone, Debug)]
pub struct StartEnd {
    policy: StartPolicy,
    /// Timer that fires when a held segment is due.
    pub timer: TimerId,
    role: Role,
    /// Segments that the end's TCP has just sent.
    pub sent: Vec<Segment>,
    held: VecDeque<Segment>,
    /// Time at which all held segments are released.
    release: Nanos,
}

#[derive(Clone, Debug)]
enum Role {
    Sending(Probing, Asking),
    Receiving(Start),
}

/// A packet that the end's host sends now.
#[derive(Debug, PartialEq, Eq)]
pub enum Leaving {
    /// A segment of the end's TCP.
    Segment(Segment),
    /// A probe that measures the path.
    Probe(Probe),
    /// A question for the flow's pacing slot.
    Ask(Turn),
}

impl StartEnd {
    /// Creates the state of the guest's host.
    pub fn sending(policy: StartPolicy, timer: TimerId) -> StartEnd {
        StartEnd::new(
            policy,
            timer,
            Role::Sending(Probing::default(), Asking::default()),
        )
    }

    /// Creates the state of the receiver's host.
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

    /// Processes a packet from the network before the port sees it. Returns true if the packet goes no further now: it
    /// is a probe, or waits for the flow's pacing slot.
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
            (Role::Sending(..), Some(_)) => true,
            (Role::Receiving(start), None) => {
                start.arrives(&parse(segment, uc_core::consts::TO_GUEST));
                false
            }
            (Role::Sending(probing, asking), None) => {
                let path = hosts.paths.entry(ends).or_default();
                probing.hears(now, &self.policy, segment, path);
                asking.arrives(now, &hosts.granter_of(ends.0), packet)
            }
        }
    }

    /// Processes the segments that the TCP has sent: passes each to `out`, or holds it. A copy of a held SYN is
    /// dropped.
    pub fn departs(
        &mut self,
        now: Nanos,
        ends: Ends,
        hosts: &mut Starts,
        out: &mut impl FnMut(Leaving),
    ) {
        for mut segment in std::mem::take(&mut self.sent) {
            let wait_ns = match &mut self.role {
                Role::Sending(probing, asking) => {
                    if hosts.granter.is_some() {
                        let granter = hosts.granters.entry(ends.0).or_default();
                        let bytes = asking.departs(&self.policy, &segment, granter);
                        if bytes > 0 {
                            out(Leaving::Ask(Turn::Ask { bytes }));
                        }
                    }
                    probing.asks(now, &self.policy, &segment, ends, hosts)
                }
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
                // A copy of a waiting SYN adds nothing to the SYN itself.
                self.held.push_back(segment);
            }
        }
    }

    fn holds_syn(&self) -> bool {
        self.held.iter().any(|segment| segment.has(flags::SYN))
    }

    /// Returns whether a packet from the network comes after the flow's first window, or belongs to a flow whose
    /// windows are not set at this host.
    pub fn is_steady(&self, packet: &Packet) -> bool {
        match &self.role {
            Role::Sending(..) => true,
            Role::Receiving(start) => {
                packet.probe().is_none()
                    && start.is_steady(&parse(&packet.segment, uc_core::consts::TO_GUEST))
            }
        }
    }

    /// Returns when the next probe, held segment or waiting packet to the guest is due; `None` if nothing waits.
    pub fn due(&self, now: Nanos, ends: Ends, hosts: &Starts) -> Option<Nanos> {
        let (probe, turn) = match &self.role {
            Role::Sending(probing, asking) => (
                probing.next_probe(),
                asking.due(now, &hosts.granter_of(ends.0)),
            ),
            Role::Receiving(_) => (None, None),
        };
        let release = probe.unwrap_or(self.release).min(self.release);
        let release = (!self.held.is_empty()).then_some(release);
        release.into_iter().chain(turn).min()
    }

    /// Processes the answer of the granter, the host that paces the starts on a shared link: the flow's first window
    /// waits for `wait_ns` from now. Does nothing at the data's receiving end. `ends`: this host and the peer's.
    pub fn granted(&mut self, now: Nanos, ends: Ends, wait_ns: u64, hosts: &mut Starts) {
        if let Role::Sending(_, asking) = &mut self.role {
            let granter = hosts.granters.entry(ends.0).or_default();
            asking.granted(now, &self.policy, granter, wait_ns);
        }
    }

    /// Returns the packets to the guest that waited and are due now.
    pub fn released(&mut self, now: Nanos, ends: Ends, hosts: &mut Starts) -> VecDeque<Packet> {
        match &mut self.role {
            Role::Sending(_, asking) => asking.released(now, ends, hosts),
            Role::Receiving(_) => VecDeque::new(),
        }
    }

    /// Sends the probes, and all held segments, that are due when the timer fires.
    pub fn ring(&mut self, now: Nanos, hosts: &mut Starts, out: &mut impl FnMut(Leaving)) {
        if self.held.is_empty() {
            return;
        }
        if let Role::Sending(probing, _) = &mut self.role {
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

/// Sets the window in a segment from the receiver to the guest. Returns for how many nanoseconds the segment waits; 0:
/// it does not.
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
