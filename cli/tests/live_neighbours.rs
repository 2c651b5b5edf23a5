//! Two guests of one host behind two translated ports: every segment passes two programs.

use std::net::SocketAddr;
use std::time::Duration;

use uc_core::Reason;

use crate::common::bench::{Translation, build, complete_checksums};
use crate::common::capture::{ACK, AE, CWR, Capture, ECE, SYN, Segment, segments};
use crate::common::frames::assert_only_editable_fields_differ;
use crate::common::rules::{assert_rfc3168, sent_again};
use crate::common::transfer::{End, Transfer};
use crate::common::{AMPLE, STACKS, experiment, guest, live_with};

/// A network in which nothing between two guests of one host limits them.
const PACE_BYTES_PER_SECOND: u32 = 4_000_000;

fn guests_of_one_host_translate_to_each_other(family: &str) {
    let network = format!("{AMPLE}\nfamily = \"{family}\"");
    let on = "law = \"ecn\"\nhost = \"h\"";
    let text = guest("a", "legacy", on) + &guest("b", "legacy", on);
    let (plan, lab) = build(&experiment(1, &network, &text, STACKS));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 64);
    let end = |guest: usize, port| End {
        namespace: &lab.wiring.guests[guest],
        address: SocketAddr::new(plan.guests[guest].address, port),
    };
    for namespace in &lab.wiring.guests {
        complete_checksums(namespace, "eth0");
    }
    let folder = tempfile::tempdir().unwrap();
    let ports = [0, 1].map(|guest| &plan.guests[guest].port);
    let sides = ports.map(|port| Capture::start(&lab.wiring.hosts, port, folder.path()));
    // The bridge's own interface sees the traffic between the two programs.
    let between = Capture::start(&lab.wiring.hosts, "br0", folder.path());

    let paced = |from, to| Transfer::start_paced(from, to, PACE_BYTES_PER_SECOND);
    let there = paced(end(0, 40_000), end(1, 5001));
    let back = paced(end(1, 40_001), end(0, 5002));
    std::thread::sleep(Duration::from_millis(1000));
    for transfer in [&there, &back] {
        transfer.reach(1_000_000);
        assert!(!transfer.info().negotiated_ecn());
    }
    let flows = translation.programs.flows().unwrap();
    let mut keys: Vec<_> = flows
        .iter()
        .map(|f| (f.ifindex, f.guest, f.remote))
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(
        keys.len(),
        4,
        "{family}: two connections at two ports: {keys:?}"
    );
    for flow in &flows {
        assert_eq!(
            uc_core::stage_label(&flow.state),
            "translating",
            "{family}: {keys:?}"
        );
    }
    for transfer in [there, back] {
        transfer.finish();
    }
    for refused in [
        Reason::NO_HANDSHAKE,
        Reason::PEER_REFUSED_ECN,
        Reason::TABLE_FULL,
    ] {
        assert_eq!(
            translation.count(refused),
            0,
            "{family}: {}",
            translation.counts()
        );
    }

    let [a, b] = sides;
    let [a, b, between] = Capture::finish([a, b, between]);
    let sides = [a, b];
    for (side, accepts) in sides.iter().zip([5002, 5001]) {
        let is_to_guest = |segment: &Segment| segment.destination_port == accepts;
        assert!(assert_only_editable_fields_differ(side, &between) > 1000);
        for segment in segments(side) {
            // The peer's SYN may offer ECN, which a guest that negotiates ECN may accept.
            let is_offer = segment.has(SYN) && !segment.has(ACK) && is_to_guest(&segment);
            assert!(
                is_offer || !segment.has_any(ECE | CWR | AE),
                "{family}: {segment:?}"
            );
            assert_eq!(segment.ecn, 0, "{family}: {segment:?}");
        }
    }
    let between = segments(&between);
    for segment in between.iter().filter(|segment| segment.has(SYN)) {
        let expected = if segment.has(ACK) { ECE } else { ECE | CWR };
        assert_eq!(
            segment.flags & (ECE | CWR | AE),
            expected,
            "{family}: {segment:?}"
        );
    }
    for (side, sender, receiver) in [(&sides[0], 40_000, 5001), (&sides[1], 40_001, 5002)] {
        let is_of = |s: &&Segment| [s.source_port, s.destination_port].contains(&sender);
        let connection: Vec<_> = between.iter().filter(is_of).cloned().collect();
        let sent = assert_rfc3168(&connection, sender);
        println!("{family}: {sent:?} between the ports");
        // A segment lost before the capture between the ports appears there once, as a
        // retransmission.
        let again = sent_again(&segments(side), sender);
        let unseen = again.saturating_sub(sent.retransmissions);
        assert!(
            sent.new_segments > 500 && sent.not_ect_segments <= unseen,
            "{family}: {sent:?}, retransmitted {again}"
        );
        for ack in connection
            .iter()
            .filter(|segment| segment.source_port == receiver)
        {
            assert_eq!(ack.ecn, 0, "{family}: {ack:?}");
        }
    }
}

#[test]
fn live_two_guests_of_one_host_negotiate_ecn_and_no_segment_is_edited_twice() {
    if !live_with(&["tcpdump", "tshark"]) {
        return;
    }
    std::thread::scope(|scope| {
        for family in ["ipv4", "ipv6"] {
            scope.spawn(move || guests_of_one_host_translate_to_each_other(family));
        }
    });
}
