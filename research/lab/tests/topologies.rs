//! Networks of several switches as real kernels see them: delays, and the links that flows share.

mod support;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use support::ping::{ECHO_HEADER_BYTES, ping};
use support::{build, experiment, goodput_bps, live, run};
use uc_experiment::RunRecord;
use uc_lab::ports::programs::LivePorts;
use uc_lab::{Repetition, run_case};
use uc_live::in_peace;

const RENO: &str = "[stack.reno]\ncongestion_control = \"reno\"";
const DUMBBELL: &str = "\"dumbbell\"";
const ROW: &str = "{ parking-lot = { hops = 2 } }";
const FABRIC: &str = "{ leaf-spine = { leaves = 3, spines = 2 } }";
const SECOND_NS: u64 = 1_000_000_000;

/// Returns the network of a topology whose trunks have 10 Mbit/s.
fn network(topology: &str, more: &str) -> String {
    format!(
        "topology = {topology}\nrate = \"10Mbit\"\naccess_rate = \"40Mbit\"\ndelay = \"500us\"\n\
         trunk_delay = \"2ms\"\n{more}"
    )
}

/// A group of one guest.
fn guest(name: &str, more: &str) -> String {
    format!("[[case.guests]]\nname = \"{name}\"\nstack = \"reno\"\n{more}\n")
}

const DROPTAIL: &str = "queue = { kind = \"droptail\", limit = \"60kB\" }";

#[test]
fn live_a_ping_takes_the_delays_and_transmissions_of_its_path() {
    if !live() {
        return;
    }
    let at = |from, to| {
        guest(
            &format!("g{from}{to}"),
            &format!("from = {from}\nto = {to}"),
        )
    };
    let row = at(0, 1) + &at(0, 2) + &at(1, 2);
    // Trunks on each guest's path.
    let cases = [
        (DUMBBELL, guest("a", "") + &guest("b", ""), vec![1, 1]),
        (ROW, row, vec![1, 2, 1]),
        (FABRIC, at(0, 2) + &at(2, 1), vec![2, 2]),
    ];
    for (topology, guests, trunks) in cases {
        in_peace(|| {
            let (plan, lab) = build(&experiment(1, &network(topology, DROPTAIL), &guests, RENO));
            assert_eq!(plan.servers.len(), trunks.len(), "{topology}");
            for (number, trunks) in trunks.iter().enumerate() {
                let server = plan.server_of(&plan.guests[number]).address;
                let pings = (0..20).map(|n| ping(&lab, number, server, n, &[7; 200]));
                let least = pings.min().unwrap();
                let bits = (ECHO_HEADER_BYTES + 200) as u64 * 8;
                // Two links of 40 Mbit/s and 500 us, and the trunks: 25 and 100 ns a bit.
                let one_way_ns = 2 * (500_000 + bits * 25) + trunks * (2_000_000 + bits * 100);
                let expected = Duration::from_nanos(2 * one_way_ns);
                let late = least.checked_sub(expected);
                println!("{topology}: expected {expected:?}, minimum of 20 {least:?}");
                assert!(
                    late.is_some_and(|late| late < Duration::from_micros(600)),
                    "{topology}: guest {number}: {least:?}"
                );
            }
            let report = lab.finish().unwrap();
            assert_eq!(report.counters["wire_unknown_destinations"], 0);
        });
    }
}

/// Returns the goodput of each flow from the second second to the last, in bits per second.
fn goodputs(record: &RunRecord, seconds: u64) -> Vec<f64> {
    let flows = 0..record.flows.len();
    let of_flow = |flow| goodput_bps(record, flow, SECOND_NS, seconds * SECOND_NS);
    flows.map(of_flow).collect()
}

/// The payload of 10 Mbit/s: 1448 bytes of a segment's 1514.
const PAYLOAD_BPS: f64 = 1e7 * 1448.0 / 1514.0;

#[test]
fn live_flows_to_separate_receivers_share_the_trunk_of_a_dumbbell() {
    if !live() {
        return;
    }
    in_peace(|| {
        let guests = guest("a", "") + &guest("b", "");
        let record = run(
            &experiment(5, &network(DUMBBELL, DROPTAIL), &guests, RENO),
            3,
        );
        let goodputs = goodputs(&record, 5);
        println!("{goodputs:?}");
        let sum: f64 = goodputs.iter().sum();
        // Samples are at most milliseconds late.
        assert!((0.9..1.02).contains(&(sum / PAYLOAD_BPS)), "{goodputs:?}");
        assert!(goodputs.iter().all(|&one| one > 0.15 * sum), "{goodputs:?}");
        assert_eq!(record.bottlenecks, ["west->east"]);
        let links = ["left0->west", "left1->west", "west->east"];
        let [one, other, trunk] = links.map(|name| record.links[name]);
        assert!(one.packets.min(other.packets) > 500, "{one:?} {other:?}");
        let lost = trunk.dropped_packets;
        let between = one.packets + other.packets - trunk.packets - lost;
        assert!(lost > 0 && between < 100, "{one:?} {other:?} {trunk:?}");
        let longest = record.queue.iter().map(|sample| sample.backlog_bytes);
        assert!(longest.max().unwrap() > 30_000);
    });
}

#[test]
fn live_the_long_flow_of_a_row_meets_another_at_each_link() {
    if !live() {
        return;
    }
    in_peace(|| {
        let guests = guest("long", "from = 0\nto = 2")
            + &guest("first", "from = 0\nto = 1")
            + &guest("second", "from = 1\nto = 2");
        let record = run(&experiment(5, &network(ROW, DROPTAIL), &guests, RENO), 4);
        let [long, first, second] = goodputs(&record, 5)[..] else {
            panic!("three flows")
        };
        println!("{long} {first} {second}");
        for sum in [long + first, long + second] {
            assert!((0.85..1.02).contains(&(sum / PAYLOAD_BPS)), "{sum}");
        }
        assert!(long < first && long < second && long > 0.03 * PAYLOAD_BPS);
        assert_eq!(record.bottlenecks, ["hop0->hop1", "hop1->hop2"]);
        for name in &record.bottlenecks {
            assert!(record.links[name].dropped_packets > 0, "{name}");
        }
    });
}

#[test]
fn live_every_host_of_a_switch_sends_and_receives() {
    if !live() {
        return;
    }
    in_peace(|| {
        let group = |name: &str, more: &str| guest(name, &format!("count = 4\n{more}"));
        let network = network(
            "{ switch = { hosts = 4 } }",
            "queue = { kind = \"droptail\", limit = \"200kB\" }",
        );
        let guests = group("next", "pattern = { stride = [1] }\nstart = \"1s\"")
            + &group(
                "all",
                "pattern = { shuffle = { parallel = 2 } }\napplication = { transfer = { size = \"20kB\" } }",
            )
            + &group(
                "any",
                "pattern = \"random\"\napplication = { messages = { sizes = \"2kB\" } }",
            );
        let record = run(&experiment(4, &network, &guests, RENO), 6);
        assert_eq!(record.bottlenecks.len(), 4);
        for name in &record.bottlenecks {
            assert!(record.links[name].packets > 1_000, "{name}");
        }
        let of = |group: &'static str| record.flows.iter().filter(move |flow| flow.group == group);
        let bulk: Vec<u64> = of("next")
            .map(|flow| flow.samples.last().unwrap().delivered_bytes)
            .collect();
        println!("delivered {bulk:?}");
        // 10 Mbit/s for 3 s, of which messages take a part
        assert!(bulk.iter().all(|bytes| *bytes > 1_000_000), "{bulk:?}");
        for of_guest in of("all").collect::<Vec<_>>().chunks(3) {
            let times = of_guest.iter().map(|flow| flow.completions[0]);
            let mut times: Vec<(u64, u64)> = times
                .map(|it| (it.started_ns, it.finished_ns.unwrap()))
                .collect();
            times.sort_unstable();
            // the third begins when the first of two has arrived
            assert!(times[1].0 < times[0].1.min(times[1].1), "{times:?}");
            assert!(times[2].0 >= times[0].1.min(times[1].1), "{times:?}");
        }
        for of_guest in of("any").collect::<Vec<_>>().chunks(3) {
            let counts: Vec<usize> = of_guest.iter().map(|flow| flow.completions.len()).collect();
            println!("messages to each of three {counts:?}");
            assert!(counts.iter().all(|&count| count > 2), "{counts:?}");
        }
        assert_eq!(record.counters["wire_unknown_destinations"], 0);
    });
}

/// Runs a case with programs on the ports.
fn run_translated(seconds: u32, queue: &str, case: &str) -> RunRecord {
    let stacks = format!("{RENO}\n[stack.server]\ncongestion_control = \"reno\"");
    let experiment = experiment(seconds, &network(DUMBBELL, queue), case, &stacks);
    let (repetition, never) = (Repetition { run: 0, seed: 5 }, AtomicBool::new(false));
    let (case, mut ports) = (&experiment.cases[0], LivePorts::default());
    run_case(&experiment, case, repetition, &mut ports, &|_| {}, &never)
        .unwrap_or_else(|error| panic!("seed 5: {error}"))
}

#[test]
fn live_every_receiver_of_a_dumbbell_has_a_port_with_the_receivers_law() {
    if !live() {
        return;
    }
    in_peace(|| {
        let queue = "queue = { kind = \"threshold\", limit = \"120kB\", mark = \"15kB\" }";
        let of_guests = "law = \"dctcp\"";
        let case = "receiver_law = \"dctcp\"\n".to_owned()
            + &guest("a", of_guests)
            + &guest("b", of_guests);
        let record = run_translated(4, queue, &case);
        // Neither end's TCP asks for ECN: only a port at each end makes a flow one that can be marked.
        for flow in &record.flows {
            let last = flow.samples.last().unwrap();
            assert!(flow.marks > 10, "{}: {} marks", flow.group, flow.marks);
            assert!(last.shadow_window_bytes.is_some(), "{}", flow.group);
            assert!(last.delivered_bytes > 500_000, "{last:?}");
        }
    });
}

#[test]
fn live_ports_couple_flows_to_separate_receivers() {
    if !live() {
        return;
    }
    in_peace(|| {
        let coupled = |flows: u32| {
            format!("flows = {flows}\nlaw = \"coupled\"\ncoupling = {{ group = \"trunk\" }}")
        };
        let case = guest("one", &coupled(1)) + &guest("many", &coupled(4));
        let record = run_translated(12, DROPTAIL, &case);
        let bps = |flow| goodput_bps(&record, flow, 4 * SECOND_NS, 12 * SECOND_NS);
        let (one, many) = (bps(0), (1..5).map(bps).sum::<f64>());
        println!("{one} {many}");
        assert!((0.8..1.25).contains(&(one / many)), "{one} {many}");
        assert!(one + many > 0.9 * PAYLOAD_BPS, "{one} {many}");
    });
}
