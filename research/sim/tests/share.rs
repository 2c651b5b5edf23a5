//! `share` in addition to a law (vCC's figure 12): the flows of one port divide the sum of their
//! windows by weight, at 100 Mb/s and a round trip of 8 ms.

use crate::common::{again, experiment_with, group, measure, run};
use uc_experiment::{Experiment, FlowRecord, RunRecord};

const HOST: &str = r#"
name = "sim/share"
title = "share"
duration = "12s"
settle = "2s"
sample = "5ms"
[network]
rate = "100Mbit"
access_rate = "400Mbit"
delay = "2ms"
queue = { kind = "threshold", limit = "1MB", mark = "60kB", not_ect = "queue" }
[stack.guest]
congestion_control = "reno"
"#;

const MSS: f64 = 1448.0;
const TOTAL: f64 = 192_000.0;

/// Each law tested with `share`, and the keys of its guests' and receivers' ports.
const LAWS: [(&str, &str); 3] = [
    ("ecn", "law = \"ecn\""),
    ("dctcp", "law = \"dctcp\""),
    (
        "delay",
        "law = \"delay\"\nparameters = { target = \"12ms\" }",
    ),
];

fn at_test(record: &RunRecord) -> String {
    again(record, "share")
}

fn keys(law: &str) -> String {
    let receivers = if law == "delay" { "ecn" } else { law };
    format!("receiver_law = \"{receivers}\"")
}

/// Formats flows of the one guest, of this weight.
fn flows(name: &str, law: &str, weight: u8, rest: &str) -> String {
    let share = format!("share = {{ group = \"port\", guest = \"vm\", priority = {weight} }}");
    group(name, &format!("stack = \"guest\"\n{law}\n{share}\n{rest}"))
}

/// Builds the figure: three unpreferred flows, and two of three times their weight from 4 s to 8 s.
fn figure(law: &str, law_keys: &str, keys_more: &str) -> Experiment {
    let groups = [
        flows("unpreferred", law_keys, 1, "flows = 3"),
        flows(
            "preferred",
            law_keys,
            3,
            "flows = 2\nstart = \"4s\"\nstop = \"8s\"",
        ),
    ];
    experiment_with(HOST, &format!("{}\n{keys_more}", keys(law)), &groups)
}

/// Returns the mean goodput of a group's flows, as a fraction of all flows' goodput.
fn part(experiment: &Experiment, record: &RunRecord, of: &str, during: [u32; 2]) -> f64 {
    let goodput = |of: &str| {
        let [from, to] = during;
        let text = format!(
            "kind = \"goodput\"\ncase = \"only\"\nof = \"{of}\"\nduring = [\"{from}ms\", \"{to}ms\"]"
        );
        measure(experiment, record, &text)
    };
    let flows = |of: &str| record.flows.iter().filter(|flow| flow.group == of).count() as f64;
    let groups = ["unpreferred", "preferred"];
    let all: f64 = groups.iter().map(|of| goodput(of) * flows(of)).sum();
    goodput(of) / all
}

fn used(experiment: &Experiment, record: &RunRecord, [from, to]: [u32; 2]) -> f64 {
    let during = format!("during = [\"{from}ms\", \"{to}ms\"]");
    let text = format!("kind = \"utilisation\"\ncase = \"only\"\n{during}");
    measure(experiment, record, &text)
}

fn near(found: f64, wanted: f64) -> bool {
    (found / wanted - 1.0).abs() <= 0.05
}

fn check_figure(law: &str, experiment: &Experiment, record: &RunRecord) {
    let again = at_test(record);
    let part = |of: &str, during| part(experiment, record, of, during);
    // alone, from a second after the others have joined, and from a second after they have left
    let seen = [
        (part("unpreferred", [2_000, 4_000]), 1.0 / 3.0),
        (part("unpreferred", [5_000, 8_000]), 1.0 / 9.0),
        (part("preferred", [5_000, 8_000]), 1.0 / 3.0),
        (part("unpreferred", [9_000, 12_000]), 1.0 / 3.0),
    ];
    let total = [[2_000, 4_000], [5_000, 8_000], [9_000, 12_000]];
    let total = total.map(|during| used(experiment, record, during));
    println!("{law}: {seen:?}, of the link {total:?}");
    for (found, wanted) in seen {
        assert!(near(found, wanted), "law {law}: {seen:?}; {again}");
    }
    for used in total {
        assert!(
            (used / total[0] - 1.0).abs() <= 0.03,
            "law {law}: {total:?}; {again}"
        );
    }
}

#[test]
fn three_flows_drop_from_a_third_to_a_ninth_and_two_preferred_get_a_third_with_each_law() {
    for (number, (law, law_keys)) in (1..).zip(LAWS) {
        let experiment = figure(law, law_keys, "");
        check_figure(law, &experiment, &run(&experiment, number));
    }
}

/// Returns the sum of the windows of the port's flows at a sample.
fn sum_bytes(flows: &[FlowRecord], at: usize) -> f64 {
    let windows = flows.iter().filter_map(|flow| flow.samples.get(at));
    windows.map(|sample| f64::from(sample.snd_wnd_bytes)).sum()
}

#[test]
fn with_a_total_the_windows_sum_to_it_within_a_segment_per_flow_and_nothing_is_dropped() {
    let total =
        "coupling = { total = \"192kB\" }\nqueue = { kind = \"droptail\", limit = \"1MB\" }";
    for (number, (law, law_keys)) in (11..).zip(LAWS) {
        // no delay of this queue exceeds the target
        let law_keys = law_keys.replace("12ms", "50ms");
        let experiment = figure(law, &law_keys, total);
        let record = run(&experiment, number);
        let again = at_test(&record);
        check_figure(law, &experiment, &record);
        assert!(
            record.flows.iter().all(|flow| flow.drops == 0),
            "law {law}; {again}"
        );
        let (three, five): (Vec<FlowRecord>, Vec<FlowRecord>) = (
            record
                .flows
                .iter()
                .filter(|flow| flow.group == "unpreferred")
                .cloned()
                .collect(),
            record.flows.clone(),
        );
        for (flows, from_ms, to_ms) in [(&three, 2_000, 4_000), (&five, 4_100, 8_000)] {
            for at in from_ms / 5..to_ms / 5 {
                let (sum, slack) = (sum_bytes(flows, at), flows.len() as f64 * MSS);
                assert!(
                    (sum - TOTAL).abs() <= slack,
                    "law {law}: {sum} at {} ms; {again}",
                    5 * at
                );
            }
        }
    }
}

#[test]
fn weights_change_neither_the_sum_of_the_windows_nor_the_utilisation() {
    for (law, law_keys) in LAWS {
        let outcome = |weights: Option<[u8; 2]>| {
            let of = |name: &str, weight: Option<u8>, flows_of: &str| match weight {
                Some(weight) => flows(name, law_keys, weight, flows_of),
                None => group(name, &format!("stack = \"guest\"\n{law_keys}\n{flows_of}")),
            };
            let groups = [
                of(
                    "unpreferred",
                    weights.map(|weights| weights[0]),
                    "flows = 3",
                ),
                of("preferred", weights.map(|weights| weights[1]), "flows = 2"),
            ];
            let base = HOST.replace("12s", "60s").replace("5ms", "20ms");
            let experiment = experiment_with(&base, &keys(law), &groups);
            let record = run(&experiment, 21);
            let first = &record.flows[0].samples;
            let measured = first
                .iter()
                .position(|sample| sample.at_ns >= 2_000_000_000);
            let measured = measured.unwrap()..first.len();
            let count = measured.len() as f64;
            let sums = measured.map(|at| sum_bytes(&record.flows, at));
            let sum = sums.sum::<f64>() / count / MSS;
            let used = used(&experiment, &record, [2_000, 60_000]);
            let jain = measure(&experiment, &record, "kind = \"jain\"\ncase = \"only\"");
            (sum, used, jain, at_test(&record))
        };
        let (sum, used, _, _) = outcome(None);
        // a hundredth is a segment or less, whose ACK waits for the receiver's delayed ACK timer:
        // its law grows once in 40 ms, the others' in 10
        for (weights, slack) in [
            ([1, 1], 0.1),
            ([1, 3], 0.1),
            ([1, 10], 0.1),
            ([1, 100], 0.25),
        ] {
            let (shared_sum, shared_used, jain, again) = outcome(Some(weights));
            println!(
                "{law}, {weights:?}: {shared_sum:.1} segments, each by itself {sum:.1}; of the link \
                 {shared_used:.4}, {used:.4}; Jain {jain:.4}"
            );
            let seen = format!("law {law}, {weights:?}; {again}");
            assert!(
                (shared_sum / sum - 1.0).abs() <= slack,
                "{shared_sum}, {sum}: {seen}"
            );
            assert!(
                (0.97..=1.03 + slack / 10.0).contains(&(shared_used / used)),
                "{shared_used}, {used}: {seen}"
            );
            assert!(weights != [1, 1] || jain >= 0.99, "Jain {jain}: {seen}");
        }
    }
}

#[test]
fn an_idle_preferred_flow_leaves_its_share_to_the_others_and_regains_it() {
    for (number, (law, law_keys)) in (31..).zip(LAWS) {
        // two seconds' worth of half of the link, every six seconds
        let pulses =
            "start = \"2s\"\napplication = { messages = { sizes = \"12MB\", every = \"6s\" } }";
        let groups = [
            flows("unpreferred", law_keys, 1, "flows = 3"),
            flows("preferred", law_keys, 3, pulses),
        ];
        let base = HOST.replace("12s", "14s");
        let experiment = experiment_with(&base, &keys(law), &groups);
        let record = run(&experiment, number);
        let again = at_test(&record);
        let share = |during| part(&experiment, &record, "preferred", during);
        let (busy, idle) = (
            [share([3_000, 3_500]), share([9_000, 9_500])],
            [5_500, 8_000],
        );
        let used = used(&experiment, &record, idle);
        println!(
            "{law}: busy {busy:?}, idle {:.4}, {used:.4} of the link",
            share(idle)
        );
        for share in busy {
            assert!(near(share, 0.5), "law {law}: {busy:?}; {again}");
        }
        assert!(
            share(idle) < 0.001 && used >= 0.95,
            "law {law}: {used}; {again}"
        );
    }
}
