//! Measures of windows, α and packets' round-trip times, and parts of a run, on made-up records
//! with known results.

use uc_experiment::{
    Arm, Completion, Experiment, FlowRecord, FlowSample, Histogram, Measure, QueueSample,
    Repetition, RunRecord, evaluate,
};

const MS: u64 = 1_000_000;
const ONE_Q30: u32 = 1 << 30;

fn experiment(measure: &str) -> Experiment {
    let text = format!(
        r#"
name = "t"
title = "t"
duration = "10s"
settle = "2s"
tail = "1s"
stack = {{ s = {{ congestion_control = "dctcp" }} }}
[network]
topology = "dumbbell"
rate = "10Mbit"
delay = "1ms"
queue = {{ kind = "droptail", limit = "1MB" }}
[[case]]
name = "a"
[[case.guests]]
name = "seen"
count = 2
stack = "s"
law = "dctcp"
parameters = {{ observe = true }}
[[case.guests]]
name = "mice"
stack = "s"
application = {{ messages = {{ sizes = [["1kB", 0.5], ["1MB", 1.0]] }} }}
[[expect]]
name = "m"
at_least = -1
measure = {measure}"#
    );
    let experiment = Experiment::from_str("t", &text).unwrap_or_else(|error| panic!("{error}"));
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    experiment
}

fn measure(record: &RunRecord, text: &str) -> Result<f64, String> {
    let experiment = experiment(text);
    let measure: &Measure = &experiment.expects[0].measure;
    let repetition = Repetition::of(&experiment, std::slice::from_ref(record), 0);
    repetition
        .measure(measure)
        .map_err(|error| error.to_string())
}

fn near(found: Result<f64, String>, expected: f64) {
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        (found - expected).abs() < 1e-9,
        "found {found}, expected {expected}"
    );
}

/// Makes up a flow whose windows, in bytes of a segment of 1,000, and α alternate from sample to
/// sample, one a second; it delivers `rate_bps` until 5 s and a fourth of it from then on.
fn flow(index: u32, rate_bps: u64, windows: [(u32, u32); 2], alphas: [[u32; 3]; 2]) -> FlowRecord {
    let sample = |second: u64| {
        let odd = (second % 2) as usize;
        let (cwnd_segments, shadow_bytes) = windows[odd];
        let [shadow, exact, guest] = alphas[odd].map(|eighths| Some(eighths * (ONE_Q30 / 8)));
        let bits = rate_bps * second.min(5) + rate_bps / 4 * second.saturating_sub(5);
        FlowSample {
            at_ns: second * 1_000 * MS,
            delivered_bytes: bits / 8,
            cwnd_segments,
            mss_bytes: 1_000,
            shadow_window_bytes: Some(shadow_bytes),
            shadow_alpha_q30: shadow,
            exact_alpha_q30: exact,
            guest_alpha_q30: guest,
            ..FlowSample::default()
        }
    };
    FlowRecord {
        group: "seen".into(),
        index,
        samples: (0..=10).map(sample).collect(),
        ..FlowRecord::default()
    }
}

fn histogram(times_us: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    times_us.iter().for_each(|us| histogram.record(us * 1_000));
    histogram
}

fn record() -> RunRecord {
    let mut first = flow(
        0,
        800_000,
        [(10, 9_999), (8, 10_500)],
        [[2, 4, 4], [4, 4, 2]],
    );
    let mut second = flow(
        1,
        800_000,
        [(10, 10_000), (10, 10_999)],
        [[1, 1, 1], [3, 3, 3]],
    );
    first.packet_rtt = Some(histogram(&[100, 100, 100]));
    second.packet_rtt = Some(histogram(&[100, 500]));
    let transfer = |started_ms: u64, took_ms: Option<u64>, bytes: u64| Completion {
        started_ns: started_ms * MS,
        finished_ns: took_ms.map(|took_ms| (started_ms + took_ms) * MS),
        bytes,
        ideal_ns: None,
    };
    let samples = flow(0, 80_000, [(1, 1_000); 2], [[0; 3]; 2]).samples;
    let mice = FlowRecord {
        group: "mice".into(),
        completions: vec![
            transfer(2_000, Some(3), 9_999),
            transfer(3_000, Some(100), 10_000),
            transfer(4_000, Some(300), 99_999),
            transfer(5_000, None, 100_000),
            transfer(6_000, Some(5), 1_000),
        ],
        samples,
        ..FlowRecord::default()
    };
    let backlog = |(second, backlog_packets): (u64, u32)| QueueSample {
        at_ns: second * 1_000 * MS,
        backlog_packets,
        ..QueueSample::default()
    };
    RunRecord {
        case: "a".into(),
        flows: vec![first, second, mice],
        queue: [(1, 50), (3, 10), (4, 20), (6, 90)].map(backlog).to_vec(),
        ..RunRecord::default()
    }
}

fn of_seen(text: &str) -> Result<f64, String> {
    measure(
        &record(),
        &format!("{{ case = \"a\", of = \"seen\", {text} }}"),
    )
}

#[test]
fn the_error_of_a_window_is_in_whole_segments_over_the_guests() {
    // Measured are the seconds 2 to 9, four of them even. The first flow's shadow is 9 for 10, and
    // 10 for 8; the second's is 10 for 10.
    near(of_seen("kind = \"window_error\""), (0.1 + 0.25) / 2.0 / 2.0);
    near(
        of_seen("kind = \"window_error\", signed = true"),
        (-0.1 + 0.25) / 2.0 / 2.0,
    );
}

#[test]
fn alphas_are_means_over_samples_and_then_over_flows() {
    near(of_seen("kind = \"alpha\""), (3.0 + 2.0) / 2.0 / 8.0);
    near(
        of_seen("kind = \"alpha\", which = \"exact\""),
        (4.0 + 2.0) / 2.0 / 8.0,
    );
    near(
        of_seen("kind = \"alpha\", which = \"guest\""),
        (3.0 + 2.0) / 2.0 / 8.0,
    );
}

#[test]
fn the_error_of_alpha_is_a_mean_distance_over_a_mean() {
    // The first flow: 2 for 4 and 4 for 4; the second is exact.
    near(of_seen("kind = \"alpha_error\""), 1.0 / 4.0 / 2.0);
    // Two above and two below do not cancel.
    near(
        of_seen("kind = \"alpha_error\", against = \"guest\""),
        2.0 / 3.0 / 2.0,
    );
}

#[test]
fn packet_round_trip_times_cover_all_flows_of_the_group() {
    near(of_seen("kind = \"packet_rtt\""), 900e-6 / 5.0);
    near(
        of_seen("kind = \"packet_rtt\", statistic = \"max\""),
        500e-6,
    );
    let median = of_seen("kind = \"packet_rtt\", statistic = \"p50\"").expect("computes");
    assert!(
        (100e-6..=100e-6 * (1.0 + 1.0 / 128.0)).contains(&median),
        "{median}"
    );
}

#[test]
fn during_replaces_the_measured_part() {
    let whole = of_seen("kind = \"goodput\"");
    near(whole, (3.0 * 800_000.0 + 4.0 * 200_000.0) / 7.0);
    near(
        of_seen("kind = \"goodput\", during = [\"0s\", \"5s\"]"),
        800_000.0,
    );
    near(
        of_seen("kind = \"goodput\", during = [\"5s\", \"10s\"]"),
        200_000.0,
    );
    near(
        of_seen("kind = \"share\", to = \"mice\", during = [\"1s\", \"4s\"]"),
        10.0,
    );
    let of = |text: &str| measure(&record(), &format!("{{ case = \"a\", {text} }}"));
    near(of("kind = \"queue\", during = [\"3s\", \"5s\"]"), 15.0);
    near(
        of("kind = \"utilisation\", during = [\"6s\", \"9s\"]"),
        420_000.0 / 1e7 * (1_000.0 + 66.0) / 1_000.0,
    );
}

#[test]
fn jain_can_be_of_some_groups_only() {
    let of = |text: &str| {
        measure(
            &record(),
            &format!("{{ case = \"a\", kind = \"jain\"{text} }}"),
        )
    };
    // 10, 10 and 1.
    near(of(""), 441.0 / (3.0 * 201.0));
    near(of(", of = [\"seen\"], during = [\"2s\", \"4s\"]"), 1.0);
    near(of(", of = [\"mice\", \"seen\"]"), 441.0 / (3.0 * 201.0));
}

#[test]
fn a_class_of_sizes_begins_with_its_first_and_ends_below_its_second() {
    let of = |kind: &str, sizes: &str| {
        let text = format!("{{ kind = \"{kind}\", case = \"a\", of = \"mice\", sizes = {sizes} }}");
        measure(&record(), &text)
    };
    near(of("fct", "[\"0B\", \"10kB\"]"), 0.004);
    near(of("fct", "[\"10kB\", \"100kB\"]"), 0.2);
    near(of("unfinished", "[\"10kB\", \"100kB\"]"), 0.0);
    near(of("unfinished", "[\"100kB\", \"1MB\"]"), 1.0);
    assert_eq!(
        of("fct", "[\"1MB\", \"2MB\"]").expect_err("none is as large"),
        "case `a`, repetition 0: no transfer of group `mice` in the measured part is of these \
         sizes; give it more time"
    );
}

#[test]
fn unrecorded_values_are_errors_that_name_what_is_missing() {
    let mut bare = record();
    for flow in &mut bare.flows {
        flow.packet_rtt = None;
        for sample in &mut flow.samples {
            *sample = FlowSample {
                at_ns: sample.at_ns,
                ..FlowSample::default()
            };
        }
    }
    let mut silent = record();
    for flow in &mut silent.flows {
        flow.packet_rtt = Some(Histogram::default());
        let samples = &mut flow.samples;
        samples.iter_mut().for_each(|s| s.exact_alpha_q30 = Some(0));
    }
    let flow = "case `a`, repetition 0: flow 0 of group `seen` has";
    let cases = [
        (
            &bare,
            "packet_rtt",
            format!("{flow} no round trips of packets; run it --on sim"),
        ),
        (
            &bare,
            "window_error",
            format!(
                "{flow} no sample with both a congestion window and the window of a shadow; give \
                 the flow's port a law"
            ),
        ),
        (
            &bare,
            "alpha",
            format!("{flow} no α of a shadow in its samples"),
        ),
        (
            &bare,
            "alpha_error",
            format!("{flow} no α of a shadow in its samples"),
        ),
        (
            &silent,
            "packet_rtt",
            "case `a`, repetition 0: no packet of group `seen` was sent once and acknowledged in \
             the measured part; give it more time, or a shorter settle"
                .into(),
        ),
        (
            &silent,
            "alpha_error",
            "case `a`, repetition 0: the α that flow 0 of group `seen` is held against is 0, and \
             nothing can be divided by it"
                .into(),
        ),
    ];
    for (record, kind, expected) in cases {
        let text = format!("{{ case = \"a\", of = \"seen\", kind = \"{kind}\" }}");
        assert_eq!(measure(record, &text).expect_err(kind), expected);
    }
}

#[test]
fn only_the_simulator_knows_every_mark_and_every_packet() {
    let judged = |text: &str| {
        let text = format!("{{ case = \"a\", of = \"seen\", {text} }}");
        let experiment = experiment(&text);
        let found = evaluate(&experiment, &[record()], Arm::Live).expect("computes");
        found.verdicts.len()
    };
    assert_eq!(judged("kind = \"packet_rtt\""), 0);
    assert_eq!(judged("kind = \"alpha\", which = \"exact\""), 0);
    assert_eq!(judged("kind = \"alpha_error\""), 0);
    assert_eq!(judged("kind = \"alpha_error\", against = \"guest\""), 1);
    assert_eq!(judged("kind = \"alpha\""), 1);
    assert_eq!(judged("kind = \"window_error\""), 1);
}
