//! A page of runs in which ports observe, packets are timed and hosts send to one another.

mod made_up;

use std::path::Path;

use made_up::{keep, meta, noise, records};
use uc_experiment::{Arm, Experiment, FlowRecord, Histogram, RunRecord, evaluate};
use uc_report::Report;

/// Loads the committed file's experiment.
fn observed() -> Experiment {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/made_up/observed.toml");
    let experiment = Experiment::load(path).unwrap_or_else(|error| panic!("{error}"));
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    experiment
}

/// Adds round-trip times of packets to every flow, and a shadow with all three α to the long ones.
fn with_estimates(flow: &mut FlowRecord) {
    let mut times = Histogram::default();
    let salt = u64::from(flow.index);
    (0..2_000).for_each(|i| times.record(1_000_000 + (3e6 * noise(i, salt)) as u64));
    flow.packet_rtt = Some(times);
    if flow.group != "long" {
        return;
    }
    for (i, sample) in (0..).zip(&mut flow.samples) {
        let alpha_q30 = |salt| Some((f64::from(1 << 29) * (0.5 + noise(i, salt))) as u32);
        sample.shadow_window_bytes = Some((sample.cwnd_segments + 1) * sample.mss_bytes);
        sample.shadow_alpha_q30 = alpha_q30(1);
        sample.exact_alpha_q30 = alpha_q30(2);
        sample.guest_alpha_q30 = alpha_q30(3);
    }
}

fn with_observed<T>(change: impl Fn(&mut FlowRecord), look: impl FnOnce(Report<'_>) -> T) -> T {
    let experiment = observed();
    let points = experiment.points().expect("spans its points");
    let mut records: Vec<RunRecord> = records(&points, 2);
    let flows = records.iter_mut().flat_map(|record| &mut record.flows);
    flows.for_each(change);
    let evaluation = evaluate(&experiment, &records, Arm::Sim).expect("computes");
    let meta = meta(2);
    look(Report {
        experiment: &experiment,
        points: &points,
        records: &records,
        evaluation: &evaluation,
        meta: &meta,
    })
}

const WINDOWS: &str = "The shadow&#39;s window beside the guest&#39;s";

#[test]
fn a_page_draws_round_trips_shadows_and_alphas() {
    with_observed(with_estimates, |report| {
        let page = uc_report::html::html(&report).expect("draws");
        keep("observed", &page);
        for words in [
            "Round-trip times of packets",
            WINDOWS,
            "α over time",
            "of a sender that knows every mark",
            "error of the window",
        ] {
            assert!(page.contains(words), "no {words:?}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""));
        // A guest that is only observed is not drawn as translated.
        assert!(page.contains("ECN flow"), "no native flow in the legend");
    });
}

#[test]
fn figures_of_unrecorded_values_are_omitted_and_legends_name_what_is_drawn() {
    let without_marks = |flow: &mut FlowRecord| {
        with_estimates(flow);
        flow.packet_rtt = None;
        let samples = flow.samples.iter_mut();
        samples.for_each(|sample| sample.exact_alpha_q30 = None);
    };
    with_observed(without_marks, |report| {
        let page = uc_report::html::html(&report).expect("draws");
        assert!(!page.contains("Round-trip times of packets"));
        assert!(!page.contains("knows every mark"));
        assert!(page.contains("α over time") && page.contains(WINDOWS));
    });
    with_observed(
        |_| {},
        |report| {
            let page = uc_report::html::html(&report).expect("draws");
            assert!(!page.contains("α over time") && !page.contains(WINDOWS));
        },
    );
}

#[test]
fn the_set_up_names_patterns_parameters_and_receivers() {
    with_observed(with_estimates, |report| {
        let page = uc_report::html::html(&report).expect("draws");
        for words in [
            "One switch with 3 hosts",
            "law dctcp on the port, beta 0.5, echo classic, observe true",
            "each to the hosts 1 further",
            "stopping at 9s",
            "a message of 16kB every 100ms",
            "each to all others in random order, 2 at a time",
            "each to a random other host",
            "one after the other",
            "law delay on the port, target 1ms",
            "all to host 1",
            "receivers of stack dc",
            "programs that pass everything on the receivers&#39; ports",
        ] {
            assert!(page.contains(words), "no {words:?}");
        }
    });
}

/// Returns the cell of this column in the table of flows for the first flow of the group `long`.
fn cell_of_long(report: &Report<'_>, name: &str) -> String {
    let mut table = Vec::new();
    uc_report::csv::flows(report, &mut table).expect("writes");
    let text = String::from_utf8(table).expect("is text");
    let mut rows = text
        .lines()
        .map(|line| line.split(',').collect::<Vec<&str>>());
    let header = rows.next().expect("a header");
    let column = |name| header.iter().position(|cell| *cell == name).expect(name);
    let (group, cell) = (column("group"), column(name));
    let long = rows.find(|row| row[group] == "long").expect("a row");
    long[cell].to_owned()
}

#[test]
fn the_send_window_of_an_observed_flow_is_the_guests_own() {
    with_observed(with_estimates, |report| {
        let window = cell_of_long(&report, "send_window_segments");
        let flow = &report.records[0].flows[0];
        let measured = flow.samples.iter().filter(|s| s.at_ns >= 2_000_000_000);
        let windows: Vec<f64> = measured.map(|s| f64::from(s.cwnd_segments)).collect();
        let (_, all_but_last) = windows.split_last().expect("samples");
        let mean = all_but_last.iter().sum::<f64>() / all_but_last.len() as f64;
        let found: f64 = window.parse().expect("a number");
        assert!((found - mean).abs() < 0.01, "{found} for {mean}");
    });
}

#[test]
fn samples_without_a_round_trip_time_do_not_count_in_its_mean() {
    let with_srtts = |srtts_us: [u32; 4]| {
        let change = move |flow: &mut FlowRecord| {
            let times_us = srtts_us.iter().cycle();
            for (sample, srtt_us) in flow.samples.iter_mut().zip(times_us) {
                sample.srtt_us = *srtt_us;
            }
        };
        with_observed(change, |report| cell_of_long(&report, "srtt_us"))
    };
    assert_eq!(with_srtts([0, 80_000, 0, 80_000]), "80000.0");
    assert_eq!(with_srtts([0; 4]), "");
}
