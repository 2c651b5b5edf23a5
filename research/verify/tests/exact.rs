//! vCC's theorem 1 and its concatenation, on as many cases as a test may take; `uc-bench verify` runs
//! more.

use std::sync::atomic::AtomicBool;

use uc_core::COMPILED;
use uc_verify::{Campaign, Class, Guest, Law, Outcome, Plan, Report, Workspace, compare};

const SEED: u64 = 1;
const CASES: u64 = 1_500;

fn run(law: Law, guest: Guest, jobs: usize) -> Report {
    run_moving(law, guest, jobs, false)
}

fn run_moving(law: Law, guest: Guest, jobs: usize, handover: bool) -> Report {
    let campaign = Campaign {
        law,
        guest,
        seed: SEED,
        cases: CASES,
        jobs,
        handover,
    };
    let report = campaign.run(COMPILED, &|_| {}, &AtomicBool::new(false));
    let report = report.expect("no run is cancelled");
    assert_eq!(
        report.failure,
        None,
        "{law:?} over {guest:?}, seed {SEED}; repeat with: uc-bench verify --law {} --guest {} \
         --cases {CASES} --seed {SEED}{}",
        if law == Law::Ecn { "ecn" } else { "dctcp" },
        if guest == Guest::NewReno {
            "newreno"
        } else {
            "ecn-stripped"
        },
        if handover { " --handover" } else { "" }
    );
    assert_eq!((report.cases, report.exact), (CASES, CASES));
    report
}

#[test]
fn a_newreno_guest_under_t_sends_what_a_native_ecn_sender_sends() {
    let report = run(Law::Ecn, Guest::NewReno, 2);
    assert!(
        report.events >= 1_000 * CASES,
        "{} events in {CASES} cases",
        report.events
    );
    let rare: Vec<Class> = report.uncovered().collect();
    assert!(
        rare.is_empty(),
        "in fewer than one case in a hundred: {rare:?}"
    );
    let early = report.beyond_guest + report.at_one_segment + report.probe_taken;
    assert!(early * 8 < CASES, "{early} of {CASES} cases end early");
}

#[test]
fn an_ecn_guest_stripped_of_ecn_sends_what_a_native_ecn_sender_sends() {
    run(Law::Ecn, Guest::EcnStripped, 2);
}

/// vCC's theorem 2.
#[test]
fn a_newreno_guest_under_t_sends_what_a_native_dctcp_sender_sends() {
    let report = run(Law::Dctcp, Guest::NewReno, 2);
    let early = report.beyond_guest + report.at_one_segment + report.probe_taken;
    assert!(early * 5 < CASES, "{early} of {CASES} cases end early");
}

#[test]
fn an_ecn_guest_stripped_of_ecn_sends_what_a_native_dctcp_sender_sends() {
    run(Law::Dctcp, Guest::EcnStripped, 2);
}

#[test]
fn a_flow_that_moves_to_other_hosts_goes_on_as_the_native_sender_does() {
    for law in Law::ALL {
        let report = run_moving(law, Guest::NewReno, 2, true);
        assert_eq!(report.coverage, run(law, Guest::NewReno, 2).coverage);
    }
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    assert_eq!(
        run(Law::Ecn, Guest::NewReno, 1),
        run(Law::Ecn, Guest::NewReno, 3)
    );
}

#[test]
fn an_uneventful_case_is_exact() {
    let text = "iss = 0\nmss-bytes = 1000\ninitial-window-segments = 4\n\
        receive-buffer-segments = 60\npackets = 100\nstalls = []\n\
        bursts = [{ after = 'acked', pause-us = 0, pause-rto-permille = 0, segments = 80 }]\n\
        [data]\ndelay-us = 100\npacket-us = 10\nqueue-packets = 0\nmark-packets = 0\n\
        lost = []\nmarked = []\nlate = []\n\
        [acks]\ndelay-us = 100\npacket-us = 0\nqueue-packets = 0\nmark-packets = 0\n\
        lost = []\nmarked = []\nlate = []\n";
    let plan = Plan::parse(text).expect("a plan");
    let mut workspace = Workspace::default();
    let comparison = compare(&plan, Law::Ecn, Guest::NewReno, COMPILED, &mut workspace);
    assert_eq!(comparison.outcome, Outcome::Same);
    // a SYN and its answer, 80 segments and their ACKs, and a write
    assert!(comparison.events >= 163, "{comparison:?}");
    assert!(!comparison.seen.has(Class::Timeout) && comparison.seen.has(Class::SlowStart));
}

#[test]
fn an_invalid_plan_is_refused_with_its_place_and_remedy() {
    let error = Plan::parse("iss = 0\nmss-bytes = 1\n").expect_err("keys are missing");
    assert!(error.to_string().contains("missing field"), "{error}");
    let error = Plan::parse("isss = 0\n").expect_err("no such key");
    assert!(error.to_string().contains("line 1, column 1"), "{error}");
}
