//! A run of a case, from the experiment to the record.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use uc_core::{Core, Reason};
use uc_experiment::{
    Case, Experiment, FlowRecord, Histogram, LinkTotals, QueueSample, RunRecord, Stalls,
};
use uc_net::{LinkId, Nanos};

use crate::capture::{Capture, Captured};
use crate::error::SimError;
use crate::plan::Plan;
use crate::sampler::{empty_records, sample_flows, sample_queue, sums};
use crate::unfinished::unfinished;
use crate::world::World;

/// Maximum virtual time between two checks of the cancel flag.
const LOOK: Nanos = Nanos::from_millis(10);

/// The inputs of a run in addition to experiment and case. Equal inputs give the same record, byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repetition {
    /// Number of the run, from 0.
    pub run: u32,
    /// Seed from which all random numbers of the run are drawn.
    pub seed: u64,
    /// Core that decides at the ports.
    pub core: Core,
}

/// Checks that `case` can be run.
///
/// # Errors
/// Every error of [`run_case`] before time zero.
pub fn check(experiment: &Experiment, case: &Case) -> Result<(), SimError> {
    // The seed decides when flows start and what is drawn, never whether they can run.
    let plan = Plan::new(experiment, case, 0)?;
    World::new(&plan.scenario).map(drop)
}

/// Runs `case` once. Runs share nothing: many can run at once in one process.
///
/// `progress` is called on the calling thread with the virtual time, at least every 10 ms of virtual time.
///
/// # Errors
/// Requirements of the case that can't be met, before time zero; time that does not advance and
/// too many open connections in the run; [`SimError::Cancelled`] soon after `cancel` was
/// set. Unfinished flows at the end are no error: the record counts them by reason, as
/// `unfinished_…`.
pub fn run_case(
    experiment: &Experiment,
    case: &Case,
    repetition: Repetition,
    progress: &dyn Fn(Nanos),
    cancel: &AtomicBool,
) -> Result<RunRecord, SimError> {
    let no_capture = |_: &Plan| Ok(None);
    let (record, _) = run_seen(experiment, case, repetition, progress, cancel, no_capture)?;
    Ok(record)
}

/// Runs `case` once as [`run_case`] does, with the same record, and writes the packets at the bottleneck into a file
/// (see [`Capture`]). Of several bottlenecks, it captures the one whose queue is sampled.
///
/// # Errors
/// As [`run_case`]; [`SimError::Refused`] without a bottleneck; [`SimError::Capture`], after which
/// the file is incomplete.
pub fn run_case_captured(
    experiment: &Experiment,
    case: &Case,
    repetition: Repetition,
    progress: &dyn Fn(Nanos),
    cancel: &AtomicBool,
    file: &Path,
) -> Result<(RunRecord, Captured), SimError> {
    let create = |plan: &Plan| {
        let none = || {
            SimError::Refused(format!(
                "case {}: there is no bottleneck to capture at; run it without a capture",
                case.name
            ))
        };
        let link = *plan.bottlenecks.first().ok_or_else(none)?;
        let scenario = &plan.scenario;
        let header_bytes = scenario.ip_header_bytes;
        Capture::create(file, &scenario.topology, link, header_bytes).map(Some)
    };
    let (record, capture) = run_seen(experiment, case, repetition, progress, cancel, create)?;
    let captured = capture.map_or(Ok(Captured::default()), Capture::finish)?;
    Ok((record, captured))
}

/// Runs `case` once under the capture that `create` makes. Returns the record and the capture.
fn run_seen(
    experiment: &Experiment,
    case: &Case,
    repetition: Repetition,
    progress: &dyn Fn(Nanos),
    cancel: &AtomicBool,
    create: impl FnOnce(&Plan) -> Result<Option<Capture>, SimError>,
) -> Result<(RunRecord, Option<Capture>), SimError> {
    let plan = Plan::new(experiment, case, repetition.seed)?;
    let mut world = World::new(&plan.scenario)?;
    world.hosts.decide_by(repetition.core);
    if let Some(capture) = create(&plan)? {
        world.hosts.start_capture(capture);
    }
    let mut run = Run {
        world,
        flows: empty_records(&plan.labels),
        queue: Vec::new(),
        plan: &plan,
    };
    let gaps = run.follow(experiment, progress, cancel)?;
    let capture = run.world.hosts.end_capture();
    let record = RunRecord {
        case: case.name.clone(),
        run: repetition.run,
        seed: repetition.seed,
        started_unix_ms: 0,
        bottlenecks: plan
            .bottlenecks
            .iter()
            .map(|&link| run.name(link))
            .collect(),
        links: run.links(),
        counters: run.counters(),
        queue: std::mem::take(&mut run.queue),
        flows: run.finish(gaps),
        ..RunRecord::default()
    };
    Ok((record, capture))
}

struct Run<'a> {
    plan: &'a Plan,
    world: World,
    flows: Vec<FlowRecord>,
    queue: Vec<QueueSample>,
}

/// Histograms of the gaps between ACKs, flow by flow.
type Gaps = Vec<Vec<u32>>;

impl Run<'_> {
    /// Runs to the end, and samples at every multiple of the interval and at the end. Returns the
    /// gaps between ACKs within the measured part.
    fn follow(
        &mut self,
        experiment: &Experiment,
        progress: &dyn Fn(Nanos),
        cancel: &AtomicBool,
    ) -> Result<Gaps, SimError> {
        let interval_ns = experiment.sample.0.max(1);
        let end_ns = experiment.duration.0;
        let measured_ns = experiment.measured_ns();
        let (mut next_sample_ns, mut before, mut within) = (0, Gaps::new(), Gaps::new());
        loop {
            let now_ns = self.world.hosts.now().0;
            if now_ns == measured_ns.start {
                before = self.gaps();
                self.world.hosts.time_packets(true);
            }
            if now_ns == measured_ns.end {
                within = self.gaps();
                self.world.hosts.time_packets(false);
            }
            if now_ns == next_sample_ns {
                self.sample();
                next_sample_ns = now_ns.saturating_add(interval_ns).min(end_ns);
            }
            progress(Nanos(now_ns));
            if now_ns >= end_ns {
                break;
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(SimError::Cancelled);
            }
            let stops = [measured_ns.start, measured_ns.end];
            let stop = stops.into_iter().filter(|&stop| stop > now_ns);
            let next_ns = stop.fold(next_sample_ns.min(now_ns + LOOK.0), u64::min);
            self.world.run_until(Nanos(next_ns))?;
        }
        for (bins, earlier) in within.iter_mut().zip(&before) {
            for (bin, earlier) in bins.iter_mut().zip(earlier) {
                *bin -= earlier;
            }
        }
        Ok(within)
    }

    fn gaps(&self) -> Gaps {
        let flows = self.world.applications.flows().iter();
        flows
            .map(|flow| sums(&self.world.hosts, flow).ack_gaps)
            .collect()
    }

    fn sample(&mut self) {
        let World {
            hosts,
            applications,
        } = &mut self.world;
        sample_flows(hosts, applications, &mut self.flows);
        if let Some(&bottleneck) = self.plan.bottlenecks.first() {
            self.queue.extend(sample_queue(hosts, bottleneck));
        }
    }

    fn name(&self, link: LinkId) -> String {
        let plan = self.plan.scenario.topology.links().get(link.0 as usize);
        plan.map_or_else(String::new, |plan| plan.name.clone())
    }

    fn links(&mut self) -> BTreeMap<String, LinkTotals> {
        let count = self.plan.scenario.topology.links().len() as u32;
        let mut links = BTreeMap::new();
        for link in (0..count).map(LinkId) {
            let Some(report) = self.world.hosts.link(link) else {
                continue;
            };
            let totals = LinkTotals {
                packets: report.stats.sent_packets,
                bytes: report.stats.sent_bytes,
                dropped_packets: report.stats.dropped_packets(),
                marked_packets: report.stats.marked_packets,
            };
            links.insert(self.name(link), totals);
        }
        links
    }

    /// Returns the counters of the record: segments by the reasons of the ports (`port_…`, `receiver_port_…`),
    /// unfinished flows (`unfinished_…`), counters of hypervisors (`hypervisor_…`), of starts, and of ports that hold
    /// packets (`hold_…`).
    fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        for (name, count) in self.world.hosts.hypervisor_counts() {
            counters.insert(name.to_owned(), count);
        }
        for (name, count) in self.world.hosts.held_counts() {
            counters.insert(format!("hold_{name}"), count);
        }
        let starts = self.world.hosts.start_counts();
        if starts.is_used() {
            let named = starts.named().map(|(name, count)| (name.to_owned(), count));
            counters.extend(named);
        }
        for flow in self.world.applications.flows() {
            let sums = sums(&self.world.hosts, flow);
            let ports = [
                ("port", sums.port_counts),
                ("receiver_port", sums.receiver_port_counts),
            ];
            for (port, counts) in ports {
                for (reason, count) in Reason::all().zip(counts) {
                    *counters.entry(format!("{port}_{reason}")).or_default() += count;
                }
            }
            if let Some(why) = unfinished(&self.world.hosts, flow) {
                let name = format!("unfinished_{}", why.label());
                *counters.entry(name).or_default() += 1;
            }
        }
        counters
    }

    fn finish(mut self, gaps: Gaps) -> Vec<FlowRecord> {
        let flows = self.world.applications.flows().iter().enumerate();
        for (((number, flow), record), mut gaps) in flows.zip(&mut self.flows).zip(gaps) {
            let counts = self.world.hosts.flow_counts(number);
            let sums = sums(&self.world.hosts, flow);
            record.drops = counts.dropped_packets;
            record.marks = counts.marked_packets;
            record.completions = flow.completions().to_vec();
            record.timeouts = Some(u32::try_from(sums.guest.timeouts).unwrap_or(u32::MAX));
            let used = gaps
                .iter()
                .rposition(|&count| count > 0)
                .map_or(0, |last| last + 1);
            gaps.truncate(used);
            record.ack_gaps = Some(gaps);
            let machine = flow.plan().virtual_part.machine;
            record.stalls = Some(Stalls {
                spurious_timeouts: sums.stalls.spurious_timeouts,
                detected_timeouts: sums.guest.spurious_timeouts,
                backoffs: sums.guest.backoffs,
                duplicate_acks: sums.guest.duplicate_acks,
                needless_segments: sums.needless_segments,
                clock_jump_ticks: machine
                    .map_or(0, |machine| self.world.hosts.clock_jump_ticks(machine)),
                deferred_timers: sums.stalls.deferred_timers,
                filtered_samples: sums.stalls.filtered_samples,
            });
            let rtts = self.world.hosts.packet_rtts(number);
            record.packet_rtt = rtts.map(Histogram::trimmed);
        }
        self.flows
    }
}
