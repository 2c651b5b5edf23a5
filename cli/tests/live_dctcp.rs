//! Law `dctcp` between real kernels: guests without ECN at both ends, each behind a port; and a
//! classic receiver whose echoes are counted packet by packet.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use uc_core::{Flow, Policy, consts};
use uc_lab::wiring::Wiring;
use uc_lab::{Plan, need};
use uc_live::in_peace;

use crate::common::bench::{Translation, build, build_towards_host, complete_checksums};
use crate::common::by_hand::{PORT, SHARED, TOOLS, flows, go_on, one_guest, start};
use crate::common::capture::{ACK, CWR, Capture, ECE, RST, SYN, Segment, segments};
use crate::common::sandbox::Sandbox;
use crate::common::transfer::{End, Transfer};
use crate::common::uc::{refusal, success};
use crate::common::{STACKS, experiment, guest, live_with};

/// A switch that marks from 20 packets on; the rest of its memory is never reached.
const MARKS: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"500us\"\n\
     queue = { kind = \"threshold\", limit = \"600kB\", mark = \"30kB\" }";
const RATE_BYTES: u64 = 20_000_000 / 8;
const MARK_BYTES: u64 = 30_000;
const SECONDS: u64 = 4;
const SENDER_PORT: u16 = 40_000;
const RECEIVER_PORT: u16 = 5001;
const NOT_ECT: u8 = 0;
const CE: u8 = 3;

fn alpha(flow: &Flow) -> f64 {
    f64::from(flow.dctcp.alpha_q30) / f64::from(1 << 30)
}

/// The echoes that the sender received, and the marks that they report.
#[derive(Debug, Default)]
struct Echoed {
    data_segments: u64,
    acks: u64,
    data_bytes: u64,
    marked_bytes: u64,
    echoed_bytes: u64,
    largest_ack_bytes: u64,
}

/// Reads a capture at the receiver's end of the network.
fn echoed(segments: &[Segment]) -> Echoed {
    let mut seen = Echoed::default();
    let mut last_ack = None;
    for segment in segments.iter().filter(|segment| !segment.has(SYN)) {
        if segment.source_port == SENDER_PORT {
            let bytes = u64::from(segment.payload_bytes);
            seen.data_segments += u64::from(bytes > 0);
            seen.data_bytes += bytes;
            seen.marked_bytes += if segment.ecn == CE { bytes } else { 0 };
            continue;
        }
        let acked = last_ack.map_or(0, |last| segment.ack.wrapping_sub(last) as i32);
        last_ack = Some(segment.ack);
        let acked = u64::try_from(acked).unwrap_or(0);
        seen.acks += 1;
        seen.largest_ack_bytes = seen.largest_ack_bytes.max(acked);
        seen.echoed_bytes += if segment.has(ECE) { acked } else { 0 };
    }
    seen
}

/// Makes two guests, which know only the server, reachable for each other.
fn introduce(plan: &Plan, wiring: &Wiring) {
    for (namespace, other) in [(0, 1), (1, 0)] {
        let other = &plan.guests[other];
        let mac = other.mac.map(|byte| format!("{byte:02x}")).join(":");
        let output = wiring.guests[namespace]
            .command(need::program("ip").unwrap())
            .args([
                "neigh",
                "replace",
                &other.address.to_string(),
                "lladdr",
                &mac,
            ])
            .args(["dev", "eth0", "nud", "permanent"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn assert_sees_no_ecn(file: &Path) {
    for segment in &segments(file) {
        // The peer's SYN reaches the guest unmodified: a guest that negotiates ECN may accept the
        // offer.
        let is_offer = segment.has(SYN) && !segment.has(ACK);
        assert!(is_offer || !segment.has_any(ECE | CWR), "{segment:?}");
        assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
    }
}

/// Asserts that every segment but SYN and RST is ECN-capable, in both directions; SYN-ACKs too.
fn assert_all_ect(segments: &[Segment]) {
    for segment in segments {
        let bare = segment.has(SYN) && !segment.has(ACK) || segment.has(RST);
        assert_eq!(segment.ecn == NOT_ECT, bare, "{segment:?}");
    }
}

fn end(wiring: &Wiring, plan: &Plan, index: usize, port: u16) -> (usize, SocketAddr) {
    assert!(index < wiring.guests.len());
    (index, SocketAddr::new(plan.guests[index].address, port))
}

fn virtual_to_virtual(family: &str) {
    let both = guest("sender", "legacy", "law = \"dctcp\"")
        + &guest("receiver", "legacy", "law = \"dctcp\"");
    let network = format!("{MARKS}\nfamily = \"{family}\"");
    let (plan, wiring, wire) = build_towards_host(&experiment(1, &network, &both, STACKS), 1);
    introduce(&plan, &wiring);
    let translation = Translation::attach(&plan, &wiring.hosts, 64);
    wiring
        .guests
        .iter()
        .for_each(|guest| complete_checksums(guest, "eth0"));
    let folder = tempfile::tempdir().unwrap();
    let captures = [
        Capture::start(&wiring.guests[0], "eth0", folder.path()),
        Capture::start(&wiring.guests[1], "eth0", folder.path()),
        Capture::start(&wiring.hosts, "up1", folder.path()),
    ];
    let (from, to) = (
        end(&wiring, &plan, 0, SENDER_PORT),
        end(&wiring, &plan, 1, RECEIVER_PORT),
    );
    let place = |(index, address): (usize, SocketAddr)| End {
        namespace: &wiring.guests[index],
        address,
    };
    let transfer = Transfer::start(place(from), place(to));
    assert!(!transfer.info().negotiated_ecn(), "the guest knows nothing");
    std::thread::sleep(Duration::from_secs(1));
    let (before, since) = (transfer.delivered_bytes(), std::time::Instant::now());
    std::thread::sleep(Duration::from_secs(SECONDS));
    let rate = (transfer.delivered_bytes() - before) as f64 / since.elapsed().as_secs_f64();
    let flow = translation
        .flow(&plan.guests[0].port, from.1, to.1)
        .unwrap()
        .state;
    let resent = transfer.info().needed_retransmits();
    transfer.finish();
    let [sender_side, receiver_side, network_side] = Capture::finish(captures);
    let receivers = translation
        .flow(&plan.guests[1].port, to.1, from.1)
        .unwrap()
        .state;
    let queue = wire.finish().unwrap().queue;

    assert_sees_no_ecn(&sender_side);
    assert_sees_no_ecn(&receiver_side);
    let network_side = segments(&network_side);
    assert_all_ect(&network_side);
    let seen = echoed(&network_side);
    let steady: Vec<u64> = queue
        .iter()
        .skip(queue.len() / 4)
        .map(|sample| sample.backlog_bytes)
        .filter(|bytes| *bytes > 0)
        .collect();
    let mean_queue = steady.iter().sum::<u64>() / steady.len().max(1) as u64;
    println!(
        "{family}: {:.2} of the rate, α {:.1}%, {} cuts, {resent} retransmitted, {} marks, \
         mean queue {mean_queue} bytes, {seen:?}",
        rate / RATE_BYTES as f64,
        100.0 * alpha(&flow),
        flow.cuts,
        receivers.marks,
    );
    assert!(receivers.marks > 0 && flow.cuts > 4, "{family}: {seen:?}");
    assert!(alpha(&flow) < 0.5, "{family}: α stands at {}", alpha(&flow));
    assert!(
        resent <= 3,
        "{family}: {resent} segments had to be retransmitted"
    );
    // Nearly all of the link's capacity for payload.
    assert!(rate > 0.85 * RATE_BYTES as f64, "{family}: {rate} bytes/s");
    assert!(
        (MARK_BYTES / 3..2 * MARK_BYTES).contains(&mean_queue),
        "{family}: {mean_queue}"
    );
    assert!(
        seen.echoed_bytes.abs_diff(seen.marked_bytes) <= seen.largest_ack_bytes,
        "{family}: {seen:?}"
    );
}

#[test]
fn live_between_two_guests_without_ecn_the_network_sees_dctcp_and_the_guests_see_nothing() {
    if !live_with(&["tcpdump", "tshark", "ip", "ethtool"]) {
        return;
    }
    in_peace(|| {
        for family in ["ipv4", "ipv6"] {
            virtual_to_virtual(family);
        }
    });
}

#[test]
fn live_an_attached_port_takes_the_laws_parameters_and_shows_its_estimate() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let attach = |more: &[&str]| {
        let words = [&["attach", PORT, "--law"], more].concat();
        sandbox.uc(&lab.wiring.hosts, &words)
    };
    refusal(
        attach(&["ecn", "--beta", "0.5"]),
        &["--beta", "--law dctcp"],
    );
    assert!(
        sandbox.pins().is_empty(),
        "refused, yet something is pinned"
    );
    success(attach(&["dctcp", "--beta", "0.5", "--alpha", "0.75"]));
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 500);
    let listing = flows(&sandbox, &lab);
    transfer.finish();
    let flow = &listing["flows"][0];
    assert_eq!(flow["law"], "dctcp", "{listing}");
    // Without marks it has decayed from its initial value.
    let alpha = flow["alpha"].as_f64().unwrap();
    assert!((0.0..0.75).contains(&alpha), "{listing}");
}

/// Runs a guest under law `dctcp` toward a classic receiver; `echo` is the kind of echoes that the
/// law expects.
fn toward_a_classic_receiver(echo: u32) -> (Echoed, Flow, u64) {
    let text = guest("virtual", "legacy", "law = \"dctcp\"");
    let (plan, lab) = build(&experiment(1, MARKS, &text, STACKS));
    let change = |policy| Policy {
        echo: echo as u8,
        ..policy
    };
    let translation = Translation::attach_with(&plan, &lab.wiring.hosts, 64, change);
    complete_checksums(&lab.wiring.servers[0], "eth0");
    complete_checksums(&lab.wiring.guests[0], "eth0");
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::start(&lab.wiring.servers[0], "eth0", folder.path());
    let from = End {
        namespace: &lab.wiring.guests[0],
        address: SocketAddr::new(plan.guests[0].address, SENDER_PORT),
    };
    let to = End {
        namespace: &lab.wiring.servers[0],
        address: SocketAddr::new(plan.servers[0].address, RECEIVER_PORT),
    };
    let transfer = Transfer::start(from, to);
    std::thread::sleep(Duration::from_secs(SECONDS));
    let flow = translation.flow(&plan.guests[0].port, from.address, to.address);
    let bytes = transfer.finish();
    let [file] = Capture::finish([capture]);
    (echoed(&segments(&file)), flow.unwrap().state, bytes)
}

#[test]
fn live_a_classic_receiver_asked_packet_by_packet_echoes_exactly_at_an_ack_for_each() {
    if !live_with(&["tcpdump", "tshark", "ethtool"]) {
        return;
    }
    in_peace(|| {
        let mut results = Vec::new();
        for (name, echo) in [
            ("classic", consts::ECHO_CLASSIC),
            ("exact", consts::ECHO_EXACT),
        ] {
            let (seen, flow, bytes) = toward_a_classic_receiver(echo);
            let acks = seen.acks as f64 / seen.data_segments as f64;
            let marked = seen.marked_bytes as f64 / seen.data_bytes as f64;
            let echoed = seen.echoed_bytes as f64 / seen.data_bytes as f64;
            println!(
                "taken for {name}: {acks:.2} ACKs a segment, marked {marked:.3}, echoed {echoed:.3}, \
             α {:.3}, {} cuts, {bytes} bytes",
                alpha(&flow),
                flow.cuts
            );
            assert!(bytes > SECONDS * RATE_BYTES * 8 / 10, "{name}: {bytes}");
            assert!(seen.marked_bytes > 0 && flow.cuts > 4, "{name}: {seen:?}");
            results.push((acks, marked, echoed));
        }
        let [(acks, marked, echoed), (cheap_acks, ..)] = results[..] else {
            unreachable!("two results")
        };
        assert!(acks > 0.9, "{acks} ACKs a segment");
        assert!(cheap_acks < 0.8, "{cheap_acks} ACKs a segment without CWR");
        assert!(
            (echoed - marked).abs() < 0.05 * marked,
            "{marked} was marked, {echoed} was echoed"
        );
    });
}
