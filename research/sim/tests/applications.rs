//! Applications on a network with room for them: each completes, and the record has the times.

use crate::common::{DUMBBELL, again, experiment, experiment_with, group, run};
use uc_experiment::{Completion, FlowRecord, RunRecord};

fn record(application: &str, more: &str) -> RunRecord {
    let rest = format!("stack = \"reno\"\napplication = {application}\n{more}");
    run(&experiment(DUMBBELL, &[group("app", &rest)]), 3)
}

fn all(record: &RunRecord) -> impl Iterator<Item = &Completion> {
    record.flows.iter().flat_map(|flow| &flow.completions)
}

fn is_done(record: &RunRecord) -> bool {
    all(record).all(|transfer| transfer.finished_ns.is_some())
        && record
            .counters
            .keys()
            .all(|name| !name.starts_with("unfinished"))
}

#[test]
fn a_transfer_completes_once() {
    let record = record("{ transfer = { size = \"1MB\" } }", "count = 3");
    assert!(is_done(&record), "{record:?}");
    for flow in &record.flows {
        let [transfer] = flow.completions[..] else {
            panic!("{:?}", flow.completions)
        };
        // At least 1 MB at 100 Mb/s.
        let took_ns = transfer.finished_ns.expect("done") - transfer.started_ns;
        assert!((80_000_000..1_000_000_000).contains(&took_ns), "{took_ns}");
        assert_eq!(
            flow.samples.last().map(|sample| sample.delivered_bytes),
            Some(1_000_000)
        );
    }
}

#[test]
fn requests_follow_the_previous_answer_after_the_gap() {
    let application = "{ request = { request = \"100B\", response = \"20kB\", rounds = 5, \
                       gap = \"10ms\" } }";
    let record = record(application, "");
    assert!(is_done(&record), "{record:?}");
    let rounds = &record.flows[0].completions;
    assert_eq!(rounds.len(), 5);
    for pair in rounds.windows(2) {
        let gap_ns = pair[1].started_ns - pair[0].finished_ns.expect("done");
        assert_eq!(gap_ns, 10_000_000);
    }
    assert_eq!(
        record.flows[0]
            .samples
            .last()
            .map(|sample| sample.delivered_bytes),
        Some(100_000)
    );
}

#[test]
fn incast_waits_for_the_last_of_the_group() {
    let record = record("{ incast = { block = \"30kB\", rounds = 3 } }", "count = 8");
    assert!(is_done(&record), "{record:?}");
    for round in 0..3 {
        let of_round = || record.flows.iter().map(|flow| flow.completions[round]);
        let starts: Vec<u64> = of_round().map(|block| block.started_ns).collect();
        assert!(starts.iter().all(|&start| start == starts[0]), "{starts:?}");
        let last = of_round()
            .filter_map(|block| block.finished_ns)
            .max()
            .expect("done");
        if let Some(next) = record.flows[0].completions.get(round + 1) {
            assert_eq!(next.started_ns, last);
        }
    }
}

#[test]
fn web_flows_arrive_at_their_rate_and_complete() {
    let application = "{ web = { rate = 200.0, sizes = [[\"1kB\", 0.5], [\"21kB\", 1.0]] } }";
    let record = record(application, "count = 4");
    // 4 · 200/s · 2 s, standard deviation 40.
    let count = all(&record).count();
    assert!((1_360..1_840).contains(&count), "{count}");
    let done = all(&record)
        .filter(|transfer| transfer.finished_ns.is_some())
        .count();
    assert!(count - done < 20, "{done} of {count}");
    let mean = all(&record).map(|transfer| transfer.bytes).sum::<u64>() / count as u64;
    // Half are 1 kB, half lie evenly between 1 and 21 kB: 6 kB, standard deviation of the mean 163.
    assert!((5_000..7_000).contains(&mean), "{mean}");
}

const EPOCHS: &str = "{ epochs = { size = \"20kB\", rounds = 4, every = \"400ms\", \
                      gap = \"1ms\" } }";

#[test]
fn each_epoch_has_a_transfer_of_every_flow_in_random_order() {
    let record = record(EPOCHS, "count = 20\nstart = \"100ms\"");
    assert!(is_done(&record), "{}", again(&record, "applications"));
    let mut orders = Vec::new();
    for round in 0..4 {
        let started_ns = |flow: &FlowRecord| flow.completions[round].started_ns;
        let mut order: Vec<usize> = (0..20).collect();
        order.sort_by_key(|&flow| started_ns(&record.flows[flow]));
        let starts: Vec<u64> = order
            .iter()
            .map(|&flow| started_ns(&record.flows[flow]))
            .collect();
        assert_eq!(starts[0], 100_000_000 + 400_000_000 * round as u64);
        // Nineteen gaps of 1 ms in the mean; the standard deviation of their sum is 4.4 ms.
        let span_ns = starts[19] - starts[0];
        let why = again(&record, "applications");
        assert!(
            (5_000_000..45_000_000).contains(&span_ns),
            "{starts:?}; {why}"
        );
        orders.push(order);
    }
    orders.dedup();
    assert_eq!(orders.len(), 4, "{orders:?}");
    for flow in &record.flows {
        assert_eq!(flow.completions.len(), 4);
        let last = flow.samples.last().expect("a sample");
        assert_eq!(last.delivered_bytes, 80_000);
    }
}

#[test]
fn a_requesting_receiver_waits_a_round_trip_longer_and_its_request_goes_the_other_way() {
    let more = "stack = \"reno\"\ncount = 3\n";
    let took_ns = |application: &str| {
        let group = group("app", &format!("application = {application}\n{more}"));
        let record = run(&experiment(DUMBBELL, &[group]), 3);
        assert!(is_done(&record), "{}", again(&record, "applications"));
        let first = record.flows[0].completions[0];
        first.finished_ns.expect("done") - first.started_ns
    };
    let pushed = took_ns("{ epochs = { size = \"1kB\" } }");
    let asked = took_ns("{ epochs = { size = \"1kB\", request = \"100B\" } }");
    // Three links of 100 us each way: SYN, SYN-ACK, data; and SYN, SYN-ACK, request, answer.
    assert!((900_000..1_100_000).contains(&pushed), "{pushed}");
    assert!((1_200_000..1_400_000).contains(&asked), "{asked}");
}

#[test]
fn a_case_may_have_a_queue_of_its_own() {
    let bulk = [group("app", "stack = \"reno\"\ncount = 4")];
    let drops = |queue: &str| {
        let record = run(&experiment_with(DUMBBELL, queue, &bulk), 3);
        let flows = record.flows.iter();
        flows.map(|flow| flow.drops).sum::<u64>()
    };
    assert!(drops("") > 0);
    let ample = "queue = { kind = \"droptail\", limit = \"4GB\" }";
    assert_eq!(drops(ample), 0);
}

#[test]
fn bulk_goes_on_to_the_end() {
    let record = record(
        "\"bulk\"",
        "count = 2\nstart = \"1s\"\nstart_spread = \"100ms\"",
    );
    for flow in &record.flows {
        let first = flow
            .samples
            .iter()
            .find(|sample| sample.bytes_sent > 0)
            .expect("it sent");
        assert!(
            (1_000_000_000..1_150_000_001).contains(&first.at_ns),
            "{first:?}"
        );
        let [.., before, last] = flow.samples[..] else {
            panic!("two samples")
        };
        assert!(last.delivered_bytes > before.delivered_bytes);
    }
}
