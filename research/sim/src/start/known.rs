//! What the hosts of a run know of their paths and links, and how many probes there were.

use std::collections::BTreeMap;

use uc_core::watch::{Bucket, Path, StartPolicy};
use uc_net::random::Stream;
use uc_net::{HostId, Nanos};

use crate::scenario::Scenario;
use crate::timers::TimerId;

/// What all hosts know of their paths, and how many probes there were.
#[derive(Debug)]
pub struct Starts {
    pub(super) paths: BTreeMap<(HostId, HostId), Path>,
    /// Of hosts that receive flows with a start: their link's bucket, and its policy.
    pub(super) links: BTreeMap<HostId, (Bucket, StartPolicy)>,
    /// The timers of ends that ever had a start, by their place.
    timers: BTreeMap<usize, TimerId>,
    pub(super) random: Stream,
    pub(super) counts: StartCounts,
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
    /// Those of the unmarked that counted as marked for being late.
    pub late: u64,
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
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("watch_probed_flows", self.probed),
            ("watch_unprobed_flows", self.unprobed),
            ("watch_probes_sent", self.probes),
            ("watch_probes_arrived", self.arrived),
            ("watch_probes_marked", self.marked),
            ("watch_probes_late", self.late),
            ("watch_first_windows_waited", self.waited),
            ("watch_first_windows_waited_ns", self.waited_ns),
        ]
    }
}

impl Starts {
    /// Hosts that know nothing yet. Those that will receive a flow with a start hear from the
    /// beginning what comes to them.
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
            timers: BTreeMap::new(),
            random: Stream::new(scenario.seed, "hosts/watch"),
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
        !self.links.is_empty()
    }

    /// A packet of any flow has come to this host; `steady`: of one past its start.
    pub fn heard(&mut self, host: HostId, bytes: u32, steady: bool, now: Nanos) {
        if let Some((bucket, policy)) = self.links.get_mut(&host) {
            bucket.heard(policy, bytes, steady, now.0);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> StartCounts {
        self.counts
    }
}
