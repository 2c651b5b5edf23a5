//! Ports that hold packets: what the guests notice, and when nothing is held.

use crate::common::{again, experiment, group, measure, run};
use uc_experiment::{Experiment, RunRecord};

/// A shallow buffer that loses the tails of windows, at 1 Gb/s and a round trip of 0.1 ms.
const SHALLOW: &str = r#"
name = "sim/hold"
title = "hold"
duration = "5s"
[network]
rate = "1Gbit"
delay = "25us"
queue = { kind = "droptail", limit = "64kB" }
[stack.legacy]
congestion_control = "reno"
[stack.server]
congestion_control = "reno"
ecn = true
delayed_ack = "0s"
"#;

const INCAST: &str = "count = 16\nstack = \"legacy\"\nlaw = \"ecn\"\nprofile = \"linux\"\n\
                      application = { incast = { block = \"14600B\", rounds = 5 } }";

fn guests(hold: &str) -> Experiment {
    experiment(SHALLOW, &[group("guests", &format!("{INCAST}\n{hold}"))])
}

fn of_guests(experiment: &Experiment, record: &RunRecord, kind: &str) -> f64 {
    let text = format!("kind = \"{kind}\"\ncase = \"only\"\nof = \"guests\"");
    measure(experiment, record, &text)
}

fn count(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or(0)
}

#[test]
fn with_a_buffer_no_guest_waits_for_its_timer_and_the_law_still_responds() {
    let plain = guests("");
    let timers = run(&plain, 1);
    assert!(of_guests(&plain, &timers, "timeouts") > 0.0);
    assert!(!timers.counters.keys().any(|name| name.starts_with("hold_")));

    let held = guests("hold = { buffer = {} }");
    let record = run(&held, 1);
    let again = again(&record, "holds");
    assert_eq!(of_guests(&held, &record, "timeouts"), 0.0, "{again}");
    assert_eq!(of_guests(&held, &record, "unfinished"), 0.0, "{again}");
    assert_eq!(of_guests(&held, &record, "retransmits"), 0.0, "{again}");
    assert!(count(&record, "hold_timeouts") > 0, "{again}");
    // a law that did not respond would lose as much in each round as in the first
    let lost = of_guests(&held, &record, "drops");
    assert!(
        lost < 2.0 * of_guests(&plain, &timers, "drops"),
        "{lost} lost; {again}"
    );
    let (slow, fast) = (
        of_guests(&plain, &timers, "fct"),
        of_guests(&held, &record, "fct"),
    );
    assert!(fast < slow / 2.0, "{fast} s, {slow} s without; {again}");
}

#[test]
fn a_flow_that_the_port_does_not_translate_is_not_kept() {
    let deaf = SHALLOW.replace("ecn = true", "ecn = false");
    let group = group("guests", &format!("{INCAST}\nhold = {{ buffer = {{}} }}"));
    let experiment = experiment(&deaf, &[group]);
    let record = run(&experiment, 1);
    assert!(of_guests(&experiment, &record, "timeouts") > 0.0);
    assert_eq!(count(&record, "hold_packets_kept"), 0);
    assert_eq!(count(&record, "hold_dupacks_hidden"), 0);
}

#[test]
fn all_data_arrives_both_ways_through_a_port_that_paces_and_keeps() {
    let text = "count = 8\nstack = \"legacy\"\nlaw = \"ecn\"\nprofile = \"linux\"\n\
                hold = { pace = true, buffer = {} }\n\
                application = { request = { request = \"40kB\", response = \"60kB\", rounds = 20 } }";
    let lossy = SHALLOW.replace("delay = \"25us\"", "delay = \"25us\"\nloss = 0.01");
    let experiment = experiment(&lossy, &[group("guests", text)]);
    let record = run(&experiment, 1);
    let again = again(&record, "holds");
    assert_eq!(
        of_guests(&experiment, &record, "unfinished"),
        0.0,
        "{again}"
    );
    assert!(count(&record, "hold_acks_paced") > 0, "{again}");
    assert!(count(&record, "hold_retransmits") > 0, "{again}");
    assert_eq!(
        record,
        run(&experiment, 1),
        "the same seed, the same record"
    );
}
