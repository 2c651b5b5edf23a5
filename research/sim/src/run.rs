//! A run of a case, from the experiment to the record.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use uc_core::{Reason, Running};
use uc_experiment::{
    Case, Experiment, FlowRecord, Histogram, LinkTotals, QueueSample, RunRecord, Stalls,
};
use uc_net::{FlowCounts, LinkId, Nanos};

use crate::app::Retired;
use crate::capture::{Capture, Captured};
use crate::error::SimError;
use crate::parts::{Member, Parts, division};
use crate::plan::Plan;
use crate::sampler::{empty_records, sample_flows, sample_queue, sums};
use crate::unfinished::unfinished;
use crate::world::World;

/// Maximum virtual time between two checks of the cancel flag.
const LOOK: Nanos = Nanos::from_millis(10);

/// What a run of a case depends on: the same gives the same record, byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repetition {
    /// Number of the run, from 0.
    pub run: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Core that decides at the ports.
    pub core: Running,
    /// Number of threads, which changes no byte; 0 and 1: one. Some cases run on one thread only
    /// ([`undivided`]).
    pub threads: usize,
}

/// Returns why a run of `case` uses one thread only; `None` if several can share it.
///
/// # Errors
/// As [`check`].
pub fn undivided(experiment: &Experiment, case: &Case) -> Result<Option<&'static str>, SimError> {
    let plan = Plan::new(experiment, case, 0)?;
    Ok(division(&plan.scenario, experiment.duration, 2).err())
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
/// `progress` is called with the virtual time on the calling thread, at least every 10 ms of it.
///
/// # Errors
/// Requirements of the case that can't be met, before time zero; [`SimError::Stuck`] and
/// [`SimError::TooManyConnections`] in the run; [`SimError::Cancelled`] soon after `cancel` was
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

/// Runs `case` once as [`run_case`] does, to the same record, and writes the packets at the bottleneck
/// into a file (see [`Capture`]); of several bottlenecks, at the one whose queue is sampled.
///
/// # Errors
/// As [`run_case`]; [`SimError::Unsupported`] without a bottleneck; [`SimError::Capture`], after which
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
        let none = || SimError::Unsupported {
            what: format!("case {}: there is no bottleneck to capture at", case.name),
            mend: "run it without a capture",
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
    let capture = create(&plan)?;
    let threads = if capture.is_some() {
        1
    } else {
        repetition.threads
    };
    let divided =
        (threads > 1).then(|| division(&plan.scenario, experiment.duration, threads).ok());
    let parts = Parts::new(&plan.scenario, divided.flatten())?;
    for mut world in parts.worlds() {
        world.hosts.decide_by(repetition.core);
    }
    if let Some(capture) = capture {
        parts.world(0).hosts.start_capture(capture);
    }
    let mut run = Run {
        parts,
        flows: empty_records(&plan.labels),
        queue: Vec::new(),
        plan: &plan,
    };
    let gaps = run.follow(experiment, progress, cancel)?;
    let capture = run.parts.world(0).hosts.end_capture();
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
    parts: Parts,
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
            let now_ns = self.parts.world(0).hosts.now().0;
            if now_ns == measured_ns.start {
                before = self.gaps();
                self.time_packets(true);
            }
            if now_ns == measured_ns.end {
                within = self.gaps();
                self.time_packets(false);
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
            self.parts.run_until(Nanos(next_ns))?;
        }
        for (bins, earlier) in within.iter_mut().zip(&before) {
            for (bin, earlier) in bins.iter_mut().zip(earlier) {
                *bin -= earlier;
            }
        }
        Ok(within)
    }

    fn gaps(&mut self) -> Gaps {
        let sums = self.sums();
        sums.into_iter().map(|sums| sums.ack_gaps).collect()
    }

    /// Returns the sums over each flow's connections so far.
    fn sums(&mut self) -> Vec<Retired> {
        let mut all: Vec<Retired> = Vec::new();
        for world in self.parts.worlds() {
            let flows = world.applications.flows().iter();
            let own = flows.map(|flow| sums(&world.hosts, flow));
            if all.is_empty() {
                all = own.collect();
            } else {
                all.iter_mut()
                    .zip(own)
                    .for_each(|(sum, own)| sum.merge(&own));
            }
        }
        all
    }

    fn time_packets(&mut self, is_on: bool) {
        for mut world in self.parts.worlds() {
            world.hosts.time_packets(is_on);
        }
    }

    fn sample(&mut self) {
        sample_flows(&self.parts, self.plan, &mut self.flows);
        if let Some(&bottleneck) = self.plan.bottlenecks.first() {
            let part = self.parts.part_of_link(bottleneck);
            let mut world = self.parts.world(part);
            self.queue
                .extend(sample_queue(&mut world.hosts, bottleneck));
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
            let part = self.parts.part_of_link(link);
            let Some(report) = self.parts.world(part).hosts.link(link) else {
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

    /// Returns segments by the reasons of the ports, as `port_…` and `receiver_port_…`, unfinished
    /// flows, as `unfinished_…`, and the counters of hypervisors, as `hypervisor_…`, and of ports that
    /// hold packets, as `hold_…`.
    fn counters(&mut self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        // Only undivided hosts have any of these.
        let world = self.parts.world(0);
        let hosts = &world.hosts;
        for (name, count) in hosts.hypervisor_counts() {
            counters.insert(name.to_owned(), count);
        }
        for (name, count) in hosts.held_counts() {
            counters.insert(format!("hold_{name}"), count);
        }
        let starts = hosts.start_counts();
        if starts.is_used() {
            let named = starts.named().map(|(name, count)| (name.to_owned(), count));
            counters.extend(named);
        }
        drop(world);
        for (number, sums) in self.sums().into_iter().enumerate() {
            let ports = [
                ("port", sums.port_counts),
                ("receiver_port", sums.receiver_port_counts),
            ];
            for (port, counts) in ports {
                for (reason, count) in Reason::all().zip(counts) {
                    *counters.entry(format!("{port}_{reason}")).or_default() += count;
                }
            }
            let world = self.guest_world(number);
            let flow = &world.applications.flows()[number];
            if let Some(why) = unfinished(&world.hosts, flow) {
                let name = format!("unfinished_{}", why.label());
                *counters.entry(name).or_default() += 1;
            }
        }
        counters
    }

    fn finish(mut self, gaps: Gaps) -> Vec<FlowRecord> {
        let mut records = std::mem::take(&mut self.flows);
        let flows = records.iter_mut().zip(self.sums()).zip(gaps).enumerate();
        for (number, ((record, sums), mut gaps)) in flows {
            let mut counts = FlowCounts::default();
            for world in self.parts.worlds() {
                let own = world.hosts.flow_counts(number);
                counts.dropped_packets += own.dropped_packets;
                counts.marked_packets += own.marked_packets;
            }
            let world = self.guest_world(number);
            let (hosts, flow) = (&world.hosts, &world.applications.flows()[number]);
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
                clock_jump_ticks: machine.map_or(0, |machine| hosts.clock_jump_ticks(machine)),
                deferred_timers: sums.stalls.deferred_timers,
                filtered_samples: sums.stalls.filtered_samples,
            });
            let rtts = hosts.packet_rtts(number);
            record.packet_rtt = rtts.map(Histogram::trimmed);
        }
        records
    }

    /// Returns the world that has a flow's guest.
    fn guest_world(&self, flow: usize) -> MutexGuard<'_, Member> {
        let guest = self.plan.scenario.flows[flow].guest;
        let part = self.parts.part_of_host(guest);
        self.parts.world(part)
    }
}
