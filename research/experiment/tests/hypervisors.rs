//! Hypervisors in a file: refused values, defaults, and the measures of stalls.

use crate::common::{GOOD, refusal};
use uc_experiment::{
    Arm, Experiment, FlowRecord, FlowSample, Hypervisor, Measure, MeasureError, Nanos, Pvtcp,
    Repetition, RttFilter, RunRecord, Stalls,
};

/// Each row: the replacement of the small experiment's number of guests, and the refusal.
const SENSELESS: [(&str, &str); 12] = [
    ("{ vms = 0 }", "hypervisor.vms: is 0; give 1 to 64"),
    ("{ vms = 65 }", "hypervisor.vms: is 65; give 1 to 64"),
    (
        "{ vms = 2, guests = 3 }",
        "hypervisor.guests: is 3 of 2 virtual machines; give 1 to 2",
    ),
    ("{ guests = 0 }", "hypervisor.guests: is 0 of 1"),
    ("{ slice = \"1us\" }", "hypervisor.slice: is too short"),
    ("{ tick = \"0s\" }", "hypervisor.tick: is too short"),
    (
        "{ tick = \"100s\" }",
        "hypervisor.tick: 100s is longer than 1s",
    ),
    ("{ boost = \"1ns\" }", "hypervisor.boost: is too short"),
    ("{ backlog = 0 }", "hypervisor.backlog: is 0"),
    (
        "{ slice = \"1ms\", jitter = \"501us\" }",
        "hypervisor.jitter: is more than half of a slice, which is 1ms",
    ),
    (
        "{ migration = { at = \"1s\", downtime = \"0s\" } }",
        "hypervisor.migration.downtime: is 0",
    ),
    (
        "{ migration = { at = \"9s\", downtime = \"1s\" } }",
        "hypervisor.migration: is not over at the end of the run, 10s",
    ),
];

#[test]
fn invalid_hypervisors_are_refused_with_a_remedy() {
    for (table, part) in SENSELESS {
        let refusal = refusal(GOOD, "count = 9", &format!("hypervisor = {table}"));
        let part = format!("case.0.guests.0.{part}");
        assert!(refusal.contains(&part), "{table}: {refusal}");
        let of_receiver = format!("name = \"mixed\"\nreceiver_hypervisor = {table}");
        let refusal = self::refusal(GOOD, "name = \"mixed\"", &of_receiver);
        assert!(refusal.contains("case.0.receiver_"), "{table}: {refusal}");
    }
    for (from, to, part) in [
        (
            "count = 9",
            "hypervisor = {}\ncoupling = { group = \"a\" }",
            "can't stall guests that share a window",
        ),
        (
            "name = \"mixed\"",
            "name = \"mixed\"\nreceiver_hypervisor = { vms = 2, guests = 2 }",
            "each receiver is on a core of its own",
        ),
    ] {
        let refusal = refusal(GOOD, from, to);
        assert!(refusal.contains(part), "{to}: {refusal}");
    }
}

#[test]
fn ticks_and_turns_of_a_run_have_a_limit() {
    let many = "count = 900\nhypervisor = { tick = \"10us\" }";
    let refusal = refusal(GOOD, "count = 9", many);
    let part = "case.0.guests.0.hypervisor.tick: makes 900000000 ticks and turns";
    assert!(refusal.contains(part), "{refusal}");
    assert!(refusal.contains("100000000 are the most"), "{refusal}");
    let turns = "count = 900\nhypervisor = { vms = 2, slice = \"10us\" }";
    let refusal = self::refusal(GOOD, "count = 9", turns);
    assert!(refusal.contains("a longer tick or slice"), "{refusal}");
    // The same guests at the default of 1 ms are accepted, as is an unshared core.
    read("count = 900\nhypervisor = { slice = \"10us\" }");
}

#[test]
fn pvtcp_without_stalls_is_refused_with_a_remedy() {
    let text = GOOD.replacen("[stack.ecn]", "[stack.ecn]\npvtcp = {}", 1);
    let told = refusal(&text, "count = 9", "count = 8");
    let part = "case.0.guests.0.hypervisor: [stack.ecn] has pvtcp, and nobody takes";
    assert!(told.contains(part), "{told}");
    assert!(told.contains("hypervisor = { vms = 3 }"), "{told}");
    let receivers = "[stack.server]\npvtcp = {}\n[stack.legacy]";
    let told = refusal(GOOD, "[stack.legacy]", receivers);
    let part = "case.0.receiver_hypervisor: [stack.server] has pvtcp";
    assert!(told.contains(part), "{told}");
    let text = text.replacen("count = 9", "hypervisor = {}", 1);
    let control = Experiment::from_str("t", &text).expect("reads");
    control.validate().expect("a control that is never stalled");
}

#[test]
fn vms_share_cores_but_have_their_own_ticks_and_queues() {
    let suits = |table: &str, arm: Arm| {
        let text = GOOD.replacen("count = 9", &format!("hypervisor = {table}"), 1);
        let text = text.replacen("[stack.ecn]", "[stack.ecn]\npvtcp = {}", 1);
        let experiment = Experiment::from_str("t", &text).expect("reads");
        experiment.validate().expect("makes sense");
        experiment.suits(arm).map_err(|error| error.to_string())
    };
    let moves = "migration = { at = \"1s\", downtime = \"2s\" }";
    let shared = format!("{{ vms = 3, guests = 3, slice = \"20ms\", jitter = \"2ms\", {moves} }}");
    suits(&shared, Arm::Vm).expect("suits machines");
    suits(&shared, Arm::Sim).expect("suits the simulator");
    for (table, key) in [
        ("{ tick = \"1ms\" }", "tick: tick is"),
        ("{ boost = \"50us\" }", "boost: boost is"),
        ("{ backlog = 9 }", "backlog: backlog is"),
        (
            "{ vms = 3, slice = \"20us\" }",
            "slice: a slice that is not between 1ms and 1s is",
        ),
    ] {
        let told = suits(table, Arm::Vm).expect_err("for the simulator");
        let part = format!("hypervisor.{key} for sim only; run it with --on sim");
        assert!(told.contains(&part), "{told}");
        suits(table, Arm::Sim).expect("suits the simulator");
    }
    let told = suits("{ vms = 3 }", Arm::Live).expect_err("for others");
    assert!(
        told.contains("pvtcp is for sim and vm only; run it with --on sim|vm"),
        "{told}"
    );
}

#[test]
fn hypervisors_and_pvtcp_are_refused_on_the_live_backend() {
    let live = GOOD.replace("duration", "arms = [\"live\"]\nduration");
    for (from, to, part) in [
        (
            "count = 9",
            "hypervisor = {}",
            "case.0.guests.0.hypervisor: hypervisor is for sim and vm only",
        ),
        (
            "name = \"mixed\"",
            "name = \"mixed\"\nreceiver_hypervisor = { vms = 2, boost = \"1ms\" }",
            "case.0.receiver_hypervisor.boost: boost is for sim only",
        ),
        (
            "[stack.legacy]",
            "[stack.none]\npvtcp = {}\n[stack.legacy]",
            "stack.none.pvtcp: pvtcp is for sim and vm only",
        ),
    ] {
        let refusal = refusal(&live, from, to);
        assert!(refusal.contains(part), "{to}: {refusal}");
    }
}

fn read(extra: &str) -> Experiment {
    let text = GOOD.replacen("count = 9", extra, 1);
    let experiment = Experiment::from_str("t", &text).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

#[test]
fn defaults_are_xens_slice_and_an_unshared_core() {
    let experiment = read("hypervisor = { vms = 3 }");
    let expected = Hypervisor {
        vms: 3,
        guests: 1,
        slice: Nanos(30_000_000),
        jitter: Nanos(0),
        tick: None,
        boost: None,
        backlog: None,
        migration: None,
    };
    assert_eq!(expected.simulated_tick(), Nanos(1_000_000));
    assert_eq!(expected.simulated_backlog(), 1_000);
    let guests = &experiment.cases[0].guests;
    assert_eq!(guests[0].hypervisor, Some(expected));
    assert_eq!(guests[1].hypervisor, None);
    let paper = Pvtcp {
        defer: true,
        rtt: RttFilter::Srtt,
    };
    assert_eq!(Pvtcp::default(), paper);
}

#[test]
fn the_description_names_the_sharing() {
    for (table, words) in [
        ("{}", "on virtual machines with a core each"),
        (
            "{ vms = 3, tick = \"1ms\", boost = \"50us\" }",
            "each one of 3 virtual machines on a core, 30ms in turn, a tick every 1ms, run for \
             50us by a packet",
        ),
        (
            "{ vms = 3, guests = 3, migration = { at = \"1s\", downtime = \"2s\" } }",
            "3 of 3 virtual machines on a core, 30ms in turn, moved at 1s for 2s",
        ),
    ] {
        let experiment = read(&format!("hypervisor = {table}"));
        let hypervisor = experiment.cases[0].guests[0].hypervisor.as_ref();
        assert_eq!(hypervisor.map(ToString::to_string).as_deref(), Some(words));
    }
}

fn flow(index: u32, stalls: Option<Stalls>, rto_us: Option<u32>) -> FlowRecord {
    let sample = |i: u64| FlowSample {
        at_ns: i * 1_000_000_000,
        rto_us: rto_us.map(|us| us * (1 + i as u32)),
        ..FlowSample::default()
    };
    FlowRecord {
        group: "ecn".into(),
        index,
        samples: (0..=10).map(sample).collect(),
        stalls,
        ..FlowRecord::default()
    }
}

fn measured(flows: Vec<FlowRecord>, text: &str) -> Result<f64, MeasureError> {
    let records = [RunRecord {
        case: "mixed".into(),
        flows,
        counters: [("hypervisor_switches".to_owned(), 333)].into(),
        ..RunRecord::default()
    }];
    let measure: Measure = toml::from_str(&format!("case = \"mixed\"\n{text}")).expect("a measure");
    Repetition::of(&read(""), &records, 0).measure(&measure)
}

#[test]
fn stall_events_are_summed_over_a_group_and_the_largest_clock_jump_is_taken() {
    let stalls = |n: u64| {
        Some(Stalls {
            spurious_timeouts: n,
            detected_timeouts: 2 * n,
            backoffs: 3 * n,
            duplicate_acks: 4 * n,
            needless_segments: 8 * n,
            clock_jump_ticks: 5 * n,
            deferred_timers: 6 * n,
            filtered_samples: 7 * n,
        })
    };
    let flows = || {
        vec![
            flow(0, stalls(10), Some(1_000)),
            flow(1, stalls(1), Some(10)),
        ]
    };
    for (what, expected) in [
        ("spurious_timeouts", 11.0),
        ("detected_timeouts", 22.0),
        ("backoffs", 33.0),
        ("duplicate_acks", 44.0),
        ("needless_segments", 88.0),
        ("deferred_timers", 66.0),
        ("filtered_samples", 77.0),
    ] {
        let text = format!("kind = \"events\"\nof = \"ecn\"\nwhat = \"{what}\"");
        assert_eq!(measured(flows(), &text).unwrap(), expected, "{what}");
    }
    for (text, expected) in [
        ("kind = \"clock_jump\"\nof = \"ecn\"", 50.0),
        ("kind = \"counter\"\nname = \"hypervisor_switches\"", 333.0),
        // measured from 2 s to 9 s: the first flow's timeouts are 3 to 10 ms
        ("kind = \"rto\"\nof = \"ecn\"\nstatistic = \"max\"", 0.010),
        ("kind = \"rto\"\nof = \"ecn\"", (0.0065 + 0.000065) / 2.0),
    ] {
        let found = measured(flows(), text).unwrap();
        assert!((found - expected).abs() < 1e-9, "{text}: {found}");
    }
}

#[test]
fn uncounted_events_are_an_error_and_not_zero() {
    for (text, part) in [
        (
            "kind = \"events\"\nof = \"ecn\"\nwhat = \"backoffs\"",
            "no count of what its timers went through; run it --on sim",
        ),
        (
            "kind = \"clock_jump\"\nof = \"ecn\"",
            "no count of what its timers went through",
        ),
        (
            "kind = \"rto\"\nof = \"ecn\"",
            "no samples of its retransmission timeout",
        ),
        ("kind = \"counter\"\nname = \"odd\"", "no counter `odd`"),
    ] {
        let error = measured(vec![flow(0, None, None)], text).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
