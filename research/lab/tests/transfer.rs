//! Runs with real TCP at both ends.

mod support;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{build, experiment, goodput_bps, live, run};
use uc_experiment::{Arm, Experiment, Measure, Statistic};
use uc_lab::tcp_info::TcpInfo;
use uc_lab::traffic::Traffic;
use uc_lab::{LabError, NoPorts, Progress, Repetition, run_case};
use uc_live::in_peace;

const SECOND_NS: u64 = 1_000_000_000;
/// Payload divided by frame size, with timestamps: 1,500 − 20 − 32 of 1,500 + 14.
const PAYLOAD_SHARE: f64 = 1448.0 / 1514.0;
const DROPTAIL: &str = "rate = \"10Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"250us\"\nqueue = { kind = \"droptail\", limit = \"60kB\" }";
const RED1: &str = "rate = \"10Mbit\"\ndelay = \"250us\"\nqueue = { kind = \"red\", min = \"90000B\", \
     max = \"90001B\", limit = \"1MB\", burst = 61, probability = 1.0, packet = \"1500B\", ecn = true }";
const STACKS: &str = "[stack.reno]\ncongestion_control = \"reno\"\n\
     [stack.ecn]\ncongestion_control = \"reno\"\necn = true";
const ONE: &str = "[[case.guests]]\nname = \"one\"\nstack = \"reno\"";

fn assert_full_rate(experiment: &Experiment, seed: u64) {
    let record = run(experiment, seed);
    let goodput = goodput_bps(&record, 0, SECOND_NS, 6 * SECOND_NS);
    let capacity = 10e6 * PAYLOAD_SHARE;
    println!(
        "goodput {goodput:.0} of {capacity:.0} bit/s; {:?}",
        record.counters
    );
    assert!(
        (0.98..=1.02).contains(&(goodput / capacity)),
        "seed {seed}: {goodput}"
    );
    let flow = &record.flows[0];
    assert_eq!((flow.group.as_str(), flow.index), ("one", 0));
    let last = flow.samples.last().unwrap();
    assert!(
        last.at_ns >= 6 * SECOND_NS && last.at_ns < 6 * SECOND_NS + SECOND_NS / 2,
        "{last:?}"
    );
    assert_eq!(last.mss_bytes, 1448);
    assert!(last.bytes_sent >= last.delivered_bytes, "{last:?}");
    assert!(
        last.cwnd_segments >= 2 && last.unacked_segments > 0,
        "{last:?}"
    );
    // An empty path has 1 ms and a full queue 49 ms.
    assert!((1_000..80_000).contains(&last.srtt_us), "{last:?}");
    assert!(!flow.negotiated_ecn && flow.marks == 0 && last.shadow_window_bytes.is_none());
    assert!(
        flow.samples
            .windows(2)
            .all(|pair| pair[0].at_ns < pair[1].at_ns)
    );
    let deepest = record
        .queue
        .iter()
        .map(|sample| sample.backlog_bytes)
        .max()
        .unwrap();
    assert!((20_000..=60_000).contains(&deepest), "{deepest}");
    assert_eq!(record.links["switch->receiver"].dropped_packets, flow.drops);
}

#[test]
fn live_two_runs_at_once_both_get_the_whole_rate() {
    if !live() {
        return;
    }
    in_peace(|| {
        let experiment = experiment(6, DROPTAIL, ONE, STACKS);
        let experiment = &experiment;
        std::thread::scope(|scope| {
            let runs = [1, 2].map(|seed| scope.spawn(move || assert_full_rate(experiment, seed)));
            for run in runs {
                run.join().unwrap();
            }
        });
    });
}

#[test]
fn live_red_marks_ecn_flows_and_drops_none_of_their_packets() {
    if !live() {
        return;
    }
    in_peace(|| {
        let ten = "[[case.guests]]\nname = \"ecn\"\ncount = 10\nstack = \"ecn\"";
        let record = run(&experiment(8, RED1, ten, STACKS), 3);
        for flow in &record.flows {
            let last = flow.samples.last().unwrap();
            assert!(
                flow.negotiated_ecn && flow.marks > 0,
                "seed 3: {:?}",
                (flow.index, last)
            );
            assert_eq!(
                last.bytes_retransmitted,
                0,
                "seed 3: {:?}",
                (flow.index, last)
            );
        }
        // A full average queue drops what is not ECN-capable: SYNs and the handshake's ACKs
        // (RFC 3168 §6.1.1, §6.1.4), however often a lost one or a stalled host makes TCP
        // retransmit them.
        assert_eq!(
            record.counters["wire_dropped_ect_frames"], 0,
            "seed 3: {:?}",
            record.counters
        );
        let marks: u64 = record.flows.iter().map(|flow| flow.marks).sum();
        assert_eq!(record.links["switch->receiver"].marked_packets, marks);
        let sum: f64 = (0..10)
            .map(|flow| goodput_bps(&record, flow, 2 * SECOND_NS, 8 * SECOND_NS))
            .sum();
        assert!(
            (0.97..=1.03).contains(&(sum / (10e6 * PAYLOAD_SHARE))),
            "seed 3: {sum}"
        );
    });
}

#[test]
fn live_the_server_announces_the_scale_of_its_stack_and_its_window_is_wide_open() {
    if !live() {
        return;
    }
    for (server, guest) in [(0, 7), (7, 10), (10, 0), (14, 3)] {
        let stacks = format!(
            "[stack.server]\necn = true\nwscale = {server}\n\
             [stack.reno]\ncongestion_control = \"reno\"\nwscale = {guest}"
        );
        let (plan, lab) = build(&experiment(1, DROPTAIL, ONE, &stacks));
        let traffic = Traffic::start(&plan, &lab.wiring, 1).unwrap();
        traffic.wait_connected(|| Ok(())).unwrap();
        std::thread::sleep(Duration::from_millis(800));
        let info = TcpInfo::read(traffic.flows()[0].socket.as_fd()).unwrap();
        assert_eq!(
            (info.snd_wscale(), info.rcv_wscale()),
            (server, guest),
            "{info:?}"
        );
        // Far more than this network can hold, except where 16 bits can't express it.
        let enough = if server == 0 { 60_000 } else { 250_000 };
        println!("wscale {server}: window {} bytes", info.snd_wnd);
        assert!(info.snd_wnd >= enough, "wscale {server}: {info:?}");
        assert!(
            info.snd_wnd <= 65_535 << server,
            "wscale {server}: {info:?}"
        );
    }
}

#[test]
fn live_the_minimum_rto_is_the_stacks() {
    if !live() {
        return;
    }
    for (rto_min, family) in [("", "ipv4"), ("\"20ms\"", "ipv4"), ("\"20ms\"", "ipv6")] {
        let key = if rto_min.is_empty() { "" } else { "rto_min = " };
        let stacks = format!("[stack.reno]\ncongestion_control = \"reno\"\n{key}{rto_min}");
        let network = format!("{DROPTAIL}\nfamily = \"{family}\"");
        let (plan, lab) = build(&experiment(1, &network, ONE, &stacks));
        let traffic = Traffic::start(&plan, &lab.wiring, 1).unwrap();
        traffic.wait_connected(|| Ok(())).unwrap();
        // At most 60 kB wait, 48 ms: far from 200 ms.
        let info = TcpInfo::read(traffic.flows()[0].socket.as_fd()).unwrap();
        println!(
            "{rto_min:?} over {family}: timeout {} us, RTT {} us",
            info.rto_us, info.rtt_us
        );
        assert_eq!(info.rto_us >= 200_000, rto_min.is_empty(), "{info:?}");
    }
}

#[test]
fn live_the_senders_window_is_the_receivers_buffer() {
    if !live() {
        return;
    }
    in_peace(|| {
        let network = "rate = \"100Mbit\"\ndelay = \"10ms\"\n\
                       queue = { kind = \"droptail\", limit = \"1MB\" }";
        let stacks = format!("{STACKS}\n[stack.server]\nreceive_buffer = \"40kB\"");
        let record = run(&experiment(3, network, ONE, &stacks), 7);
        let window_bytes = record.flows[0].samples.last().unwrap().snd_wnd_bytes;
        assert!((38_000..=40_000).contains(&window_bytes), "{window_bytes}");
        // a window in each round trip of 40 ms
        let goodput = goodput_bps(&record, 0, SECOND_NS, 3 * SECOND_NS);
        println!("window {window_bytes} bytes, goodput {goodput} bit/s");
        assert!((6.4e6..=8e6).contains(&goodput), "{goodput}");
    });
}

#[test]
fn live_the_measured_timeout_is_that_of_connections_that_are_open() {
    if !live() {
        return;
    }
    in_peace(|| {
        // until 500 ms the flow's socket has no connection, and a timeout of 1 s
        let late = format!("{ONE}\nstart = \"500ms\"");
        let experiment = experiment(2, DROPTAIL, &late, STACKS);
        let records = [run(&experiment, 8)];
        let measure = Measure::Rto {
            case: "only".into(),
            of: "one".into(),
            statistic: Statistic::Max,
        };
        assert!(measure.can_be_told_by(Arm::Live));
        let longest_s = uc_experiment::Repetition::of(&experiment, &records, 0)
            .measure(&measure)
            .unwrap();
        println!("longest timeout {longest_s} s");
        assert!((0.2..0.5).contains(&longest_s), "{longest_s}");
    });
}

#[test]
fn live_the_first_window_and_whether_acks_wait_are_the_stacks() {
    if !live() {
        return;
    }
    let of_path = |delay: &str, family: &str, server: &str, guest: &str| {
        let network = format!(
            "rate = \"10Mbit\"\ndelay = \"{delay}\"\nfamily = \"{family}\"\n\
             queue = {{ kind = \"droptail\", limit = \"60kB\" }}"
        );
        let stacks = format!(
            "[stack.server]\n{server}\n[stack.reno]\ncongestion_control = \"reno\"\n{guest}"
        );
        run(&experiment(3, &network, ONE, &stacks), 5)
    };
    for family in ["ipv4", "ipv6"] {
        in_peace(|| {
            // a round trip of 400 ms: the first sample is from before the first ACK
            for segments in [3, 15] {
                let guest = format!("initial_window = {segments}");
                let record = of_path("100ms", family, "", &guest);
                let first = &record.flows[0].samples[0];
                assert_eq!(first.cwnd_segments, segments, "{family}: {first:?}");
            }
        });
        in_peace(|| {
            let acks_of_a_packet = |server| {
                let record = of_path("250us", family, server, "");
                let packets = |link: &str| record.links[link].packets as f64;
                packets("receiver->switch") / packets("switch->receiver")
            };
            let waits = acks_of_a_packet("");
            let at_once = acks_of_a_packet("delayed_ack = \"0s\"");
            println!("{family}: ACKs of a packet: {waits:.2}, with delayed_ack = 0s {at_once:.2}");
            // some 40 packets of 2,500 are still in the queue
            assert!(at_once > 0.97, "{family}: {at_once}");
            assert!(waits < at_once - 0.05, "{family}: {waits} {at_once}");
        });
    }
}

#[test]
fn live_guests_of_one_host_with_several_flows_over_ipv6_share_its_uplink() {
    if !live() {
        return;
    }
    in_peace(|| {
        let network = DROPTAIL.to_owned() + "\nfamily = \"ipv6\"";
        let guests = "[[case.guests]]\nname = \"a\"\nstack = \"reno\"\nflows = 2\nhost = \"h\"\n\
                  [[case.guests]]\nname = \"b\"\nstack = \"ecn\"\ncount = 2\nhost = \"h\"";
        let record = run(&experiment(3, &network, guests, STACKS), 4);
        let names: Vec<_> = record
            .flows
            .iter()
            .map(|f| (f.group.as_str(), f.index))
            .collect();
        assert_eq!(names, [("a", 0), ("a", 1), ("b", 0), ("b", 1)]);
        let ecn: Vec<_> = record
            .flows
            .iter()
            .map(|flow| flow.negotiated_ecn)
            .collect();
        assert_eq!(ecn, [false, false, true, true]);
        let up = record.links["sender0->switch"];
        let down = record.links["switch->receiver"];
        assert!(
            up.packets >= down.packets && down.packets > 2_000,
            "seed 4: {up:?} {down:?}"
        );
        // This queue drops whatever finds it full, of the flows with ECN too.
        let dropped = record.counters["wire_dropped_ect_frames"];
        assert!(dropped > 0, "seed 4: {:?}", record.counters);
        for flow in &record.flows {
            let last = flow.samples.last().unwrap();
            assert_eq!(last.mss_bytes, 1428);
            assert!(last.delivered_bytes > 100_000, "seed 4: {last:?}");
        }
    });
}

/// Runs until `is_time` holds of its progress, cancels, and returns how long the run took to end.
fn cancelled(experiment: &Experiment, is_time: impl Fn(Progress) -> bool) -> Duration {
    let cancel = AtomicBool::new(false);
    let since = std::sync::OnceLock::new();
    std::thread::scope(|scope| {
        let progress = |progress| {
            if is_time(progress) && since.set(Instant::now()).is_ok() {
                // Later, so that the cancellation comes while the run waits.
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(300));
                    cancel.store(true, Ordering::Relaxed);
                });
            }
        };
        let repetition = Repetition { run: 0, seed: 5 };
        let case = &experiment.cases[0];
        let result = run_case(
            experiment,
            case,
            repetition,
            &mut NoPorts,
            &progress,
            &cancel,
        );
        assert!(matches!(result, Err(LabError::Cancelled)), "{result:?}");
    });
    since.get().unwrap().elapsed() - Duration::from_millis(300)
}

#[test]
fn live_a_cancelled_run_ends_at_once_while_it_sends_and_while_it_connects() {
    if !live() {
        return;
    }
    let sends = experiment(600, DROPTAIL, ONE, STACKS);
    // No frame fits into this queue: every SYN is dropped.
    let closed = DROPTAIL.replace("60kB", "1B");
    let connects = experiment(600, &closed, ONE, STACKS);
    let is_sending = |progress| matches!(progress, Progress::Running { .. });
    let is_connecting = |progress| matches!(progress, Progress::Connecting { .. });
    in_peace(|| {
        for took in [
            cancelled(&sends, is_sending),
            cancelled(&connects, is_connecting),
        ] {
            println!("{took:?}");
            assert!(took < Duration::from_millis(500), "seed 5: {took:?}");
        }
    });
}

#[test]
fn live_a_law_without_port_programs_and_an_unknown_congestion_control_are_named() {
    if !live() {
        return;
    }
    let guests = "[[case.guests]]\nname = \"v\"\nstack = \"reno\"\nlaw = \"ecn\"";
    let fails = |experiment: &Experiment| {
        let repetition = Repetition { run: 0, seed: 6 };
        let (case, cancel) = (&experiment.cases[0], AtomicBool::new(false));
        run_case(experiment, case, repetition, &mut NoPorts, &|_| {}, &cancel).unwrap_err()
    };
    let text = fails(&experiment(1, DROPTAIL, guests, STACKS)).to_string();
    assert!(text.contains("port0") && text.contains("v[0]"), "{text}");
    let odd = "[stack.reno]\ncongestion_control = \"nosuchcc\"";
    let text = fails(&experiment(1, DROPTAIL, ONE, odd)).to_string();
    assert!(
        text.contains("nosuchcc") && text.contains("one[0]"),
        "{text}"
    );
}
