//! Files of fast links that real kernels run in slow motion.

use uc_experiment::{
    Application, Arm, BitsPerSec, Completion, Experiment, FlowRecord, FlowSample, Nanos, Queue,
    QueueSample, RunRecord, StartLaw,
};

const FAST: &str = r#"name = "t/fast"
title = "5ms"
slower = 50
duration = "1s"
settle = "200ms"

[network]
rate = "10Gbit"
access_rate = "10100Mbit"
delay = "10us"
queue = { kind = "red", min = "30kB", max = "90kB", limit = "1MB", burst = 30, probability = 1.0, packet = "1500B", ecn = true, rate = "5Gbit" }

[stack.reno]
congestion_control = "reno"

[stack.quick]
rto_min = "10ms"

[[case]]
name = "a"
receiver_law = "pass"

[[case.guests]]
name = "5ms"
stack = "reno"
law = "delay"
parameters = { target = "60us" }
start_law = "watch"
watch = { pace = "10Gbit" }
start = "100ms"
application = { epochs = { size = "10kB", rounds = 3, every = "250ms", gap = "1211ns" } }

[[case.guests]]
name = "web"
stack = "reno"
application = { web = { rate = 20540, sizes = "5kB" } }
"#;

fn fast() -> Experiment {
    let experiment = Experiment::from_str("t.toml", FAST).unwrap();
    experiment.validate().unwrap();
    experiment
}

#[test]
fn times_become_longer_and_rates_lower_and_packets_and_names_stay() {
    let slowed = fast().slowed().unwrap();
    assert_eq!(
        (slowed.duration, slowed.settle),
        (Nanos::from_secs(50), Nanos::from_secs(10))
    );
    let network = &slowed.network;
    assert_eq!(network.rate, BitsPerSec::from_mbit(200));
    assert_eq!(network.access_rate(), BitsPerSec::from_mbit(202));
    assert_eq!(network.delay, Nanos::from_micros(500));
    let Queue::Red { rate, limit, .. } = &network.queue else {
        panic!("{network:?}")
    };
    assert_eq!(
        (*rate, limit.0),
        (Some(BitsPerSec::from_mbit(100)), 1_000_000)
    );
    assert_eq!(
        slowed.stacks["quick"].rto_min,
        Some(Nanos::from_millis(500))
    );
    let guests = &slowed.cases[0].guests[0];
    assert_eq!((&guests.name[..], &slowed.title[..]), ("5ms", "5ms"));
    assert_eq!(
        (guests.start, guests.start_law),
        (Nanos::from_secs(5), Some(StartLaw::Watch))
    );
    let Application::Epochs {
        size, every, gap, ..
    } = guests.application
    else {
        panic!("{guests:?}")
    };
    assert_eq!((size.0, every.0, gap.0), (10_000, 12_500_000_000, 60_550));
    let web = &slowed.cases[0].guests[1];
    assert_eq!(web.arrivals_per_s(network), Some(410.8));
    let written = toml::to_string(&slowed).unwrap();
    assert!(!written.contains("10Gbit"), "{written}");
    for setting in [
        "target = \"3ms\"",
        "pace = \"200Mbit\"",
        "fresh = \"5s\"",
        "idle = \"50s\"",
    ] {
        assert!(written.contains(setting), "{setting}: {written}");
    }
}

#[test]
fn usual_minimum_rto_becomes_longer_too() {
    let slowed = fast().slowed().unwrap();
    assert_eq!(slowed.stacks["reno"].rto_min, Some(Nanos::from_secs(10)));
}

#[test]
fn acks_may_wait_longer_than_real_kernels_let_them_in_slow_motion() {
    let suits = |slower: &str| {
        let text = FAST.replacen("[stack.reno]", "[stack.reno]\ndelayed_ack = \"1ms\"", 1);
        let text = text.replace("slower = 50", slower);
        Experiment::from_str("t.toml", &text)
            .unwrap()
            .suits(Arm::Live)
    };
    suits("slower = 200").expect("Linux's 200 ms are 1 ms");
    for too_fast in ["slower = 199", ""] {
        let told = suits(too_fast).expect_err(too_fast).to_string();
        assert!(told.contains("delayed_ack is for sim only"), "{told}");
    }
}

#[test]
fn record_of_a_slowed_run_is_in_the_files_times() {
    let mut record = RunRecord {
        flows: vec![FlowRecord {
            samples: vec![FlowSample {
                at_ns: 5_000,
                delivered_bytes: 7,
                srtt_us: 500,
                rto_us: Some(10_000),
                ..FlowSample::default()
            }],
            completions: vec![Completion {
                started_ns: 100,
                finished_ns: Some(300),
                ..Completion::default()
            }],
            ack_gaps: Some(vec![1]),
            ..FlowRecord::default()
        }],
        queue: vec![QueueSample {
            at_ns: 5_000,
            backlog_bytes: 9,
            ..QueueSample::default()
        }],
        counters: [("wire_late_mean_ns".to_owned(), 50)].into(),
        ..RunRecord::default()
    };
    record.quicken(50);
    let flow = &record.flows[0];
    let sample = &flow.samples[0];
    assert_eq!(
        (sample.at_ns, sample.srtt_us, sample.rto_us),
        (100, 10, Some(200))
    );
    let transfer = flow.completions[0];
    assert_eq!((transfer.started_ns, transfer.finished_ns), (2, Some(6)));
    assert_eq!((record.queue[0].at_ns, &flow.ack_gaps), (100, &None));
    assert_eq!(
        (sample.delivered_bytes, record.queue[0].backlog_bytes),
        (7, 9)
    );
    assert_eq!(record.counters["wire_late_mean_ns"], 50);
}

#[test]
fn only_records_of_real_kernels_depend_on_the_factor() {
    let other = FAST.replace("slower = 50\n", "");
    let other = Experiment::from_str("t.toml", &other).unwrap();
    let hashes = |arm| (fast().setup_hash(arm), other.setup_hash(arm));
    let (sim, sim_other) = hashes(Arm::Sim);
    let (live, live_other) = hashes(Arm::Live);
    assert_eq!((&sim, &live_other), (&sim_other, &sim));
    assert_ne!(live, live_other);
}

#[test]
fn lateness_is_a_part_of_the_longer_round_trip() {
    let counters = [("mean", 400_000), ("p99", 0), ("max", 0)];
    let counters = counters.map(|(name, ns)| (format!("wire_late_{name}_ns"), ns));
    let record = RunRecord {
        counters: counters.into(),
        ..RunRecord::default()
    };
    // of 2 ms: 40 %
    assert_eq!(fast().why_late(&record), None);
    let usual = FAST.replace("slower = 50", "slower = 40");
    let usual = Experiment::from_str("t.toml", &usual).unwrap();
    assert_eq!(usual.why_late(&record), None);
    let shorter = FAST.replace("slower = 50", "slower = 39");
    let shorter = Experiment::from_str("t.toml", &shorter).unwrap();
    assert!(shorter.why_late(&record).is_some());
}

#[test]
fn factors_that_make_no_sense_are_refused() {
    for factor in ["0", "1001"] {
        let text = FAST.replace("slower = 50", &format!("slower = {factor}"));
        let experiment = Experiment::from_str("t.toml", &text).unwrap();
        let error = experiment.validate().unwrap_err().to_string();
        assert!(
            error.starts_with("t.toml:3:") && error.contains("give 1 to 1000"),
            "{error}"
        );
    }
}
