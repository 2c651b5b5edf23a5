//! Messages and transfers between real kernels: their bytes, their times, and their timeouts.

mod support;

use support::{experiment, live, run};
use uc_experiment::{Completion, Experiment, FlowRecord, RunRecord};
use uc_live::in_peace;

const MS_NS: u64 = 1_000_000;
/// Two links of 5 ms each lie on the way to the receiver.
const ONE_WAY_NS: u64 = 10 * MS_NS;
const SECONDS: u32 = 2;
const END_NS: u64 = SECONDS as u64 * 1_000 * MS_NS;
const RENO: &str = "[stack.reno]\ncongestion_control = \"reno\"";

fn record(network: &str, guests: &str, stack: &str) -> RunRecord {
    let network = format!(
        "rate = \"100Mbit\"\ndelay = \"5ms\"\nqueue = {{ kind = \"droptail\", limit = \"1MB\" }}\n{network}"
    );
    let guests = format!("[[case.guests]]\nname = \"g\"\nstack = \"reno\"\n{guests}");
    let record = run(&experiment(SECONDS, &network, &guests, stack), 1);
    println!("{:?}", record.counters);
    record
}

fn took_ns(transfer: &Completion) -> Option<u64> {
    Some(transfer.finished_ns? - transfer.started_ns)
}

/// Returns the payload of the flow's transfers that have arrived by `at_ns`.
fn arrived_bytes(flow: &FlowRecord, at_ns: u64) -> u64 {
    let all = flow.completions.iter();
    let by_then = all.filter(|it| it.finished_ns.is_some_and(|finished| finished <= at_ns));
    by_then.map(|it| it.bytes).sum()
}

#[test]
fn live_messages_at_fixed_times_arrive_whole_after_the_paths_delay() {
    if !live() {
        return;
    }
    in_peace(|| {
        let sizes = "[[\"200B\", 0.5], [\"10kB\", 1.0]]";
        let application = format!("messages = {{ sizes = {sizes}, every = \"50ms\" }}");
        let guests = format!("count = 3\napplication = {{ {application} }}");
        let record = record("", &guests, RENO);
        assert_eq!(record.flows.len(), 3);
        for flow in &record.flows {
            let all = &flow.completions;
            // The first begins within 100 ms of the clock's start and opens the connection: it takes
            // a round trip longer. A thread that wakes late delays one message, not the next.
            let first_ns = all[0].started_ns;
            let wait_ns = END_NS - first_ns;
            let expected = wait_ns.div_ceil(50 * MS_NS) as usize;
            let number = flow.index;
            assert!(first_ns < 200 * MS_NS, "flow {number}: {:?}", all[0]);
            let within = all.iter().filter(|it| it.started_ns < END_NS).count();
            assert!(
                within.abs_diff(expected) <= 1,
                "flow {number}: {within} of {expected}"
            );
            let mut times: Vec<u64> = all.iter().filter_map(took_ns).collect();
            assert!(times[0] >= 3 * ONE_WAY_NS, "flow {number}: {times:?}");
            assert!(
                times.iter().all(|time| *time >= ONE_WAY_NS),
                "flow {number}: {times:?}"
            );
            times.sort_unstable();
            let median_ns = times[times.len() / 2];
            assert!(
                median_ns < ONE_WAY_NS + 5 * MS_NS,
                "flow {number}: {times:?}"
            );
            assert!(
                all.iter().all(|it| (200..=10_000).contains(&it.bytes)),
                "{all:?}"
            );
            assert!(all.iter().any(|it| it.bytes == 200) && all.iter().any(|it| it.bytes > 1_000));
            // A sample lies between what had arrived before it and what arrived soon after.
            let last = flow.samples.last().unwrap();
            let (before, after) = (last.at_ns - 5 * MS_NS, last.at_ns + 5 * MS_NS);
            let span = arrived_bytes(flow, before)..=arrived_bytes(flow, after) + 10_000;
            assert!(
                span.contains(&last.delivered_bytes),
                "flow {number}: {span:?} {last:?}"
            );
            assert_eq!(flow.timeouts, Some(0), "flow {number}");
        }
        assert_ne!(
            record.flows[0].completions[0],
            record.flows[1].completions[0]
        );
    });
}

#[test]
fn live_messages_without_times_follow_one_another_and_a_transfer_ends_its_connection() {
    if !live() {
        return;
    }
    in_peace(|| {
        let next = "flows = 2\napplication = { messages = { sizes = \"20kB\" } }\n";
        let once = "[[case.guests]]\nname = \"once\"\nstack = \"reno\"\nstart = \"500ms\"\n\
             application = { transfer = { size = \"300kB\" } }";
        let record = record("", &format!("{next}{once}"), RENO);
        for flow in &record.flows[..2] {
            let all = &flow.completions;
            // A message cannot begin before the one before it is there, 10 ms after its start.
            assert!(
                (20..200).contains(&all.len()),
                "flow {}: {}",
                flow.index,
                all.len()
            );
            for pair in all.windows(2) {
                assert!(
                    pair[0].finished_ns.unwrap() <= pair[1].started_ns,
                    "{pair:?}"
                );
            }
            assert_eq!(flow.timeouts, None, "its guest has two flows");
        }
        let flow = &record.flows[2];
        let [transfer] = flow.completions[..] else {
            panic!("{:?}", flow.completions);
        };
        assert!(
            (500 * MS_NS..700 * MS_NS).contains(&transfer.started_ns),
            "{transfer:?}"
        );
        // A handshake, and slow start from ten segments: 10, 20, 40, 80, 160 of 208 segments.
        let time_ns = took_ns(&transfer).unwrap();
        assert!(
            (9 * ONE_WAY_NS..30 * ONE_WAY_NS).contains(&time_ns),
            "{transfer:?}"
        );
        assert_eq!(flow.samples.last().unwrap().delivered_bytes, 300_000);
        assert_eq!(arrived_bytes(flow, END_NS), 300_000);
    });
}

#[test]
fn live_lone_segments_that_are_lost_wait_for_timers_that_are_counted() {
    if !live() {
        return;
    }
    in_peace(|| {
        // Nothing follows a lost message, so only the timer of 200 ms repairs it.
        let stack = "[stack.reno]\ncongestion_control = \"reno\"\n\
             early_retransmit = false";
        let guests = "count = 8\napplication = { messages = { sizes = \"100B\" } }";
        let record = record("loss = 0.2", guests, stack);
        let timeouts: u32 = record.flows.iter().filter_map(|flow| flow.timeouts).sum();
        let all = record.flows.iter().flat_map(|flow| &flow.completions);
        let slow = all.filter(|it| took_ns(it).is_some_and(|time| time >= 200 * MS_NS));
        let slow = slow.count() as u32;
        println!("{timeouts} timeouts, {slow} slow messages");
        // A message takes 10 ms, and one of five 200 ms more: 40 a flow, of which 8 are lost.
        assert!(slow >= 16, "{slow} slow messages");
        assert!(
            slow <= timeouts,
            "{timeouts} timeouts, {slow} slow messages"
        );
        let dropped = record.links["switch->receiver"].dropped_packets;
        assert!(dropped >= u64::from(slow), "{dropped} packets dropped");
    });
}

#[test]
fn live_transfers_in_epochs_in_slow_motion_have_the_files_times() {
    if !live() {
        return;
    }
    // On real kernels: 100 Mb/s, links of 5 ms, 2 s, and an epoch each 600 ms.
    let text = r#"name = "lab/slow"
title = "slow"
slower = 20
duration = "100ms"
sample = "1ms"
[network]
rate = "2Gbit"
delay = "250us"
queue = { kind = "droptail", limit = "1MB" }
[stack.reno]
congestion_control = "reno"
[[case]]
name = "only"
[[case.guests]]
name = "g"
stack = "reno"
count = 2
start = "5ms"
application = { epochs = { size = "10kB", rounds = 3, every = "30ms" } }
"#;
    in_peace(|| {
        let record = run(&Experiment::from_str("slow", text).unwrap(), 1);
        assert_eq!(record.flows.len(), 6);
        for flow in &record.flows {
            let [transfer] = flow.completions[..] else {
                panic!("{:?}", flow.completions);
            };
            let begin_ns = (5 + 30 * u64::from(flow.index % 3)) * MS_NS;
            let begins = begin_ns..begin_ns + MS_NS;
            assert!(begins.contains(&transfer.started_ns), "{transfer:?}");
            // A handshake, and a window of ten segments: three times a way of 500 us, and 50 us at the link.
            let time_ns = took_ns(&transfer).unwrap();
            assert!((1_500_000..2_500_000).contains(&time_ns), "{transfer:?}");
            let last = flow.samples.last().unwrap();
            assert!((100 * MS_NS..101 * MS_NS).contains(&last.at_ns), "{last:?}");
            assert!((1_000..1_500).contains(&last.srtt_us), "{last:?}");
        }
        let last_ms = record.queue.last().unwrap().at_ns / MS_NS;
        assert!((98..=100).contains(&last_ms), "{last_ms} ms");
    });
}
