//! Many cases on all cores. The report depends on the seed and the number of cases alone, not on
//! the number of threads or their order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uc_core::Core;

use crate::compare::{Comparison, Limit, Outcome, Workspace, compare};
use crate::coverage::Class;
use crate::draw::{draw_moving, draw_stopping};
use crate::law::{Guest, Law};
use crate::plan::Plan;
use crate::shrink::shrink;

/// Number of cases that a thread takes at a time.
const CHUNK: u64 = 16;

/// A campaign: what to verify, on how many random cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Law of the native sender, f.
    pub law: Law,
    /// Guest under the translator, g.
    pub guest: Guest,
    /// Seed from which the cases are drawn.
    pub seed: u64,
    /// Number of random cases to compare.
    pub cases: u64,
    /// Number of threads that compare cases.
    pub jobs: usize,
    /// Whether the guest's flow moves between hosts.
    pub handover: bool,
}

/// The result of a campaign. With a failure it covers the cases before the failure and the failure
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of cases that were run.
    pub cases: u64,
    /// Cases in which every transmission was equal.
    pub exact: u64,
    /// Exact cases that end early because f's window outgrew the guest's.
    pub beyond_guest: u64,
    /// Exact cases that end early because f got ECE at one segment.
    pub at_one_segment: u64,
    /// Exact cases that end early because the receiver accepted the byte of a window probe.
    pub probe_taken: u64,
    /// Number of events that were compared.
    pub events: u64,
    /// For each class, the number of cases in which it occurred, in the order of [`Class::ALL`].
    pub coverage: [u64; Class::ALL.len()],
    /// Number of the first case in which a transmission differed; `None`: none did.
    pub failure: Option<u64>,
}

impl Report {
    /// Iterates over the classes that fewer than one case in a hundred had.
    pub fn uncovered(&self) -> impl Iterator<Item = Class> + '_ {
        let rare = |&(_, &count): &(Class, &u64)| count * 100 < self.cases;
        Class::ALL
            .into_iter()
            .zip(&self.coverage)
            .filter(rare)
            .map(|(class, _)| class)
    }

    fn add(&mut self, comparison: &Comparison) {
        self.cases += 1;
        self.events += comparison.events;
        match comparison.outcome {
            Outcome::Same => self.exact += 1,
            Outcome::Outside(limit) => {
                self.exact += 1;
                match limit {
                    Limit::BeyondGuest => self.beyond_guest += 1,
                    Limit::AtOneSegment => self.at_one_segment += 1,
                    Limit::ProbeTaken => self.probe_taken += 1,
                }
            }
            Outcome::Differs { .. } => {}
        }
        for (class, count) in Class::ALL.into_iter().zip(&mut self.coverage) {
            *count += u64::from(comparison.seen.has(class));
        }
    }
}

impl Campaign {
    /// Runs the cases; `progress` is called with the number of further cases completed. Returns
    /// `None` if it was cancelled.
    pub fn run(
        &self,
        core: Core,
        progress: &(dyn Fn(u64) + Sync),
        cancel: &AtomicBool,
    ) -> Option<Report> {
        let next = AtomicU64::new(0);
        let failure = AtomicU64::new(u64::MAX);
        let work = &|| {
            let mut workspace = Workspace::default();
            let mut done = Vec::new();
            loop {
                let from = next.fetch_add(CHUNK, Ordering::Relaxed);
                let to = from.saturating_add(CHUNK).min(self.cases);
                // cases after a failure don't count, those before it all do
                let end = from >= to || from > failure.load(Ordering::Relaxed);
                if end || cancel.load(Ordering::Relaxed) {
                    return done;
                }
                for number in from..to {
                    let comparison = self.case(core, number, &mut workspace);
                    if matches!(comparison.outcome, Outcome::Differs { .. }) {
                        failure.fetch_min(number, Ordering::Relaxed);
                    }
                    done.push((number, comparison));
                }
                progress(to - from);
            }
        };
        let jobs = self.jobs.max(1);
        let mut all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for thread in threads {
                // a thread that panicked has printed the reason
                all.extend(thread.join().ok()?);
            }
            Some(all)
        })?;
        if cancel.load(Ordering::Relaxed) {
            return None;
        }
        let failure = failure.into_inner();
        all.retain(|(number, _)| *number <= failure);
        let mut report = Report {
            failure: (failure != u64::MAX).then_some(failure),
            ..Report::default()
        };
        for (_, comparison) in &all {
            report.add(comparison);
        }
        Some(report)
    }

    /// Returns the plan of a case.
    pub fn plan(&self, number: u64) -> Plan {
        if self.handover {
            draw_moving(self.seed, number)
        } else {
            draw_stopping(self.seed, number)
        }
    }

    /// Returns a plan in which f and g∘T still differ, no larger than this one.
    pub fn shrink(&self, core: Core, plan: &Plan) -> Plan {
        let mut workspace = Workspace::default();
        shrink(plan, |plan| {
            let outcome = compare(plan, self.law, self.guest, core, &mut workspace).outcome;
            matches!(outcome, Outcome::Differs { .. })
        })
    }

    fn case(&self, core: Core, number: u64, space: &mut Workspace) -> Comparison {
        compare(&self.plan(number), self.law, self.guest, core, space)
    }
}
