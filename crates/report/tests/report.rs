//! Table, object and page of committed experiments on made-up runs. The pages are left in cargo's
//! temporary folder, to be looked at.

use std::path::{Path, PathBuf};

use uc_experiment::{
    Case, Experiment, FlowRecord, FlowSample, Law, QueueSample, RunRecord, Verdict, evaluate,
};
use uc_report::{Meta, Report};

const MSS_BYTES: u32 = 1448;

fn load(name: &str) -> Experiment {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vcc");
    let experiment = Experiment::load(root.join(format!("{name}.toml"))).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

/// A number in [0, 1) that looks random and is always the same.
fn noise(a: u64, b: u64) -> f64 {
    let mixed = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A flow with a sawtooth for a window: `share` of 1 Mbit/s, read every `sample_ns`.
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
    }
}

fn record(experiment: &Experiment, case: &Case, run: u32) -> RunRecord {
    let mut flows = Vec::new();
    for guests in &case.guests {
        for index in 0..guests.total_flows() {
            let salt = u64::from(run) * 100 + flows.len() as u64;
            let law = guests.law == Some(Law::Ecn);
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

fn records(experiment: &Experiment, runs: u32) -> Vec<RunRecord> {
    let cases = experiment.cases.iter();
    cases
        .flat_map(|case| (0..runs).map(move |run| record(experiment, case, run)))
        .collect()
}

fn meta(runs: u32) -> Meta {
    Meta {
        arm: "live".into(),
        seed: 7,
        commit: "0123abc".into(),
        runs,
        command: "uc run experiments/vcc/fig11.toml --on live --seed 7".into(),
    }
}

fn with_report<T>(name: &str, runs: u32, look: impl FnOnce(Report<'_>) -> T) -> T {
    let experiment = load(name);
    let records = records(&experiment, runs);
    let verdicts = evaluate(&experiment, &records).expect("computes");
    let meta = meta(runs);
    look(Report {
        experiment: &experiment,
        records: &records,
        verdicts: &verdicts,
        meta: &meta,
    })
}

fn keep(name: &str, page: &str) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(path, page).expect("cargo's temporary folder is writable");
}

#[test]
fn a_page_names_every_verdict_and_loads_nothing() {
    for (name, runs) in [("fig1", 12), ("fig9", 2), ("fig10", 3), ("fig11", 3)] {
        with_report(name, runs, |report| {
            let page = uc_report::html::html(&report).expect("draws");
            keep(name, &page);
            for verdict in report.verdicts {
                let escaped = verdict.name.replace('\'', "&#39;");
                assert!(page.contains(&escaped), "{name}: no {:?}", verdict.name);
            }
            for loads in ["http", "src=", "url(", "@import", "<link", "<script"] {
                assert!(!page.contains(loads), "{name}: the page has {loads:?}");
            }
            let panels = page.matches("<svg ").count();
            // Densities need runs, bars need more than one flow.
            let per_case = 4 + usize::from(runs >= 10) - usize::from(name == "fig9");
            assert_eq!(panels, per_case * report.experiment.cases.len(), "{name}");
            assert_eq!(panels, page.matches("</svg>").count(), "{name}");
            assert!(!page.contains("NaN") && !page.contains("inf\""), "{name}");
        });
    }
}

#[test]
fn whatever_people_write_is_escaped() {
    with_report("fig9", 2, |report| {
        let mut experiment = report.experiment.clone();
        experiment.title = "<b>&\"'".into();
        experiment.cases[0].title = Some("</figcaption><i>".into());
        let mut verdicts = report.verdicts.to_vec();
        verdicts[0].name = "<u>".into();
        let meta = Meta {
            command: "uc <x>".into(),
            ..report.meta.clone()
        };
        let changed = Report {
            experiment: &experiment,
            verdicts: &verdicts,
            meta: &meta,
            records: report.records,
        };
        let page = uc_report::html::html(&changed).expect("draws");
        assert!(page.contains("&lt;b&gt;&amp;&quot;&#39;"));
        for raw in ["<b>", "</figcaption><i>", "<u>", "<x>"] {
            assert!(!page.contains(raw), "{raw} stands in the page");
        }
    });
}

#[test]
fn the_object_has_exactly_its_keys() {
    with_report("fig11", 3, |report| {
        let text = uc_report::json::json(&report).expect("serialises");
        let object: serde_json::Value = serde_json::from_str(&text).expect("parses");
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<String> = value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect();
            keys.sort();
            keys
        };
        let top = [
            "arm",
            "commit",
            "experiment",
            "holds",
            "results",
            "runs",
            "seed",
        ];
        assert_eq!(keys(&object), top);
        let results = object["results"].as_array().expect("a list");
        assert_eq!(results.len(), report.experiment.expects.len());
        for result in results {
            assert_eq!(
                keys(result),
                ["expect", "holds", "name", "ours", "paper", "spread"]
            );
        }
        assert_eq!(object["experiment"], "vcc/fig11");
        assert_eq!(object["holds"], report.holds());
        assert_eq!(results[4]["expect"], "0.95–1.05");
        assert_eq!(results[1]["paper"], 0.142);
        assert_eq!(results[0]["paper"], serde_json::Value::Null);
    });
}

#[test]
fn the_table_fits_and_is_aligned() {
    with_report("fig9", 2, |report| {
        let mut verdicts: Vec<Verdict> = report.verdicts.to_vec();
        verdicts[1].name = "a name that goes on and on ".repeat(6);
        verdicts[2].name = "x".repeat(150);
        verdicts[3].holds = false;
        let report = Report {
            verdicts: &verdicts,
            ..report
        };
        let table = uc_report::table::table(&report);
        for line in table.lines() {
            let columns = line.chars().count();
            assert!(
                columns <= uc_report::table::COLUMNS,
                "{columns} columns: {line}"
            );
        }
        let ends: Vec<usize> = table
            .lines()
            .filter(|line| line.ends_with("yes") || line.ends_with("NO"))
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(ends.len(), verdicts.len());
        assert!(ends.iter().all(|end| *end == ends[0]), "{table}");
        assert!(table.ends_with("4 of 5 expectations hold\n"), "{table}");
    });
}

#[test]
fn a_single_run_has_no_spread_and_an_experiment_without_expectations_is_told_too() {
    with_report("fig10", 1, |report| {
        let table = uc_report::table::table(&report);
        assert!(table.contains("1 run of every case"), "{table}");
        assert_eq!(
            table.matches('±').count(),
            1,
            "only the header has one: {table}"
        );
        let mut experiment = report.experiment.clone();
        experiment.expects.clear();
        let bare = Report {
            experiment: &experiment,
            verdicts: &[],
            ..report
        };
        assert!(bare.holds());
        let page = uc_report::html::html(&bare).expect("draws");
        assert!(page.contains("Nothing was expected of 1 run of every case."));
    });
}

#[test]
fn records_without_samples_are_drawn_as_nothing() {
    with_report("fig10", 1, |report| {
        let mut records = report.records.to_vec();
        for record in &mut records {
            record.queue.clear();
            record
                .flows
                .iter_mut()
                .for_each(|flow| flow.samples.clear());
        }
        let page = uc_report::html::html(&Report {
            records: &records,
            ..report
        })
        .expect("draws");
        assert!(!page.contains("NaN"));
    });
}
