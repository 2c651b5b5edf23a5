//! HWatch's start at one end of a connection: what its host does before a packet enters the network
//! and with one that comes out of it. The decisions are `core/watch.h`'s; here is what a home does
//! around them: probes and packets that wait for their moment.
//!
//! The guest sends the data, so its host probes; the receiver's host counts and sets the windows.
//! Either of them may have opened the connection.

use std::collections::{BTreeMap, VecDeque};

use uc_core::consts::FROM_GUEST;
use uc_core::watch::{self, Bucket, Path, Start, StartPolicy};
use uc_net::random::Stream;
use uc_net::{HostId, Nanos};
use uc_tcp::{Segment, flags};

use crate::packet::{Packet, Probe};
use crate::port::parse;
use crate::timers::TimerId;

/// What all hosts know of their paths, and how many probes there were.
#[derive(Debug)]
pub struct Starts {
    paths: BTreeMap<(HostId, HostId), Path>,
    /// Of hosts that have received a flow with a start: their link's bucket, and its policy.
    links: BTreeMap<HostId, (Bucket, StartPolicy)>,
    /// The timers of ends that ever had a start, by their place.
    timers: BTreeMap<usize, TimerId>,
    random: Stream,
    counts: StartCounts,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartCounts {
    /// Flows whose path was probed before them.
    pub probed: u64,
    /// Flows that began on what was known of their path.
    pub unprobed: u64,
    /// Probes that were sent.
    pub probes: u64,
    /// Probes that arrived.
    pub arrived: u64,
    /// Those of them that were marked.
    pub marked: u64,
    /// First windows that waited for their turn.
    pub waited: u64,
    /// How long, in all.
    pub waited_ns: u64,
}

impl StartCounts {
    /// Whether any flow had a start.
    pub fn is_used(&self) -> bool {
        self.probed + self.unprobed > 0
    }

    /// Each count under its name.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("watch_probed_flows", self.probed),
            ("watch_unprobed_flows", self.unprobed),
            ("watch_probes_sent", self.probes),
            ("watch_probes_arrived", self.arrived),
            ("watch_probes_marked", self.marked),
            ("watch_first_windows_waited", self.waited),
            ("watch_first_windows_waited_ns", self.waited_ns),
        ]
    }
}

impl Starts {
    /// Hosts that know nothing yet.
    pub fn new(seed: u64) -> Starts {
        Starts {
            paths: BTreeMap::new(),
            links: BTreeMap::new(),
            timers: BTreeMap::new(),
            random: Stream::new(seed, "hosts/watch"),
            counts: StartCounts::default(),
        }
    }

    /// The timer of the end in this place, if it ever had one.
    pub fn timer(&self, place: usize) -> Option<TimerId> {
        self.timers.get(&place).copied()
    }

    /// The end in this place has that timer from now on.
    pub fn keep_timer(&mut self, place: usize, timer: TimerId) {
        self.timers.insert(place, timer);
    }

    /// Whether any flow has a start.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.timers.is_empty()
    }

    /// A packet of any flow has come to this host.
    pub fn heard(&mut self, host: HostId, bytes: u32, now: Nanos) {
        if let Some((bucket, policy)) = self.links.get_mut(&host) {
            bucket.heard(policy, bytes, now.0);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> StartCounts {
        self.counts
    }
}

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

/// The sending host's part.
#[derive(Clone, Debug, Default)]
struct Probing {
    /// When the flow's first packet left for the network; none before that.
    asked: Option<Nanos>,
    /// It was sent again, so that the round trip of its answer is not known (RFC 6298 §3).
    again: bool,
    answered: bool,
    decided: Nanos,
    probes: u32,
    next: u32,
    span_ns: u32,
    random: u32,
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
            (Role::Receiving(start), Some(Probe { index, of })) => {
                hosts.counts.arrived += 1;
                hosts.counts.marked += u64::from(segment.ecn == uc_net::Ecn::Ce);
                start.probe(index, of, segment.ecn.bits());
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
                let (index, of) = (probing.next as u8, probing.probes as u8);
                out(Leaving::Probe(Probe { index, of }));
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

impl Probing {
    /// A segment of the guest: how long it waits for probes before it.
    fn asks(
        &mut self,
        now: Nanos,
        policy: &StartPolicy,
        segment: &Segment,
        ends: Ends,
        hosts: &mut Starts,
    ) -> u64 {
        if !segment.has(flags::SYN) {
            return 0;
        }
        if self.asked.is_some() {
            self.again = true;
            return 0;
        }
        let path = hosts.paths.entry(ends).or_default();
        self.probes = policy.probes(path, now.0);
        self.asked = Some(now);
        if self.probes == 0 {
            hosts.counts.unprobed += 1;
            return 0;
        }
        hosts.counts.probed += 1;
        self.decided = now;
        self.span_ns = policy.span_ns(path);
        self.random = hosts.random.bits32();
        let span_ns = u64::from(self.span_ns).max(1);
        self.asked = Some(now + Nanos(span_ns));
        span_ns
    }

    fn next_probe(&self) -> Option<Nanos> {
        if self.next >= self.probes {
            return None;
        }
        let offset_ns = watch::offset_ns(self.span_ns, self.probes, self.next, self.random);
        Some(self.decided + Nanos(offset_ns.into()))
    }

    /// A segment of the peer: the answer to the first packet, or an echo of a mark.
    fn hears(&mut self, now: Nanos, policy: &StartPolicy, segment: &Segment, path: &mut Path) {
        let is_answer = !self.answered && segment.has(flags::ACK);
        if let (true, Some(asked)) = (is_answer, self.asked) {
            self.answered = true;
            let rtt = if self.again {
                Nanos(u64::from(path.rtt_us) * 1_000)
            } else {
                now.since(asked)
            };
            let is_syn = segment.has(flags::SYN);
            let window_bytes = if is_syn { segment.window.into() } else { 0 };
            path.answered(policy, window_bytes, segment.options.mss_bytes, rtt.0);
        }
        if segment.has(flags::ECE) && !segment.has(flags::SYN) {
            path.echoed();
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
    let (bucket, _) = hosts.links.entry(ends.0).or_insert((Bucket::default(), *policy));
    let parsed = parse(segment, FROM_GUEST);
    let random = hosts.random.bits32();
    let answer = start.leaves(policy, (path, bucket), &parsed, now.0, random);
    segment.window = answer.window;
    let wait_ns = bucket.wait_ns(policy, answer.grant_bytes, now.0);
    hosts.counts.waited += u64::from(wait_ns > 0);
    hosts.counts.waited_ns += wait_ns;
    wait_ns
}
