//! One run of one case, which leaves nothing on the host.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uc_experiment::{Case, Experiment, FlowRecord, QueueSample, RunRecord};
use uc_net::Nanos;

use crate::clock;
use crate::error::LabError;
use crate::flow::FiveTuple;
use crate::lab::Lab;
use crate::load::{GoOn, Load};
use crate::need;
use crate::nginx;
use crate::plan::Plan;
use crate::platform::{Namespaces, Platform};
use crate::ports::Ports;
use crate::sampler::Sampler;
use crate::web::Clients;

/// Interval at which a waiting run checks the cancel flag.
const LOOK: Duration = Duration::from_millis(20);
/// Minimum interval of progress reports.
const REPORT: Duration = Duration::from_millis(100);

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Namespaces and interfaces are being made.
    Building,
    /// Flows are starting.
    Connecting {
        /// Number of flows that have to connect.
        flows: usize,
    },
    /// The run's clock is running.
    Running {
        /// Time since the start of the run's clock.
        elapsed: Duration,
        /// Duration of the run.
        duration: Duration,
    },
}

/// The identity of a run of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Number of the run, from 0.
    pub run: u32,
    /// Seed of the order in which flows start and of the network's random numbers. A real kernel's
    /// timing does not depend on it: the same seed gives a similar run, not the same one.
    pub seed: u64,
}

/// Runs `case` once. The run's clock starts when every bulk and incast flow with start time 0 is
/// connected; such a flow sends as soon as it is connected. Messages, transfers and pages begin
/// after that. Runs share nothing, so many can run at once in one process.
///
/// Calls `progress` on the calling thread: before building, before connecting, and then at most ten
/// times a second.
///
/// # Errors
/// [`LabError::Experiment`] or [`LabError::Need`] before anything is built; [`LabError::Cancelled`] if `cancel` was
/// set, which is checked about every 20 ms, but not while flows are sampled; otherwise the failure. Everything that was
/// built is gone on return.
pub fn run_case(
    experiment: &Experiment,
    case: &Case,
    repetition: Repetition,
    ports: &mut dyn Ports,
    progress: &dyn Fn(Progress),
    cancel: &AtomicBool,
) -> Result<RunRecord, LabError> {
    run_case_in(
        &mut Namespaces,
        experiment,
        case,
        repetition,
        ports,
        progress,
        cancel,
    )
}

/// Runs `case` like [`run_case`], with guests on the platform `platform`.
///
/// # Errors
/// As [`run_case`], and the errors of `platform`.
pub fn run_case_in(
    platform: &mut dyn Platform,
    experiment: &Experiment,
    case: &Case,
    repetition: Repetition,
    ports: &mut dyn Ports,
    progress: &dyn Fn(Progress),
    cancel: &AtomicBool,
) -> Result<RunRecord, LabError> {
    experiment.suits(platform.ends().arm())?;
    let experiment = &experiment.slowed()?;
    let case = experiment.case(&case.name).unwrap_or(case);
    need::check()?;
    need::raise_limit_of_files();
    progress(Progress::Building);
    let plan = Plan::new(experiment, case)?;
    let sample = Duration::from_nanos(experiment.sample.0.max(1));
    let (network, seed) = (experiment.network_of(case), repetition.seed);
    let lab = Lab::build_with(&plan, &network, seed, sample, platform.ends())?;
    lab.attach(&plan, ports)?;
    let run = Run {
        experiment,
        plan: &plan,
        progress,
        go_on: &|| go_on(cancel, &lab),
    };
    let observed = run.observe(platform, &lab, seed, ports);
    // An emulator that ended by itself fails here, with the reason, which the flows did not see.
    let report = lab.finish()?;
    let observed = observed?;
    let mut record = RunRecord {
        case: case.name.clone(),
        run: repetition.run,
        seed: repetition.seed,
        ..observed.record
    };
    let (first_ns, last_ns) = (
        observed.started.0,
        observed.started.0 + experiment.duration.0,
    );
    let measured = experiment.measured_ns();
    let measured_ns = first_ns + measured.start..first_ns + measured.end;
    for (flow, tuple) in record.flows.iter_mut().zip(&observed.tuples) {
        let counts = report.flows.get(tuple).copied().unwrap_or_default();
        flow.drops = counts.dropped_packets;
        flow.marks = counts.marked_packets;
        let gaps = report.ack_gaps.get(tuple);
        flow.ack_gaps = gaps.map(|gaps| gaps.bins(&measured_ns));
    }
    let within = report
        .queue
        .into_iter()
        .filter(|s| (first_ns..=last_ns).contains(&s.at_ns));
    record.queue = within
        .map(|s| QueueSample {
            at_ns: s.at_ns - first_ns,
            ..s
        })
        .collect();
    record.links = report.links;
    record.bottlenecks = report.bottlenecks;
    record.counters.extend(report.counters);
    record.flows.extend(observed.pages);
    let place = |flow: &FlowRecord| {
        case.guests
            .iter()
            .position(|group| group.name == flow.group)
    };
    record.flows.sort_by_key(place);
    record.quicken(experiment.slower);
    Ok(record)
}

/// The results of flows and ports.
struct Observed {
    /// Record without the emulator's results.
    record: RunRecord,
    /// Connections of the record's flows.
    tuples: Vec<FiveTuple>,
    /// Flows of pages, which have many connections each.
    pages: Vec<FlowRecord>,
    /// Start of the run's clock.
    started: Nanos,
}

/// A run on a started lab.
struct Run<'a> {
    experiment: &'a Experiment,
    plan: &'a Plan,
    progress: &'a dyn Fn(Progress),
    go_on: GoOn<'a>,
}

/// Checks that the run was not cancelled and that its network is running.
fn go_on(cancel: &AtomicBool, lab: &Lab) -> Result<(), LabError> {
    if cancel.load(Ordering::Relaxed) {
        return Err(LabError::Cancelled);
    }
    if lab.is_running() {
        return Ok(());
    }
    let source = io::Error::other("its thread has ended");
    Err(LabError::Resource {
        action: "keep the thread that emulates the network running",
        source,
    })
}

impl Run<'_> {
    fn observe(
        &self,
        platform: &mut dyn Platform,
        lab: &Lab,
        seed: u64,
        ports: &mut dyn Ports,
    ) -> Result<Observed, LabError> {
        (self.go_on)()?;
        (self.progress)(Progress::Connecting {
            flows: self.plan.flow_count(),
        });
        let servers = nginx::start_all(self.plan, &lab.wiring)?;
        let mut load = platform.start(self.plan, lab, seed, self.go_on)?;
        let load = &mut *load;
        let syn_retransmits = load.wait_connected(self.go_on)?;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let started = clock::now();
        load.begin(started)?;
        let clients = Clients::start(self.plan, &lab.wiring, seed, started)?;
        let mut sampler = Sampler::new(self.plan, load, started);
        self.follow(load, &mut sampler, ports)?;
        let mut counted = load.finish()?;
        let pages = clients.finish()?;
        drop(servers);
        let mut counters = ports.counters().map_err(LabError::Beside)?;
        counters.append(&mut counted.counters);
        counters.insert("traffic_syn_retransmits".into(), syn_retransmits);
        let tuples = sampler.tuples();
        let record = RunRecord {
            started_unix_ms: since_epoch.as_millis() as u64,
            counters,
            flows: sampler.finish(counted),
            ..RunRecord::default()
        };
        Ok(Observed {
            record,
            tuples,
            pages,
            started,
        })
    }

    /// Samples at every multiple of the interval until the end, both included.
    fn follow(
        &self,
        load: &mut dyn Load,
        sampler: &mut Sampler,
        ports: &mut dyn Ports,
    ) -> Result<(), LabError> {
        let interval = Duration::from_nanos(self.experiment.sample.0.max(1));
        let duration = Duration::from_nanos(self.experiment.duration.0);
        let mut next = Duration::ZERO;
        let mut reported = None;
        loop {
            self.wait_until(next, load, sampler)?;
            sampler.sample(load, ports)?;
            let elapsed = sampler.elapsed();
            if reported.is_none_or(|last| elapsed - last >= REPORT) {
                (self.progress)(Progress::Running {
                    elapsed: elapsed.min(duration),
                    duration,
                });
                reported = Some(elapsed);
            }
            if elapsed >= duration {
                return Ok(());
            }
            // A late sample does not delay the next ones, and missed samples are not made up.
            let intervals = elapsed.as_nanos() / interval.as_nanos() + 1;
            let due_ns = intervals
                .saturating_mul(interval.as_nanos())
                .min(duration.as_nanos());
            next = Duration::from_nanos(due_ns as u64);
        }
    }

    fn wait_until(
        &self,
        due: Duration,
        load: &mut dyn Load,
        sampler: &Sampler,
    ) -> Result<(), LabError> {
        loop {
            (self.go_on)()?;
            load.check()?;
            let left = due.saturating_sub(sampler.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}
