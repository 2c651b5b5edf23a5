//! Made-up runs of committed and made-up experiments. The pages made of them are left in cargo's
//! temporary folder, for inspection.
#![allow(dead_code, reason = "every test program uses its own part")]

use std::path::{Path, PathBuf};

use uc_experiment::{
    Arm, Case, Completion, Experiment, FlowRecord, FlowSample, Law, Point, QueueSample, RunRecord,
    evaluate,
};
use uc_report::{Meta, Report};

const MSS_BYTES: u32 = 1448;

pub fn load(name: &str) -> Experiment {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vcc");
    let experiment = Experiment::load(root.join(format!("{name}.toml"))).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

/// Returns a number in [0, 1) that looks random and is always the same.
pub fn noise(a: u64, b: u64) -> f64 {
    let mixed = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Makes up a flow with a sawtooth for a window: `share` of 1 Mbit/s, read every `sample_ns`.
fn flow(experiment: &Experiment, group: &str, index: u32, law: bool, salt: u64) -> FlowRecord {
    let share = if group == "legacy" { 0.2 } else { 0.95 };
    let period_ns = 2_200_000_000;
    let mut delivered = 0.0;
    let mut samples = Vec::new();
    for i in 0..=experiment.duration.0 / experiment.sample.0 {
        let at_ns = i * experiment.sample.0;
        let phase = ((at_ns + salt * 700_000_000) % period_ns) as f64 / period_ns as f64;
        let window = 31.0 + 31.0 * phase;
        let rate_bps = share * 1e6 * (0.55 + 0.6 * phase + 0.3 * noise(salt, i));
        delivered += rate_bps * experiment.sample.as_secs_f64() / 8.0;
        let window_bytes = (window * f64::from(MSS_BYTES)) as u32;
        samples.push(FlowSample {
            at_ns,
            delivered_bytes: delivered as u64,
            cwnd_segments: if law { 118 } else { window as u32 },
            snd_wnd_bytes: if law { window_bytes } else { 3_000_000 },
            srtt_us: 75_000,
            unacked_segments: window as u32,
            bytes_sent: delivered as u64,
            bytes_retransmitted: if group == "legacy" {
                delivered as u64 / 40
            } else {
                0
            },
            total_retransmits: 0,
            mss_bytes: MSS_BYTES,
            shadow_window_bytes: law.then_some(window_bytes),
            ..FlowSample::default()
        });
    }
    let negotiated_ecn = group == "ecn" || group == "tenth";
    FlowRecord {
        group: group.into(),
        index,
        samples,
        negotiated_ecn,
        drops: 0,
        marks: 40,
        ..FlowRecord::default()
    }
}

/// Adds short transfers, the last of which is unfinished, and gaps between ACKs that include
/// timeouts.
fn with_transfers(flow: FlowRecord, salt: u64) -> FlowRecord {
    let legacy = flow.group == "legacy";
    let transfer = |i: u64| {
        let time_ms = 2.0 / (1.0 - noise(salt, i))
            + if legacy && i.is_multiple_of(5) {
                300.0
            } else {
                0.0
            };
        Completion {
            started_ns: i * 1_000_000_000,
            finished_ns: (i < 29).then_some(i * 1_000_000_000 + (time_ms * 1e6) as u64),
            bytes: 20_000,
            ideal_ns: None,
        }
    };
    let (short, long) = if legacy { (900, 12) } else { (4_000, 0) };
    FlowRecord {
        completions: (0..30).map(transfer).collect(),
        timeouts: Some(long),
        ack_gaps: Some(vec![short, 2 * long, long, 0, 0, 0, long / 3, 0]),
        ..flow
    }
}

fn record(experiment: &Experiment, case: &Case, run: u32) -> RunRecord {
    let mut flows = Vec::new();
    for guests in &case.guests {
        for index in 0..guests.total_flows() {
            let salt = u64::from(run) * 100 + flows.len() as u64;
            let law = guests.law == Some(Law::ECN);
            flows.push(flow(experiment, &guests.name, index, law, salt));
        }
    }
    let sample = |i: u64| QueueSample {
        at_ns: i * experiment.sample.0,
        backlog_bytes: (80_000.0 + 16_000.0 * noise(i, 7)) as u64,
        backlog_packets: 60,
        average_bytes: Some((84_000.0 + 6_000.0 * noise(i, 9)) as u64),
    };
    let queue = (0..=experiment.duration.0 / experiment.sample.0)
        .map(sample)
        .collect();
    RunRecord {
        case: case.name.clone(),
        run,
        flows,
        queue,
        ..RunRecord::default()
    }
}

pub fn records(points: &[Point], runs: u32) -> Vec<RunRecord> {
    let of_point = |point: &Point| {
        let (number, experiment) = (point.number, &point.experiment);
        let runs_of = |case: &Case| {
            let runs = (0..runs).map(|run| RunRecord {
                point: number,
                ..record(experiment, case, run)
            });
            runs.collect::<Vec<RunRecord>>()
        };
        experiment
            .cases
            .iter()
            .flat_map(runs_of)
            .collect::<Vec<RunRecord>>()
    };
    points.iter().flat_map(of_point).collect()
}

/// Makes up records with transfers, in which the legacy flows get less the more ECN flows there
/// are.
pub fn records_of_sweep(points: &[Point], runs: u32) -> Vec<RunRecord> {
    let mut records = records(points, runs);
    for record in &mut records {
        let point = points.iter().find(|point| point.number == record.point);
        let ecn = point.and_then(|point| point.label("ecn")?.parse().ok());
        let starved = 1.0 / (1.0 + ecn.unwrap_or(1.0f64) * (1.0 + f64::from(record.point % 3)));
        for (salt, flow) in (u64::from(record.run) * 77..).zip(&mut record.flows) {
            *flow = with_transfers(std::mem::take(flow), salt);
            if flow.group == "legacy" {
                let part =
                    |bytes: u64| (bytes as f64 * starved * (0.9 + 0.2 * noise(salt, 5))) as u64;
                flow.samples
                    .iter_mut()
                    .for_each(|s| s.delivered_bytes = part(s.delivered_bytes));
            }
        }
    }
    records
}

pub fn meta(runs: u32) -> Meta {
    Meta {
        arm: "live".into(),
        seed: 7,
        commit: "0123abc".into(),
        runs,
        command: "uc-bench run experiments/vcc/fig11.toml --on live --seed 7".into(),
    }
}

pub fn with_report<T>(name: &str, runs: u32, look: impl FnOnce(Report<'_>) -> T) -> T {
    let experiment = load(name);
    let points = experiment.points().expect("spans its points");
    let records = records(&points, runs);
    let evaluation = evaluate(&experiment, &records, Arm::Live).expect("computes");
    let meta = meta(runs);
    look(Report {
        experiment: &experiment,
        points: &points,
        records: &records,
        evaluation: &evaluation,
        meta: &meta,
    })
}

pub fn keep(name: &str, page: &str) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(path, page).expect("cargo's temporary folder is writable");
}
