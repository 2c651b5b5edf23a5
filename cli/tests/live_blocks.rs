//! Blocks that the receiver asks for, round by round, between real kernels; and a receiver whose
//! processor is taken away, which makes a round as long as its stalls.

use uc_experiment::RunRecord;
use uc_lab::Namespaces;
use uc_live::in_peace;

use crate::common::{experiment, guest, live};

const NETWORK: &str = "rate = \"100Mbit\"\ndelay = \"50us\"\n\
     queue = { kind = \"droptail\", limit = \"256kB\" }";
const STACK: &str = "[stack.reno]\ncongestion_control = \"reno\"";

fn run(seconds: u32, guests: &str) -> RunRecord {
    let experiment = experiment(seconds, NETWORK, guests, STACK);
    let record = crate::common::run(&mut Namespaces, &experiment);
    println!("{:?}", record.counters);
    record
}

#[test]
fn live_every_flow_of_a_group_answers_every_round_with_a_block_and_with_nothing_more() {
    if !live() {
        return;
    }
    let blocks = "count = 3\napplication = { incast = { block = \"20kB\", rounds = 7 } }";
    let record = run(3, &guest("one", "reno", blocks));
    assert_eq!(record.counters["incast_rounds"], 7, "seed 1");
    for flow in &record.flows {
        let delivered = flow.samples.last().map(|sample| sample.delivered_bytes);
        assert_eq!(delivered, Some(7 * 20_000), "seed 1: {}", flow.index);
    }
}

#[test]
fn live_a_round_takes_as_long_as_its_receiver_stands_still() {
    if !live() {
        return;
    }
    in_peace(|| {
        let blocks = "application = { incast = { block = \"100B\", rounds = 1000000 } }";
        let stalled = "receiver_hypervisor = { vms = 3 }\n";
        let record = run(3, &format!("{stalled}{}", guest("one", "reno", blocks)));
        let count = |name: &str| record.counters[name];
        assert!(
            count("receiver_stalls") >= 25,
            "seed 1: {:?}",
            record.counters
        );
        // Two slices of 30 ms, less what is lost of them at their ends.
        assert!(
            count("incast_round_max_us") >= 55_000,
            "seed 1: {:?}",
            record.counters
        );
        assert_eq!(count("receiver_stalled_frames_lost"), 0, "seed 1");
        assert!(
            count("incast_rounds") > 100,
            "seed 1: {:?}",
            record.counters
        );
    });
}
