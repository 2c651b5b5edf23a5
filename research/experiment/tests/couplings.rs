//! Coupled guests in a file: refused values, and the fairness between guests.

use crate::common::{GOOD, refusal};
use uc_experiment::{
    Arm, Coupling, Experiment, FlowRecord, FlowSample, Measure, Repetition, RunRecord, Shares,
};

/// Each row: the text replaced in the small experiment, its replacement, and the refusal.
const SENSELESS: [(&str, &str, &str); 7] = [
    (
        "count = 9",
        "coupling = { group = \"a b\" }",
        "case.0.guests.0.coupling.group",
    ),
    (
        "count = 9",
        "coupling = { group = \"a\", weight = 0 }",
        "case.0.guests.0.coupling.weight: is 0; give 1 to 255",
    ),
    (
        "count = 9",
        "coupling = { group = \"a\", priority = 0 }",
        "case.0.guests.0.coupling.priority: is 0; give 1 to 255",
    ),
    (
        "count = 9",
        "count = 2\ncoupling = { group = \"a\", guest = \"g\" }",
        "case.0.guests.0.coupling.guest: names one guest, and these are 2; leave it out, or take \
         count = 1",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\ncoupling = { shares = \"rate\" }",
        "case.0.coupling: no guests of this case are coupled; give some a coupling = { group = \
         \"NAME\" }",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\ncoupling = { aggressiveness = 1.5 }",
        "case.0.coupling.aggressiveness: is 1.5; give 0 to 1",
    ),
    (
        "name = \"mixed\"",
        "name = \"mixed\"\ncoupling = { burst = 0 }",
        "case.0.coupling.burst: is 0; give 1 to 65535 segments",
    ),
];

#[test]
fn invalid_groups_are_refused_with_a_remedy() {
    for (number, (from, to, part)) in SENSELESS.into_iter().enumerate() {
        // rules are for a case with coupled guests
        let is_ruled = number > 4;
        let coupled = GOOD.replace("count = 9", "coupling = { group = \"a\" }");
        let file = if is_ruled { coupled.as_str() } else { GOOD };
        let refusal = refusal(file, from, to);
        assert!(refusal.contains(part), "{to}: {refusal}");
    }
}

#[test]
fn a_guest_has_one_weight() {
    let coupled =
        |weight: u8| format!("coupling = {{ group = \"a\", guest = \"g\", weight = {weight} }}");
    let second = format!("name = \"legacy\"\n{}", coupled(3));
    let good = GOOD.replace("count = 9", &coupled(2));
    let refusal = refusal(&good, "name = \"legacy\"", &second);
    let part = "case.0.guests.1.coupling.weight: guest `g` has weight 2 already";
    assert!(refusal.contains(part), "{refusal}");
}

#[test]
fn the_live_backend_has_one_coupled_group_in_a_case() {
    let live = GOOD.replace("duration", "arms = [\"live\"]\nduration");
    let coupled = |group: &str| format!("coupling = {{ group = \"{group}\" }}");
    let first = live.replace("count = 9", &coupled("a"));
    let name = "name = \"legacy\"\nstack";
    let second = |group: &str| format!("name = \"legacy\"\n{}\nstack", coupled(group));
    let refusal = refusal(&first, name, &second("b"));
    let part = "case.0.guests.1.coupling.group: a second coupled group beside `a` is for sim only";
    assert!(refusal.contains(part), "{refusal}");
    let one = first.replace(name, &second("a"));
    let experiment = Experiment::from_str("t", &one).expect("reads");
    experiment.validate().expect("makes sense");
}

#[test]
fn law_coupled_needs_a_group_and_cannot_observe() {
    let lacking = refusal(GOOD, "count = 9", "law = \"coupled\"");
    let part = "case.0.guests.0.coupling: missing, and law coupled is about a group's window";
    assert!(lacking.contains(part), "{lacking}");
    let coupled = "law = \"coupled\"\ncoupling = { group = \"a\" }";
    let observed = format!("{coupled}\nparameters = {{ observe = true }}");
    let observed = refusal(GOOD, "count = 9", &observed);
    let part = "case.0.guests.0.parameters.observe: writes no windows, so law coupled has none";
    assert!(observed.contains(part), "{observed}");
    let receivers = "name = \"mixed\"\nreceiver_law = \"coupled\"";
    let receivers = refusal(GOOD, "name = \"mixed\"", receivers);
    let part = "case.0.receiver_law: coupled needs a group, and a receivers' port has none";
    assert!(receivers.contains(part), "{receivers}");
    let one = GOOD.replace("count = 9", coupled);
    let experiment = Experiment::from_str("t", &one).expect("reads");
    experiment.validate().expect("makes sense");
}

#[test]
fn guests_of_one_group_on_real_kernels_are_coupled_all_by_their_ports_or_all_by_their_tcp() {
    let live = GOOD.replace("duration", "arms = [\"live\"]\nduration");
    let by_itself = "coupling = { group = \"a\" }";
    let by_port = format!("law = \"coupled\"\n{by_itself}");
    let first = live.replace("count = 9", &by_port);
    let name = "name = \"legacy\"\nstack";
    let second = |how: &str| format!("name = \"legacy\"\n{how}\nstack");
    let mixed = refusal(&first, name, &second(by_itself));
    let part = "case.0.guests.1.law: one group of guests with law coupled and guests without is";
    assert!(mixed.contains(part), "{mixed}");
    let alike = first.replace(name, &second(&by_port));
    let experiment = Experiment::from_str("t", &alike).expect("reads");
    experiment.validate().expect("makes sense");
}

#[test]
fn a_share_divides_the_windows_of_a_law_and_its_group_is_of_one_kind() {
    let share = "share = { group = \"port\", guest = \"vm\", priority = 3 }";
    let with = |rest: &str| format!("{rest}\n{share}");
    let key = "case.0.guests.0";
    for (to, part) in [
        (with(""), "share: divides the windows that a law makes"),
        (
            with("law = \"pass\""),
            "share: divides the windows that a law makes",
        ),
        (
            with("law = \"ecn\"\ncoupling = { group = \"a\" }"),
            "share: these guests share a window by `coupling` already",
        ),
        (
            with("law = \"ecn\"\nparameters = { observe = true }"),
            "parameters.observe: writes no windows",
        ),
        (
            with("law = \"ecn\"").replace("= 3", "= 0"),
            "share.priority: is 0; give 1 to 255",
        ),
        (
            with("law = \"ecn\"\ncount = 2"),
            "share.guest: names one guest, and these are 2",
        ),
    ] {
        let refusal = refusal(GOOD, "count = 9", &to);
        assert!(
            refusal.contains(&format!("{key}.{part}")),
            "{to}: {refusal}"
        );
    }
    let good = GOOD.replace("count = 9", &with("law = \"dctcp\""));
    let experiment = Experiment::from_str("t", &good).expect("reads");
    experiment.validate().expect("makes sense");
    let guests = &experiment.case("mixed").expect("the case").guests[0];
    assert!(guests.is_coupled_by_port());
    assert_eq!(guests.group().expect("a group").priority, 3);
    for (keys, part) in [
        ("coupling = { total = \"0B\" }", "coupling.total: is 0"),
        (
            "coupling = { aggressiveness = 0.5 }",
            "coupling.aggressiveness: says nothing of share",
        ),
    ] {
        let refusal = refusal(
            &good,
            "name = \"mixed\"",
            &format!("name = \"mixed\"\n{keys}"),
        );
        assert!(refusal.contains(part), "{refusal}");
    }
    let second = "name = \"legacy\"\ncoupling = { group = \"port\" }";
    let mixed = refusal(&good, "name = \"legacy\"", second);
    let part = "case.0.guests.1.coupling.group: `port` is a group of coupling and one of share";
    assert!(mixed.contains(part), "{mixed}");
}

const TWO: &str = r#"
name = "t"
title = "t"
duration = "10s"
network = { rate = "10Mbit", delay = "1ms", queue = { kind = "droptail", limit = "1MB" } }
stack = { s = {} }
[[case]]
name = "a"
coupling = { shares = "rate" }
guests = [
    { name = "pair", count = 2, flows = 2, stack = "s" },
    { name = "x", stack = "s", coupling = { group = "g", guest = "vm", weight = 2 } },
    { name = "y", stack = "s", coupling = { group = "g", guest = "vm", weight = 2 } },
]
"#;

fn read() -> Experiment {
    let experiment = Experiment::from_str("t", TWO).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

#[test]
fn defaults_are_weight_one_and_the_window() {
    let experiment = read();
    let case = experiment.case("a").expect("the case");
    assert_eq!(case.coupling.shares, Shares::Rate);
    assert_eq!(case.coupling.aggressiveness, 0.0);
    assert_eq!(case.guests[0].coupling, None);
    let expected = Coupling {
        group: "g".into(),
        guest: Some("vm".into()),
        weight: 2,
        priority: 1,
    };
    assert_eq!(case.guests[1].coupling, Some(expected));
}

#[test]
fn vms_couple_their_own_flows_by_weights_and_the_default_rules_alone() {
    let usual = TWO.replace("coupling = { shares = \"rate\" }\n", "");
    let suits = |text: &str| {
        let experiment = Experiment::from_str("t", text).expect("reads");
        experiment
            .suits(Arm::Vm)
            .map_err(|refusal| refusal.to_string())
    };
    suits(&usual).expect("weights are the host's");
    let refusal = suits(TWO).unwrap_err();
    assert!(refusal.contains("case.0.coupling"), "{refusal}");
    let preferred = usual.replacen("weight = 2", "weight = 2, priority = 2", 1);
    let refusal = suits(&preferred).unwrap_err();
    assert!(refusal.contains("guests.1.coupling.priority"), "{refusal}");
    // a port's are this kernel's, and know priorities
    let ports = preferred.replace(
        "stack = \"s\", coupling",
        "stack = \"s\", law = \"coupled\", coupling",
    );
    suits(&ports).expect("by the ports");
}

/// Makes up a flow of a constant rate.
fn flow(group: &str, index: u32, goodput_bps: u64) -> FlowRecord {
    let sample = |i: u64| FlowSample {
        at_ns: i * 100_000_000,
        delivered_bytes: goodput_bps * i / 80,
        mss_bytes: 1_448,
        ..FlowSample::default()
    };
    FlowRecord {
        group: group.into(),
        index,
        samples: (0..=100).map(sample).collect(),
        ..FlowRecord::default()
    }
}

#[test]
fn jains_index_of_guests_sums_the_goodputs_of_their_flows() {
    let experiment = read();
    let record = RunRecord {
        case: "a".into(),
        flows: vec![
            flow("pair", 0, 100_000),
            flow("pair", 1, 300_000), // the first guest: 400 kb/s
            flow("pair", 2, 200_000),
            flow("pair", 3, 200_000), // the second: 400
            flow("x", 0, 1_000_000),
            flow("y", 0, 200_000), // vm: 1,200
        ],
        ..RunRecord::default()
    };
    let records = [record];
    let jain = |rest: &str| {
        let text = format!("kind = \"jain\"\ncase = \"a\"\n{rest}");
        let measure: Measure = toml::from_str(&text).expect("a measure");
        let measured = Repetition::of(&experiment, &records, 0).measure(&measure);
        measured.expect("it is there")
    };
    let by_guest: f64 = 2_000.0 * 2_000.0 / (3.0 * (2.0 * 160_000.0 + 1_440_000.0));
    assert!((jain("by = \"guest\"") - by_guest).abs() < 1e-9);
    let squares = 10_000.0 + 90_000.0 + 2.0 * 40_000.0 + 1_000_000.0 + 40_000.0;
    let by_flow: f64 = 2_000.0 * 2_000.0 / (6.0 * squares);
    assert!((jain("") - by_flow).abs() < 1e-9);
    assert_eq!(jain("by = \"flow\""), jain(""));
    assert!((jain("by = \"guest\"\nof = [\"pair\"]") - 1.0).abs() < 1e-9);
}
