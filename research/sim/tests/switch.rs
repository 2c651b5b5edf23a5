//! Hosts that send and receive, around one switch or in a fat-tree: every pattern has the sizes,
//! receivers and times that it specifies.

use crate::common::{again, experiment, group, run};
use uc_experiment::{Experiment, FlowRecord, RunRecord};

const HOSTS: usize = 5;

/// Five hosts at 100 Mb/s, a round trip of 200 us.
const SWITCH: &str = r#"
name = "sim/switch"
title = "switch"
duration = "2s"
sample = "50ms"
[network]
topology = { switch = { hosts = 5 } }
rate = "100Mbit"
access_rate = "1Gbit"
delay = "50us"
queue = { kind = "droptail", limit = "200kB" }
[stack.reno]
congestion_control = "reno"
"#;

fn switch(rest: &str) -> (Experiment, RunRecord) {
    let experiment = experiment(
        SWITCH,
        &[group("all", &format!("stack = \"reno\"\n{rest}"))],
    );
    let record = run(&experiment, 4);
    (experiment, record)
}

/// Returns the payload delivered to a flow's receivers.
fn delivered(flow: &FlowRecord) -> u64 {
    flow.samples.last().map_or(0, |last| last.delivered_bytes)
}

/// Returns the bytes on the link to a host.
fn to_host(record: &RunRecord, host: usize) -> u64 {
    record.links[&format!("switch->host{host}")].bytes
}

/// Returns start and end of every transfer of a flow; all transfers must have ended.
fn spans(record: &RunRecord, flow: &FlowRecord) -> Vec<(u64, u64)> {
    let spans = flow.completions.iter().map(|transfer| {
        let end = transfer.finished_ns;
        let end = end.unwrap_or_else(|| panic!("cut off; {}", again(record, "switch")));
        (transfer.started_ns, end)
    });
    spans.collect()
}

#[test]
fn a_stride_sends_to_one_host_after_the_other() {
    let (_, record) = switch(
        "count = 5\npattern = { stride = [1, 2, 4] }\napplication = { transfer = { size = \"1MB\" } }",
    );
    assert_eq!(record.flows.len(), HOSTS);
    for flow in &record.flows {
        let spans = spans(&record, flow);
        assert_eq!((spans.len(), delivered(flow)), (3, 3_000_000));
        for pair in spans.windows(2) {
            assert_eq!(pair[0].1, pair[1].0, "the next begins where one ends");
        }
    }
    // Every host receives three megabytes, and the ACKs for what it sends.
    for host in 0..HOSTS {
        let bytes = to_host(&record, host);
        assert!((3_000_000..3_500_000).contains(&bytes), "{host}: {bytes}");
    }
    assert_eq!(record.bottlenecks.len(), HOSTS);
    assert!(!record.counters.keys().any(|name| name.starts_with("unfin")));
}

#[test]
fn a_shuffle_sends_to_all_others_a_few_at_a_time_in_random_order() {
    let rest = "count = 5\npattern = { shuffle = { parallel = 2 } }\n\
                application = { transfer = { size = \"500kB\" } }";
    let (experiment, record) = switch(rest);
    for flow in &record.flows {
        let spans = spans(&record, flow);
        assert_eq!((spans.len(), delivered(flow)), (HOSTS - 1, 2_000_000));
        for &(start, _) in &spans {
            let at_once = spans
                .iter()
                .filter(|&&(from, to)| (from..to).contains(&start));
            assert!(at_once.count() <= 2, "{spans:?}");
        }
    }
    for host in 0..HOSTS {
        let bytes = to_host(&record, host);
        assert!((2_000_000..2_300_000).contains(&bytes), "{host}: {bytes}");
    }
    // A different order takes a different time.
    let ends = |record: &RunRecord| -> Vec<u64> {
        let flows = record.flows.iter();
        flows
            .flat_map(|flow| flow.completions.iter().filter_map(|done| done.finished_ns))
            .collect()
    };
    assert_eq!(ends(&record), ends(&run(&experiment, 4)));
    assert_ne!(ends(&record), ends(&run(&experiment, 5)));
}

#[test]
fn random_transfers_and_messages_go_to_all_the_others() {
    for application in [
        "{ web = { rate = 200.0, sizes = \"10kB\" } }",
        "{ messages = { sizes = \"10kB\", every = \"5ms\" } }",
    ] {
        let rest = format!("count = 5\npattern = \"random\"\napplication = {application}");
        let (_, record) = switch(&rest);
        let counts = record.flows.iter().map(|flow| flow.completions.len());
        for count in counts {
            assert!((320..=480).contains(&count), "{application}: {count}");
        }
        for host in 0..HOSTS {
            // 400 expected from the four others, and ACKs for as many: standard deviation 17 in the
            // choice and 20 in the arrivals, within four of both.
            let transfers = to_host(&record, host) / 11_300;
            assert!(
                (296..504).contains(&transfers),
                "{application}: {transfers}"
            );
        }
    }
}

#[test]
fn fan_in_omits_the_receiver_and_its_link_is_the_bottleneck() {
    let (_, record) = switch(
        "count = 4\npattern = { fan-in = { to = 2 } }\n\
         application = { incast = { block = \"100kB\", rounds = 5 } }",
    );
    assert_eq!(record.bottlenecks, ["switch->host2"]);
    assert_eq!(record.flows.len(), 4);
    for flow in &record.flows {
        assert_eq!((spans(&record, flow).len(), delivered(flow)), (5, 500_000));
    }
    for host in [0, 1, 3, 4] {
        let sent = record.links[&format!("host{host}->switch")].bytes;
        assert!(sent > 500_000, "{host}: {sent}");
    }
}

#[test]
fn messages_come_on_time_or_when_the_one_before_has_arrived() {
    let (_, record) = switch(
        "count = 5\npattern = { stride = [2] }\n\
         application = { messages = { sizes = \"16kB\", every = \"10ms\" } }",
    );
    for flow in &record.flows {
        let starts: Vec<u64> = flow
            .completions
            .iter()
            .map(|done| done.started_ns)
            .collect();
        assert!((199..=200).contains(&starts.len()), "{}", starts.len());
        assert!(
            starts
                .windows(2)
                .all(|pair| pair[1] - pair[0] == 10_000_000)
        );
        // Twelve packets at 100 Mb/s and a round trip, on a connection that is open.
        for done in &flow.completions[1..starts.len() - 1] {
            let took_ns = done.finished_ns.expect("an idle network") - done.started_ns;
            assert!((1_380_000..2_500_000).contains(&took_ns), "{took_ns}");
        }
    }
    let (_, record) = switch(
        "count = 5\npattern = { stride = [2] }\napplication = { messages = { sizes = \"16kB\" } }",
    );
    for flow in &record.flows {
        let (last, done) = flow.completions.split_last().expect("messages");
        assert!(done.len() > 500, "{}", done.len());
        for pair in done.windows(2) {
            assert_eq!(pair[0].finished_ns, Some(pair[1].started_ns));
        }
        let sum: u64 = done.iter().map(|message| message.bytes).sum();
        assert!((sum..sum + last.bytes).contains(&delivered(flow)));
    }
}

#[test]
fn flows_that_stop_leave_the_link_to_the_others() {
    let flows = [("first", "2s"), ("second", "1s")].map(|(name, stop)| {
        let rest = "count = 1\nstack = \"reno\"\npattern = { fan-in = { to = 0 } }";
        group(name, &format!("{rest}\nstop = \"{stop}\""))
    });
    let text = SWITCH.replace("duration = \"2s\"", "duration = \"3s\"");
    let record = run(&experiment(&text, &flows), 4);
    let at = |flow: usize, ms: u64| {
        let mut samples = record.flows[flow].samples.iter();
        let sample = samples.find(|sample| sample.at_ns == ms * 1_000_000);
        sample.map_or(0, |sample| sample.delivered_bytes)
    };
    let rate = |flow, from_ms, to_ms| (at(flow, to_ms) - at(flow, from_ms)) * 8 / (to_ms - from_ms);
    // In kilobits per second of payload; the link carries 95,600 of them.
    assert!(rate(0, 0, 1_000) + rate(1, 0, 1_000) > 85_000);
    assert!(rate(0, 1_200, 2_000) > 94_000, "{}", rate(0, 1_200, 2_000));
    assert_eq!((rate(1, 1_200, 3_000), rate(0, 2_200, 3_000)), (0, 0));
    for flow in &record.flows {
        // Data that was sent arrives, whatever was written.
        let last = flow.samples.last().expect("a sample");
        assert_eq!(
            last.delivered_bytes,
            last.bytes_sent - last.bytes_retransmitted
        );
        assert!(last.delivered_bytes > 1_000_000);
    }
    assert!(!record.counters.keys().any(|name| name.starts_with("unfin")));
}

#[test]
fn in_a_fat_tree_every_host_sends_to_all_others() {
    let text = SWITCH.replace("{ switch = { hosts = 5 } }", "{ fat-tree = { ports = 4 } }");
    let rest = "stack = \"reno\"\ncount = 16\npattern = { shuffle = { parallel = 4 } }\n\
                application = { transfer = { size = \"100kB\" } }";
    let record = run(&experiment(&text, &[group("all", rest)]), 4);
    for flow in &record.flows {
        assert_eq!(spans(&record, flow).len(), 15);
        assert_eq!(delivered(flow), 1_500_000);
    }
    // Every core switch carries a part of it.
    for core in 0..4 {
        let from = format!("core{core}->");
        let links = record
            .links
            .iter()
            .filter(|(name, _)| name.starts_with(&from));
        let bytes: u64 = links.map(|(_, link)| link.bytes).sum();
        assert!(
            bytes > 2_000_000,
            "core {core}: {bytes}; {}",
            again(&record, "switch")
        );
    }
}
