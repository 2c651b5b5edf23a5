//! The report of a sweep: a figure over its axes, rows for its points, tables for programs.

mod made_up;

use std::collections::BTreeMap;

use made_up::{keep, meta, records_of_sweep};
use uc_experiment::{Arm, Experiment, evaluate};
use uc_report::csv::{FLOW_COLUMNS, VERDICT_COLUMNS};
use uc_report::samples::SAMPLE_COLUMNS;
use uc_report::{Meta, Report};

const SWEEP: &str = include_str!("made_up/sweep.toml");
const RUNS: u32 = 3;

fn with_sweep<T>(look: impl FnOnce(Report<'_>) -> T) -> T {
    let experiment = Experiment::from_str("sweep.toml", SWEEP).expect("reads");
    experiment.validate().expect("makes sense");
    let points = experiment.points().expect("spans its points");
    let records = records_of_sweep(&points, RUNS);
    let evaluation = evaluate(&experiment, &records, Arm::Sim).expect("computes");
    let meta = Meta {
        arm: "sim".into(),
        ..meta(RUNS)
    };
    look(Report {
        experiment: &experiment,
        points: &points,
        records: &records,
        evaluation: &evaluation,
        meta: &meta,
    })
}

type Row = BTreeMap<String, String>;

fn rows(text: &[u8]) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(text);
    let header = reader.headers().expect("has a header").clone();
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.expect("has as many cells as the header");
        let cells = header.iter().zip(record.iter());
        cells
            .map(|(name, cell)| (name.to_owned(), cell.to_owned()))
            .collect()
    };
    reader.records().map(row).collect()
}

#[test]
fn the_page_of_a_sweep_draws_measures_over_its_axes() {
    with_sweep(|report| {
        let page = uc_report::html::html(&report).expect("draws");
        keep("sweep", &page);
        for title in [
            "<h2>Share of legacy to ecn, case mix</h2>",
            "<h2>Use of the link</h2>",
            "95 % confidence intervals",
            "ecn 9, red RED2, rate 10Mbit",
            "Completion times",
            "Gaps between ACKs",
            "Shown are 8 of 18 panels",
            "falls along ecn",
            "Not judged: only live is for live, and this ran on sim.",
            "simulated (sim)",
            "over 3 runs of every case at each of 18 points.",
        ] {
            assert!(page.contains(title), "no {title:?}");
        }
        for loads in ["http", "src=", "url(", "@import", "<link", "<script"] {
            assert!(!page.contains(loads), "the page has {loads:?}");
        }
        assert!(!page.contains("NaN"));
    });
}

#[test]
fn the_table_and_the_object_have_a_verdict_for_every_point() {
    with_sweep(|report| {
        let table = uc_report::table::table(&report);
        assert!(
            table
                .lines()
                .all(|line| line.chars().count() <= uc_report::table::COLUMNS)
        );
        assert!(table.contains("(red RED1, rate 10Mbit)"), "{table}");
        assert!(table.contains("not judged: only live"), "{table}");
        let text = uc_report::json::json(&report).expect("serialises");
        let object: serde_json::Value = serde_json::from_str(&text).expect("parses");
        assert_eq!(object["points"].as_array().map(Vec::len), Some(18));
        assert_eq!(object["points"][17]["ecn"], "9");
        assert_eq!(object["unjudged"][0]["name"], "only live");
        assert_eq!(
            object["results"].as_array().map(Vec::len),
            Some(report.verdicts().len())
        );
    });
}

#[test]
fn the_flows_table_has_a_row_for_every_flow_of_every_run_with_its_own_numbers() {
    with_sweep(|report| {
        let mut text = Vec::new();
        uc_report::csv::flows(&report, &mut text).expect("writes");
        let rows = rows(&text);
        let flows: usize = report.records.iter().map(|record| record.flows.len()).sum();
        assert_eq!(rows.len(), flows);
        let (record, row) = (&report.records[0], &rows[0]);
        let flow = &record.flows[0];
        assert_eq!((row["point"].as_str(), row["at_ecn"].as_str()), ("0", "1"));
        assert_eq!((&row["group"], row["flow"].as_str()), (&flow.group, "0"));
        let samples: Vec<_> = flow
            .samples
            .iter()
            .filter(|s| (5_000_000_000..=30_000_000_000).contains(&s.at_ns))
            .collect();
        let bytes = samples[samples.len() - 1].delivered_bytes - samples[0].delivered_bytes;
        assert_eq!(row["delivered_bytes"], bytes.to_string());
        assert_eq!(
            row["goodput_bps"],
            format!("{:.0}", bytes as f64 * 8.0 / 25.0)
        );
        assert_eq!(
            (
                row["transfers"].as_str(),
                row["transfers_finished"].as_str()
            ),
            ("30", "29")
        );
        assert_eq!(
            row["transfer_p99_ms"], row["transfer_max_ms"],
            "of 29 the last is the 99th"
        );
        let legacy = rows
            .iter()
            .find(|row| row["group"] == "legacy")
            .expect("one is there");
        assert_eq!(legacy["longest_ack_gap_ms"], "700");
        assert_eq!(legacy["timeouts"], "12");
    });
}

#[test]
fn the_verdicts_table_has_a_row_for_every_point_and_for_every_step_of_a_trend() {
    with_sweep(|report| {
        let mut text = Vec::new();
        uc_report::csv::verdicts(&report, &mut text).expect("writes");
        let rows = rows(&text);
        let steps = report
            .verdicts()
            .iter()
            .map(|verdict| verdict.steps.len().max(1));
        assert_eq!(rows.len(), steps.sum::<usize>());
        let trend: Vec<&Row> = rows.iter().filter(|row| row["along"] == "ecn").collect();
        assert_eq!(
            trend.len(),
            18,
            "three steps for each of three sets and two rates"
        );
        let labels: Vec<&str> = trend[..3]
            .iter()
            .map(|row| row["at_ecn"].as_str())
            .collect();
        assert_eq!(labels, ["1", "5", "9"]);
        for row in &rows {
            let number = |name: &str| row[name].parse::<f64>().expect("a number");
            assert!(number("interval_low") <= number("ours"), "{row:?}");
            assert!(number("ours") <= number("interval_high"), "{row:?}");
        }
    });
}

#[test]
fn an_uncomputable_verdict_gives_the_reason_and_does_not_hold() {
    let experiment = Experiment::from_str("sweep.toml", SWEEP).expect("reads");
    let points = experiment.points().expect("spans its points");
    let mut records = records_of_sweep(&points, RUNS);
    for record in records.iter_mut().filter(|record| record.point == 17) {
        record
            .flows
            .iter_mut()
            .for_each(|flow| flow.samples.clear());
    }
    let evaluation = evaluate(&experiment, &records, Arm::Sim).expect("judges");
    let meta = meta(RUNS);
    let report = Report {
        experiment: &experiment,
        points: &points,
        records: &records,
        evaluation: &evaluation,
        meta: &meta,
    };
    let lost: Vec<_> = report.verdicts().iter().map(|v| v.why.is_some()).collect();
    let lost_count = lost.iter().filter(|lost| **lost).count();
    assert!(
        lost_count > 0 && lost_count < lost.len(),
        "{lost_count} of {}",
        lost.len()
    );
    assert!(!report.holds());

    let text = uc_report::json::json(&report).expect("serialises");
    let object: serde_json::Value = serde_json::from_str(&text).expect("parses");
    for (result, lost) in object["results"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(&lost)
    {
        assert_eq!(result["ours"].is_null(), *lost, "{result}");
        assert_eq!(result["why"].is_string(), *lost, "{result}");
        assert!(!*lost || result["holds"] == false, "{result}");
    }
    let mut text = Vec::new();
    uc_report::csv::verdicts(&report, &mut text).expect("writes");
    let rows = rows(&text);
    let empty: Vec<&Row> = rows.iter().filter(|row| row["ours"].is_empty()).collect();
    assert_eq!(empty.len(), lost_count);
    for row in empty {
        assert_eq!(row["holds"], "false", "{row:?}");
        assert!(row["why"].contains("fewer than two samples"), "{row:?}");
    }
    let page = uc_report::html::html(&report).expect("draws");
    assert_eq!(page.matches("can&#39;t be computed").count(), lost_count);
    assert!(!page.contains("NaN"));
    let table = uc_report::table::table(&report);
    assert!(table.contains("can't be computed"), "{table}");
    assert!(table.contains("fewer than two"), "{table}");
}

#[test]
fn every_column_is_documented() {
    let of_tables: Vec<&str> = [&FLOW_COLUMNS[..], &VERDICT_COLUMNS].concat();
    for (name, columns) in [
        ("results.md", &of_tables[..]),
        ("sweeps.md", &SAMPLE_COLUMNS),
    ] {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(path).expect("is there");
        for column in columns {
            let is_there = document.contains(&format!("`{column}`"));
            assert!(is_there, "docs/{name} lacks `{column}`");
        }
    }
}

#[test]
fn table_of_samples_has_a_row_for_each_sample_of_each_flow() {
    with_sweep(|report| {
        let mut text = Vec::new();
        uc_report::samples::flows(&report, &mut text).expect("writes");
        let rows = rows(&text);
        let flows = report.records.iter().flat_map(|record| &record.flows);
        let samples: Vec<_> = flows.flat_map(|flow| &flow.samples).collect();
        assert_eq!(rows.len(), samples.len());
        for (row, sample) in rows.iter().zip(samples) {
            assert_eq!(row["at_ns"], sample.at_ns.to_string());
            assert_eq!(row["delivered_bytes"], sample.delivered_bytes.to_string());
            let shadow = sample.shadow_window_bytes;
            assert_eq!(row["shadow_window_bytes"].parse().ok(), shadow);
        }
        assert_eq!(
            rows[0]["at_rate"],
            report.points[0].label("rate").unwrap_or_default()
        );
    });
}
