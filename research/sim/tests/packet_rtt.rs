//! Round-trip times of packets: one for each packet sent once in the measured part.

use crate::common::{DUMBBELL, experiment, group, run};
use uc_experiment::Statistic;

const MEASURED: &str = "duration = \"2s\"\nsettle = \"500ms\"";

#[test]
fn on_an_idle_path_every_packet_takes_the_same_time() {
    // Blocks of one segment, a round trip apart: no packet waits for another.
    let application = "{ request = { request = \"100B\", response = \"1000B\", rounds = 1000, \
                       gap = \"10ms\" } }";
    let text = DUMBBELL.replace("duration = \"2s\"", MEASURED);
    let server = "[stack.server]\ncongestion_control = \"reno\"\ndelayed_ack = \"0s\"\n";
    let guests = group(
        "one",
        &format!("stack = \"reno\"\napplication = {application}"),
    );
    let record = run(&experiment(&format!("{text}{server}"), &[guests]), 1);
    let rtts = record.flows[0]
        .packet_rtt
        .as_ref()
        .expect("they are measured");
    // 1,066 bytes over links of 1, 0.1 and 1 Gb/s and 66 bytes back, 600 us of propagation.
    let expected_ns = 600_000 + 2 * (8_528 + 528) + 85_280 + 5_280;
    let statistic = |statistic| rtts.statistic(statistic).expect("packets");
    assert_eq!(statistic(Statistic::Max), f64::from(expected_ns));
    assert_eq!(statistic(Statistic::Mean), f64::from(expected_ns));
    // A round takes 10 ms and a round trip or two.
    assert!((130..150).contains(&rtts.count()), "{}", rtts.count());
}

#[test]
fn under_load_the_times_count_acknowledged_packets_and_include_the_queue() {
    let text = DUMBBELL.replace("duration = \"2s\"", MEASURED);
    let record = run(
        &experiment(&text, &[group("bulk", "stack = \"reno\"\ncount = 3")]),
        1,
    );
    for flow in &record.flows {
        let rtts = flow.packet_rtt.as_ref().expect("they are measured");
        let at = |ns| {
            flow.samples
                .iter()
                .find(|sample| sample.at_ns >= ns)
                .expect("a sample")
        };
        let (from, to) = (at(500_000_000), at(2_000_000_000));
        let packets = (to.delivered_bytes - from.delivered_bytes) / u64::from(to.mss_bytes);
        // Less a window at the start, and the retransmissions.
        let lost = to.total_retransmits - from.total_retransmits;
        let least = packets.saturating_sub(150 + 2 * u64::from(lost));
        assert!(
            (least..=packets + 1).contains(&rtts.count()),
            "{packets} {}",
            rtts.count()
        );
        let mean_us = rtts.statistic(Statistic::Mean).expect("packets") / 1e3;
        let srtt_us = f64::from(to.srtt_us);
        assert!(
            (0.3..3.0).contains(&(mean_us / srtt_us)),
            "{mean_us} and {srtt_us}"
        );
        // 100 kB at 100 Mb/s are 8 ms; only an ACK delayed by up to 40 ms adds to them.
        let max_ms = rtts.statistic(Statistic::Max).expect("packets") / 1e6;
        assert!(max_ms < 50.0, "{max_ms}");
    }
}
