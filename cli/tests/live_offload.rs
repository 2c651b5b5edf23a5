//! Super-segments and partial checksums of a guest with offloads.

use std::net::SocketAddr;
use std::time::Duration;

use uc_core::Reason;
use uc_lab::netns::Namespace;
use uc_live::in_peace;

use crate::common::bench::{Translation, build, tcp_counter};
use crate::common::transfer::{End, Transfer};
use crate::common::{STACKS, experiment, guest, live};

const FAST: &str = "rate = \"150Mbit\"\naccess_rate = \"1Gbit\"\ndelay = \"250us\"\noffload = true\n\
     queue = { kind = \"threshold\", limit = \"1MB\", mark = \"100kB\" }";
const FLOWS: u16 = 4;
const MSS_BYTES: u64 = 1428;

fn super_segments_are_translated(family: &str) {
    let network = format!("{FAST}\nfamily = \"{family}\"");
    let text = guest("virtual", "legacy", "law = \"ecn\"");
    let (plan, lab) = build(&experiment(1, &network, &text, STACKS));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 64);
    let end = |namespace, address, port| End {
        namespace,
        address: SocketAddr::new(address, port),
    };
    let (sender, receiver) = (&lab.wiring.guests[0], &lab.wiring.servers[0]);
    let mut transfers = Vec::new();
    for flow in 0..FLOWS {
        let from = end(sender, plan.guests[0].address, 40_000 + flow);
        let to = end(receiver, plan.servers[0].address, 5001 + flow);
        transfers.push(Transfer::start(from, to));
    }
    std::thread::sleep(Duration::from_millis(2000));
    for transfer in &transfers {
        // Nothing is lost. Where the machine pauses, the guest retransmits what did arrive.
        let info = transfer.info();
        assert!(info.needed_retransmits() < 10, "{family}: {info:?}");
        assert!(
            info.total_retrans < info.segs_out / 50,
            "{family}: {info:?}"
        );
    }
    let bytes: u64 = transfers.into_iter().map(Transfer::finish).sum();
    let packets = sent_packets(sender);
    println!(
        "{family}: {bytes} bytes left eth0 in {packets} packets, {}",
        translation.counts()
    );
    assert!(bytes > 20_000_000, "{family}: {bytes} bytes");
    assert!(
        packets < bytes / MSS_BYTES / 2,
        "{family}: {packets} packets, {bytes} bytes"
    );
    // And toward the guest, whose interface completes no checksum either.
    let from = end(receiver, plan.servers[0].address, 6000);
    let back = Transfer::start(from, end(sender, plan.guests[0].address, 6001));
    std::thread::sleep(Duration::from_millis(700));
    assert!(back.finish() > 1_000_000, "{family}");
    for (node, namespace) in [("guest", sender), ("server", receiver)] {
        // InErrs counts more: a SYN-ACK retransmitted because the handshake's last ACK, which is
        // not ECN-capable, was dropped.
        assert_eq!(
            tcp_counter(namespace, "InCsumErrors"),
            0,
            "{family}: {node}"
        );
    }
    assert_eq!(
        translation.count(Reason::NO_HANDSHAKE),
        0,
        "{family}: {}",
        translation.counts()
    );
    drop(translation);
    let report = lab.finish().unwrap();
    let bottleneck = report.links["switch->receiver"];
    println!("{family}: {bottleneck:?}");
    assert!(bottleneck.marked_packets > 0, "{family}: {bottleneck:?}");
    // Handshakes, pure ACKs and retransmissions are not ECN-capable (RFC 3168 §6.1.1, §6.1.4,
    // §6.1.5), all other data is.
    let dropped = report.counters["wire_dropped_ect_frames"];
    assert_eq!(dropped, 0, "{family}: {bottleneck:?}");
}

/// Returns the packets that the guest's eth0 has sent; a super-segment counts as one.
fn sent_packets(guest: &Namespace) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let text = guest.enter(read).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"))
        .unwrap();
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

#[test]
fn live_super_segments_with_partial_checksums_are_translated_whole_over_ipv4() {
    if live() {
        in_peace(|| super_segments_are_translated("ipv4"));
    }
}

#[test]
fn live_super_segments_with_partial_checksums_are_translated_whole_over_ipv6() {
    if live() {
        in_peace(|| super_segments_are_translated("ipv6"));
    }
}
