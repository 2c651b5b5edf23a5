//! The hosts' knowledge of their paths and links, and the counters of starts.

use std::collections::BTreeMap;

use uc_core::watch::{Bucket, Granter, Path, StartPolicy};
use uc_net::random::Stream;
use uc_net::{HostId, Nanos};

use super::granter::GranterHost;
use crate::scenario::Scenario;
use crate::timers::TimerId;

/// The hosts of a connection's ends: first that of the end in question, then its peer's.
pub type Ends = (HostId, HostId);

/// All hosts' knowledge of their paths, and the counters.
#[derive(Debug)]
pub struct Starts {
    pub(super) paths: BTreeMap<Ends, Path>,
    /// For the link to each host that receives flows with a start: the link's token bucket and its policy.
    pub(super) links: BTreeMap<HostId, (Bucket, StartPolicy)>,
    /// The host that grants the pacing slots of a shared link, if there is one.
    pub(super) granter: Option<GranterHost>,
    /// What each sending host remembers of the host that grants pacing slots.
    pub(super) granters: BTreeMap<HostId, Granter>,
    /// Timers of ends that ever had a start, by index.
    timers: BTreeMap<usize, TimerId>,
    pub(super) random: Stream,
    pub(super) counts: StartCounts,
}

/// Counters of starts, summed over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartCounts {
    /// Flows that began after probes of their path.
    pub probed: u64,
    /// Flows that began without probes, by an earlier measurement of their path.
    pub unprobed: u64,
    /// Number of probes that were sent.
    pub probes: u64,
    /// Number of probes that arrived.
    pub arrived: u64,
    /// Number of probes that arrived with a CE mark.
    pub marked: u64,
    /// Unmarked probes that counted as marked because they were delayed.
    pub late: u64,
    /// Flows whose initial window was held until its pacing slot.
    pub waited: u64,
    /// Time in nanoseconds for which initial windows were held, summed over all flows.
    pub waited_ns: u64,
    /// Pacing slots granted on a shared link.
    pub granted: u64,
    /// Granted pacing slots that were later than the question.
    pub grants_waited: u64,
    /// Time in nanoseconds from questions to the granted pacing slots, summed over all grants.
    pub grants_waited_ns: u64,
    /// Flows that started without an answer to their question for a pacing slot.
    pub unanswered: u64,
}

impl StartCounts {
    /// Returns whether any flow had a start.
    pub fn is_used(&self) -> bool {
        self.probed + self.unprobed > 0
    }

    /// Returns each counter with its name.
    pub fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("watch_probed_flows", self.probed),
            ("watch_unprobed_flows", self.unprobed),
            ("watch_probes_sent", self.probes),
            ("watch_probes_arrived", self.arrived),
            ("watch_probes_marked", self.marked),
            ("watch_probes_late", self.late),
            ("watch_first_windows_waited", self.waited),
            ("watch_first_windows_waited_ns", self.waited_ns),
            ("watch_grants", self.granted),
            ("watch_grants_waited", self.grants_waited),
            ("watch_grants_waited_ns", self.grants_waited_ns),
            ("watch_grants_unanswered", self.unanswered),
        ]
    }
}

impl Starts {
    /// Creates the state without measurements. Hosts that will receive a flow with a start observe
    /// their traffic from the beginning.
    pub fn new(scenario: &Scenario) -> Starts {
        let mut links = BTreeMap::new();
        for flow in &scenario.flows {
            let Some(policy) = flow.start_policy else {
                continue;
            };
            for &receiver in &flow.receivers {
                links.entry(receiver).or_insert((Bucket::default(), policy));
            }
        }
        Starts {
            paths: BTreeMap::new(),
            links,
            granter: scenario
                .granter
                .map(|(host, policy)| GranterHost::new(host, policy)),
            granters: BTreeMap::new(),
            timers: BTreeMap::new(),
            random: Stream::new(scenario.seed, "hosts/watch"),
            counts: StartCounts::default(),
        }
    }

    /// Returns the timer of the end with this index, if it ever had one.
    pub fn timer(&self, place: usize) -> Option<TimerId> {
        self.timers.get(&place).copied()
    }

    /// Stores the timer of the end with this index.
    pub fn keep_timer(&mut self, place: usize, timer: TimerId) {
        self.timers.insert(place, timer);
    }

    /// Returns the host that grants the pacing slots of a shared link; `None`: no host does.
    pub fn granter(&self) -> Option<HostId> {
        self.granter.as_ref().map(|granter| granter.host)
    }

    /// Returns a sending host's state for the host that grants pacing slots.
    pub(super) fn granter_of(&self, host: HostId) -> Granter {
        self.granters.get(&host).copied().unwrap_or_default()
    }

    /// Answers a question for `bytes` of the shared link. Returns the granting host, and for how many nanoseconds the
    /// flow waits; `None`: no host grants pacing slots.
    pub fn grant(&mut self, now: Nanos, bytes: u32) -> Option<(HostId, u64)> {
        let granter = self.granter.as_mut()?;
        let wait_ns = granter.grant_ns(now, bytes);
        self.counts.granted += 1;
        self.counts.grants_waited += u64::from(wait_ns > 0);
        self.counts.grants_waited_ns += wait_ns;
        Some((granter.host, wait_ns))
    }

    /// Returns whether any flow has a start.
    #[inline]
    pub fn is_used(&self) -> bool {
        !self.links.is_empty()
    }

    /// Records a packet of any flow that has reached this host; `steady`: whether the packet comes after its flow's
    /// first window.
    pub fn heard(&mut self, host: HostId, bytes: u32, steady: bool, now: Nanos) {
        if let Some((bucket, policy)) = self.links.get_mut(&host) {
            bucket.heard(policy, bytes, steady, now.0);
        }
    }

    /// Returns the counters of starts so far.
    pub fn counts(&self) -> StartCounts {
        self.counts
    }
}
