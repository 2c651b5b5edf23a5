//! Comparison of f and g∘T on the same network, transmission by transmission.

use uc_core::Core;
use uc_net::Nanos;
use uc_tcp::Segment;

use crate::coverage::{Coverage, Seen};
use crate::element::{Element, Translator, Wire};
use crate::law::{Guest, Law, guest_hosts, native_hosts, rfc_policy, undoing};
use crate::layout::Fault;
use crate::plan::Plan;
use crate::world::{Cause, Hosts, Observer, State, Summary, World};

/// A transmitted segment, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time at which the segment was transmitted.
    pub at: Nanos,
    /// Segment as the network sees it.
    pub segment: Segment,
}

/// The verdict of comparing two senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The senders' transmissions were all equal.
    Same,
    /// All transmissions were equal up to a point where an assumption ended.
    Outside(Limit),
    /// A transmission of the guest differed from that of f.
    Differs {
        /// Number of the transmission, from 0, the SYN.
        number: usize,
        /// Transmission of f, if it sent one.
        native: Option<Sent>,
        /// Transmission of the guest, if it sent one.
        translated: Option<Sent>,
    },
}

/// An assumption whose end only a run can show: the receive window can't express f's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The window of f exceeds the guest's own, in whole segments. A receive window can only make a
    /// guest slower.
    BeyondGuest,
    /// The window of f is one segment and it gets ECE: RFC 3168 §6.1.2 makes it wait for its timer,
    /// with nothing in flight. Opening a closed window then would be an event of its own.
    AtOneSegment,
    /// The receiver accepted the byte of a window probe: segments no longer end on their
    /// boundaries.
    ProbeTaken,
}

/// The result of comparing two senders in a case.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Verdict of the comparison.
    pub outcome: Outcome,
    /// Number of events of the native run that were compared.
    pub events: u64,
    /// Classes of situations that the case had.
    pub seen: Seen,
}

/// Buffers that are reused from comparison to comparison.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    native: Recorder,
    /// A fault that is planted in the layouts of other hosts' flows.
    pub fault: Fault,
}

/// The record of the native run for comparison.
#[derive(Clone, Debug, Default)]
struct Recorder {
    sent: Vec<Sent>,
    /// Congestion window after each act, in bytes.
    cwnd_bytes: Vec<u32>,
    coverage: Coverage,
    mss_bytes: u16,
    /// Assumption that the last act ended; `None`: none.
    limit: Option<Limit>,
}

impl Observer for Recorder {
    fn sent(&mut self, now: Nanos, segment: &Segment) -> bool {
        self.sent.push(Sent {
            at: now,
            segment: *segment,
        });
        true
    }

    fn acted(&mut self, _: Nanos, cause: &Cause, before: &State, after: &State) -> bool {
        self.cwnd_bytes.push(after.info.cwnd_bytes);
        self.coverage.observe(cause, before, after);
        let cut = after.totals.ecn_cuts > before.totals.ecn_cuts;
        if cut && before.info.cwnd_bytes <= before.info.smss_bytes {
            self.limit = Some(Limit::AtOneSegment);
        }
        let whole = after
            .totals
            .acknowledged_bytes
            .is_multiple_of(self.mss_bytes.max(1).into());
        if !whole {
            self.limit = Some(Limit::ProbeTaken);
        }
        self.limit.is_none()
    }
}

/// An observer that compares the translated run with the native one.
struct Checker<'a> {
    native: &'a Recorder,
    sent: usize,
    acts: usize,
    events: u64,
    outcome: Outcome,
}

impl Observer for Checker<'_> {
    fn sent(&mut self, now: Nanos, segment: &Segment) -> bool {
        let translated = Sent {
            at: now,
            segment: *segment,
        };
        let native = self.native.sent.get(self.sent).copied();
        if native != Some(translated) && self.outcome == Outcome::Same {
            self.outcome = Outcome::Differs {
                number: self.sent,
                native,
                translated: Some(translated),
            };
        }
        self.sent += 1;
        self.events += 1;
        true
    }

    /// Compares the windows before the transmissions that they allow.
    fn acted(&mut self, _: Nanos, _: &Cause, _: &State, after: &State) -> bool {
        let smss_bytes = after.info.smss_bytes.max(1);
        let native = self.native.cwnd_bytes.get(self.acts).copied().unwrap_or(0);
        self.acts += 1;
        self.events += 1;
        if native / smss_bytes > after.info.cwnd_bytes / smss_bytes {
            self.outcome = Outcome::Outside(Limit::BeyondGuest);
        } else if self.acts == self.native.cwnd_bytes.len()
            && let Some(limit) = self.native.limit
        {
            self.outcome = Outcome::Outside(limit);
        }
        self.outcome == Outcome::Same
    }
}

/// Compares native f with this guest under T. Both undo spurious timeouts.
pub fn compare(
    plan: &Plan,
    law: Law,
    guest: Guest,
    core: Core,
    workspace: &mut Workspace,
) -> Comparison {
    let strips_ecn = guest == Guest::EcnStripped;
    let hosts = undoing(guest_hosts(law, strips_ecn));
    compare_hosts(plan, law, (&hosts, strips_ecn), core, workspace)
}

/// Compares native f with any guest under T: its hosts, and whether T strips its ECN offer. f responds
/// to spurious timeouts as the guest does.
pub fn compare_hosts(
    plan: &Plan,
    law: Law,
    (hosts, strips_ecn): (&Hosts, bool),
    core: Core,
    workspace: &mut Workspace,
) -> Comparison {
    let native = &mut workspace.native;
    native.sent.clear();
    native.cwnd_bytes.clear();
    native.coverage = Coverage::default();
    native.limit = None;
    native.mss_bytes = plan.mss_bytes;
    let mut f = native_hosts(law);
    f.sender.spurious_timeout = hosts.sender.spurious_timeout;
    let whole = World::new(plan, &f, Wire, native).run();

    let policy = rfc_policy(law, plan.initial_window_segments);
    let translator =
        Translator::new(core, policy, strips_ecn).moving(&plan.handovers, workspace.fault);
    let (outcome, events) = check(plan, hosts, translator, native, whole);
    Comparison {
        outcome,
        events,
        seen: native.coverage.seen(),
    }
}

fn check<E: Element>(
    plan: &Plan,
    hosts: &Hosts,
    element: E,
    native: &Recorder,
    whole: Summary,
) -> (Outcome, u64) {
    let mut checker = Checker {
        native,
        sent: 0,
        acts: 0,
        events: 0,
        outcome: Outcome::Same,
    };
    World::new(plan, hosts, element, &mut checker).run();
    let Checker {
        sent,
        events,
        mut outcome,
        ..
    } = checker;
    if outcome == Outcome::Same && (sent < native.sent.len() || events < whole.events) {
        // g∘T sent nothing more where f went on
        outcome = Outcome::Differs {
            number: sent,
            native: native.sent.get(sent).copied(),
            translated: None,
        };
    }
    (outcome, events)
}
