//! A translated connection on both sides of its port, as tshark parses it: RFC 3168's rules toward
//! the network, no ECN toward the guest, and every checksum valid.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use uc_core::{Policy, Reason, consts};
use uc_lab::Plan;
use uc_lab::wiring::Wiring;
use uc_live::in_peace;

use crate::common::bench::{Translation, build, build_towards_guest, complete_checksums};
use crate::common::capture::{ACK, AE, CWR, Capture, ECE, FIN, RST, SYN, Segment, segments};
use crate::common::frames::assert_only_editable_fields_differ;
use crate::common::rules::{Sent, assert_rfc3168};
use crate::common::transfer::{End, Transfer};
use crate::common::{DROPS, RED1, STACKS, experiment, guest, live, live_with};

const GUEST_PORT: u16 = 40_000;
const SERVER_PORT: u16 = 5001;
const NOT_ECT: u8 = 0;

/// Captures of both sides of a port during one transfer.
struct Seen {
    guest_side: PathBuf,
    network_side: PathBuf,
    _folder: tempfile::TempDir,
}

/// Runs `transfer` between two captures.
fn watch(plan: &Plan, wiring: &Wiring, transfer: impl FnOnce()) -> Seen {
    complete_checksums(&wiring.servers[0], "eth0");
    complete_checksums(&wiring.guests[0], "eth0");
    let folder = tempfile::tempdir().unwrap();
    // The capture on a port is before the program for the guest's packets, and after it for packets
    // to the guest: so it shows the guest's own view.
    let guest_side = Capture::start(&wiring.hosts, &plan.guests[0].port, folder.path());
    let network_side = Capture::start(&wiring.hosts, "up0", folder.path());
    transfer();
    let [guest_side, network_side] = Capture::finish([guest_side, network_side]);
    Seen {
        guest_side,
        network_side,
        _folder: folder,
    }
}

fn ends<'a>(plan: &Plan, wiring: &'a Wiring) -> (End<'a>, End<'a>) {
    let guest = End {
        namespace: &wiring.guests[0],
        address: SocketAddr::new(plan.guests[0].address, GUEST_PORT),
    };
    let server = End {
        namespace: &wiring.servers[0],
        address: SocketAddr::new(plan.servers[0].address, SERVER_PORT),
    };
    (guest, server)
}

fn assert_guest_sees_no_ecn(file: &std::path::Path) {
    for segment in &segments(file) {
        // The peer's SYN reaches the guest unmodified: a guest that negotiates ECN may accept the
        // offer.
        let is_offer = segment.has(SYN) && !segment.has(ACK) && segment.source_port == SERVER_PORT;
        assert!(is_offer || !segment.has_any(ECE | CWR | AE), "{segment:?}");
        assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
    }
}

/// Checks the handshake on the network: SYN with ECE and CWR, SYN-ACK with ECE alone (RFC 3168
/// §6.1.1).
fn assert_handshake(segments: &[Segment]) {
    for segment in segments.iter().filter(|segment| segment.has(SYN)) {
        let expected = if segment.has(ACK) { ECE } else { ECE | CWR };
        assert_eq!(segment.flags & (ECE | CWR | AE), expected, "{segment:?}");
        assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
        assert!(!segment.has_any(FIN | RST), "{segment:?}");
    }
    let syns = segments.iter().filter(|segment| segment.has(SYN)).count();
    assert!(syns >= 2, "SYN and SYN-ACK were captured");
}

/// Lets a legacy guest send for `seconds` through `network`.
fn guest_sends(network: &str, seconds: u64) -> Sent {
    let text = guest("virtual", "legacy", "law = \"ecn\"");
    let (plan, lab) = build(&experiment(1, network, &text, STACKS));
    let translation = Translation::attach(&plan, &lab.wiring.hosts, 64);
    let (from, to) = ends(&plan, &lab.wiring);
    let seen = watch(&plan, &lab.wiring, || {
        let transfer = Transfer::start(from, to);
        assert!(!transfer.info().negotiated_ecn(), "the guest knows nothing");
        std::thread::sleep(Duration::from_secs(seconds));
        let flow = translation.flow(&plan.guests[0].port, from.address, to.address);
        assert_eq!(uc_core::stage_label(&flow.unwrap().state), "translating");
        transfer.finish();
    });
    assert!(translation.count(Reason::TRANSLATED) > 0);
    let frames = assert_only_editable_fields_differ(&seen.guest_side, &seen.network_side);
    assert_guest_sees_no_ecn(&seen.guest_side);
    let segments = segments(&seen.network_side);
    assert_handshake(&segments);
    for segment in segments.iter().filter(|s| s.source_port == SERVER_PORT) {
        assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
    }
    let sent = assert_rfc3168(&segments, GUEST_PORT);
    println!("{frames} frames, {sent:?}");
    assert_eq!(sent.not_ect_segments, 0, "every new segment is ECN-capable");
    sent
}

#[test]
fn live_marks_are_answered_by_rfc_3168_and_hidden_from_the_guest() {
    if !live_with(&["tcpdump", "tshark"]) {
        return;
    }
    in_peace(|| {
        std::thread::scope(|scope| {
            for family in ["ipv4", "ipv6"] {
                scope.spawn(move || {
                    let sent = guest_sends(&format!("{RED1}\nfamily = \"{family}\""), 4);
                    assert!(
                        sent.cuts >= 2 && sent.echoes >= sent.cuts,
                        "{family}: {sent:?}"
                    );
                    // Nothing is lost; a tail loss probe (RFC 8985 §7) may be sent where the machine is
                    // late.
                    assert!(sent.retransmissions <= 3, "{family}: {sent:?}");
                });
            }
        })
    });
}

/// The kernels of both ends take part: what neither uses, neither has seen the other offer. Whole
/// segments arrive, so checksums are right.
#[test]
fn live_an_offer_removed_from_the_handshake_is_used_by_neither_end() {
    if !live() {
        return;
    }
    for family in ["ipv4", "ipv6"] {
        for (removed, modes) in [
            ([false; 3], 0),
            ([true, false, false], consts::WITHHELD_TIMESTAMPS),
            (
                [false, true, true],
                consts::WITHHELD_SACK | consts::WITHHELD_WSCALE,
            ),
        ] {
            let text = guest("virtual", "legacy", "law = \"ecn\"");
            let network = format!("{RED1}\nfamily = \"{family}\"");
            let (plan, lab) = build(&experiment(1, &network, &text, STACKS));
            let translation =
                Translation::attach_with(&plan, &lab.wiring.hosts, 64, |policy| Policy {
                    modes: modes as u8,
                    ..policy
                });
            let (from, to) = ends(&plan, &lab.wiring);
            let transfer = Transfer::start(from, to);
            transfer.reach(500_000);
            let agreed = transfer.info().agreed();
            assert_eq!(agreed, removed.map(|off| !off), "{family}: {modes}");
            let flow = translation.flow(&plan.guests[0].port, from.address, to.address);
            assert_eq!(uc_core::stage_label(&flow.unwrap().state), "translating");
            transfer.finish();
        }
    }
}

#[test]
fn live_retransmissions_are_not_ecn_capable() {
    if !live_with(&["tcpdump", "tshark"]) {
        return;
    }
    std::thread::scope(|scope| {
        for family in ["ipv4", "ipv6"] {
            scope.spawn(move || {
                let sent = guest_sends(&format!("{DROPS}\nfamily = \"{family}\""), 3);
                assert!(sent.retransmissions > 0, "{family}: {sent:?}");
            });
        }
    });
}

/// Lets a native ECN sender in the server's place send to a legacy guest behind a marking queue.
fn guest_receives(family: &str) {
    let text = guest("virtual", "legacy", "law = \"ecn\"");
    let network = format!("{RED1}\nfamily = \"{family}\"");
    let (plan, wiring, _wire) = build_towards_guest(&experiment(1, &network, &text, STACKS));
    let translation = Translation::attach(&plan, &wiring.hosts, 64);
    let (to, from) = ends(&plan, &wiring);
    let mut info = None;
    let seen = watch(&plan, &wiring, || {
        let transfer = Transfer::start(from, to);
        std::thread::sleep(Duration::from_secs(4));
        info = Some(transfer.info());
        transfer.finish();
    });
    let info = info.unwrap();
    println!(
        "{family}: delivered_ce {}, ssthresh {}",
        info.delivered_ce, info.snd_ssthresh
    );
    assert!(info.negotiated_ecn(), "{family}: {info:?}");
    assert!(
        info.delivered_ce > 0 && info.snd_ssthresh < 10_000,
        "{family}: {info:?}"
    );
    assert!(info.needed_retransmits() <= 3, "{family}: {info:?}");
    assert!(translation.count(Reason::TRANSLATED) > 0);
    assert_only_editable_fields_differ(&seen.guest_side, &seen.network_side);
    assert_guest_sees_no_ecn(&seen.guest_side);

    let segments = segments(&seen.network_side);
    assert_handshake(&segments);
    let is_marked = |segment: &&Segment| segment.source_port == SERVER_PORT && segment.ecn == 3;
    let marks = segments.iter().filter(is_marked).count();
    let is_cut = |segment: &&Segment| {
        segment.source_port == SERVER_PORT && segment.has(CWR) && !segment.has(SYN)
    };
    let cuts = segments.iter().filter(is_cut).count();
    let echoes = assert_echo_rules(&segments);
    println!("{family}: {marks} marks, {echoes} echoes, {cuts} cuts");
    // An ACK covers two segments, or three if one was delayed.
    assert!(
        marks > 0 && 3 * echoes >= marks && cuts >= 2,
        "{family}: {marks} {echoes} {cuts}"
    );
}

/// RFC 3168 §6.1.3: ECE from the first CE on, on every ACK, until data with CWR comes. Nothing of
/// the receiver's is ECN-capable. Returns the number of echoes.
fn assert_echo_rules(segments: &[Segment]) -> usize {
    let mut echoes = 0;
    let mut latched = false;
    for segment in segments {
        if segment.has(SYN) {
            continue;
        }
        if segment.source_port == SERVER_PORT {
            latched = segment.ecn == 3 || latched && !segment.has(CWR);
            continue;
        }
        assert_eq!(segment.ecn, NOT_ECT, "{segment:?}");
        assert!(!segment.has(CWR), "{segment:?}");
        // Both directions meet in the capture a moment before the program sees them: an ACK may
        // have passed it before the mark that stands above it here did.
        if segment.has(ECE) {
            echoes += 1;
        } else {
            assert!(!latched || segment.has_any(RST | FIN) || echoes_may_lag(segments, segment));
        }
    }
    echoes
}

/// Returns `true` if the ACK does not cover the latest mark before it: it left before the mark
/// came.
fn echoes_may_lag(segments: &[Segment], ack: &Segment) -> bool {
    let before = segments
        .iter()
        .take_while(|segment| segment.number < ack.number);
    let marked = before
        .filter(|s| s.source_port == SERVER_PORT && s.ecn == 3)
        .last();
    marked.is_some_and(|mark| {
        ack.ack
            .wrapping_sub(mark.seq.wrapping_add(mark.payload_bytes)) as i32
            <= 0
    })
}

#[test]
fn live_marks_toward_a_legacy_guest_reach_the_sender_and_not_the_guest() {
    if !live_with(&["tcpdump", "tshark"]) {
        return;
    }
    in_peace(|| {
        std::thread::scope(|scope| {
            for family in ["ipv4", "ipv6"] {
                scope.spawn(move || guest_receives(family));
            }
        })
    });
}
