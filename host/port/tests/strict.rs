//! Strict mode in the kernel: offers are removed from the bytes of a SYN, and what can't be
//! translated is held or dropped.

mod kernel;

use std::net::SocketAddr;

use kernel::frame::{ETHERNET, Oddity, PLAIN, Shape, frame, make_odd};
use kernel::reading::read;
use kernel::{IFINDEX, context, policy, programs};
use uc_core::{Policy, Segment, consts};
use uc_port::{Direction, PortPlan, Programs};

const FAMILIES: [(&str, &str); 2] = [
    ("10.77.0.1:40000", "10.77.0.2:5001"),
    ("[fd77::1]:40000", "[fd77::2]:5001"),
];

fn strict() -> Policy {
    Policy {
        modes: consts::MODE_STRICT as u8,
        ..policy()
    }
}

fn segment(flags: u32, options: u32) -> Segment {
    Segment {
        seq: 1_000,
        ack: if flags & consts::ACK != 0 { 9_001 } else { 0 },
        window: 65_535,
        mss_bytes: 1_460,
        options: options as u8,
        flags: flags as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

fn data(seq: u32) -> Segment {
    Segment {
        seq,
        payload_bytes: 1_000,
        wire_payload_bytes: 1_000,
        ..segment(consts::ACK, 0)
    }
}

/// Passes a frame of the guest; returns the reason that was counted, whether it was dropped, and
/// the frame afterwards.
fn pass(programs: &Programs, bytes: &[u8]) -> (&'static str, bool, Vec<u8>) {
    let before = programs.counters().unwrap();
    let run = programs
        .test_run(Direction::FromGuest, bytes, context())
        .unwrap();
    let after = programs.counters().unwrap();
    let counted = after
        .iter()
        .find(|(reason, packets)| *packets > before.get(*reason));
    let reason = counted.expect("every packet is counted").0;
    assert_eq!(
        reason.drops(),
        run.verdict == 2,
        "{reason}: {}",
        run.verdict
    );
    (reason.label(), reason.drops(), run.packet)
}

fn over_families(check: impl Fn(&Programs, SocketAddr, SocketAddr)) {
    let Some(programs) = programs(64) else {
        return;
    };
    for (guest, remote) in FAMILIES {
        programs.set_plan(IFINDEX, &strict().into()).unwrap();
        programs.forget_flows(IFINDEX).unwrap();
        check(&programs, guest.parse().unwrap(), remote.parse().unwrap());
    }
}

#[test]
fn live_offers_are_removed_from_the_bytes_of_a_syn_and_its_checksum_holds() {
    over_families(|programs, guest, remote| {
        let all = consts::OPT_MSS | consts::OPT_SACK | consts::OPT_AE | consts::OPT_MPTCP;
        let flags = consts::SYN | consts::ECE | consts::CWR;
        // options before MPTCP's move it to every place in a word
        for skipped in 0..4 {
            let shape = Shape {
                options: vec![(1, 0); skipped],
                ..PLAIN
            };
            let bytes = frame(&segment(flags, all), guest, remote, &shape);
            let (reason, _, after) = pass(programs, &bytes);
            assert_eq!((reason, after.len()), ("downgraded", bytes.len()));
            let (sent, left) = (
                read(&bytes, 0, true).unwrap(),
                read(&after, 0, true).unwrap(),
            );
            assert!(left.checksums_hold(&after));
            let (sent, left) = (sent.segment, left.segment);
            assert_eq!(u32::from(left.options), consts::OPT_MSS | consts::OPT_SACK);
            assert_eq!((left.mss_bytes, left.seq), (sent.mss_bytes, sent.seq));
            assert_eq!(u32::from(left.flags), flags, "the host's offer of ECN");
        }
    });
}

#[test]
fn live_offers_are_removed_up_to_an_option_that_contradicts_its_length() {
    let withheld = consts::OPT_SACK << consts::WITHHELD_SHIFT;
    over_families(|programs, guest, remote| {
        let policy = Policy {
            modes: withheld as u8,
            ..policy()
        };
        programs.set_plan(IFINDEX, &policy.into()).unwrap();
        let offers = consts::OPT_MSS | consts::OPT_SACK;
        pass(
            programs,
            &frame(&segment(consts::SYN, offers), guest, remote, &PLAIN),
        );
        let answer = Segment {
            seq: 9_000,
            ack: 1_001,
            direction: consts::TO_GUEST as u8,
            payload_bytes: 100,
            wire_payload_bytes: 100,
            ..segment(consts::SYN | consts::ACK, offers)
        };
        let mut bytes = frame(&answer, guest, remote, &PLAIN);
        let tcp_at = read(&bytes, 0, false).unwrap().tcp_at;
        let end = tcp_at + usize::from(bytes[tcp_at + 12] >> 4) * 4;
        // behind MSS and SACK-permitted: another one, which reaches into the data
        assert_eq!(end - tcp_at, 28);
        bytes[end - 2..end].copy_from_slice(&[4, 40]);
        let run = programs
            .test_run(Direction::ToGuest, &bytes, context())
            .unwrap();
        let options = &run.packet[tcp_at + 20..end];
        assert_eq!(options[4..], [1, 1, 4, 40]);
        assert_eq!(run.packet[end..], bytes[end..], "the data are the sender's");
    });
}

#[test]
fn live_offers_that_policy_removes_become_nops_wherever_they_stand() {
    let all = consts::OPT_MSS | consts::OPT_SACK | consts::OPT_WSCALE | consts::OPT_TIMESTAMPS;
    over_families(|programs, guest, remote| {
        for withheld in [
            consts::OPT_WSCALE,
            consts::OPT_SACK,
            consts::OPT_TIMESTAMPS,
            0x0e,
        ] {
            let policy = Policy {
                modes: (withheld << consts::WITHHELD_SHIFT) as u8,
                ..policy()
            };
            programs.set_plan(IFINDEX, &policy.into()).unwrap();
            for skipped in 0..4 {
                let shape = Shape {
                    options: vec![(1, 0); skipped],
                    ..PLAIN
                };
                programs.forget_flows(IFINDEX).unwrap();
                let bytes = frame(&segment(consts::SYN, all), guest, remote, &shape);
                let (reason, _, after) = pass(programs, &bytes);
                assert_eq!((reason, after.len()), ("translated", bytes.len()));
                let left = read(&after, 0, true).unwrap();
                assert!(left.checksums_hold(&after));
                let options = u32::from(left.segment.options);
                assert_eq!((options, left.segment.mss_bytes), (all & !withheld, 1_460));
            }
        }
    });
}

#[test]
fn live_packets_that_hide_tcp_are_dropped_and_those_that_hide_another_protocol_pass() {
    over_families(|programs, guest, remote| {
        let whole = frame(&data(5_000), guest, remote, &PLAIN);
        let made = |oddity: Oddity| {
            let mut bytes = whole.clone();
            make_odd(&mut bytes, &oddity);
            bytes
        };
        let reason = |bytes: &[u8]| pass(programs, bytes).0;
        assert_eq!(reason(&made(Oddity::Truncate(60))), "strict_malformed");
        assert_eq!(reason(&made(Oddity::VlanStack)), "strict_vlan_stack");
        for tag in [0, 0xe000, 7] {
            assert_eq!(reason(&made(Oddity::Vlan(tag))), "held");
        }
        if guest.is_ipv4() {
            assert_eq!(reason(&made(Oddity::Fragment(1 << 13))), "strict_fragment");
            assert_eq!(reason(&made(Oddity::Fragment(100))), "strict_fragment");
            let mut udp = made(Oddity::Fragment(1 << 13));
            udp[ETHERNET + 9] = 17;
            assert_eq!(reason(&udp), "not_tcp");
            return;
        }
        // an extension header of eight bytes between IPv6 and what follows
        let behind = |kinds: &[u8], last: u8, offset: u8| {
            let mut bytes = whole.clone();
            let mut next = last;
            for &kind in kinds.iter().rev() {
                let fragment_offset = if kind == 44 { offset } else { 0 };
                let header = [next, 0, 0, fragment_offset, 0, 0, 0, 0];
                bytes.splice(ETHERNET + 40..ETHERNET + 40, header);
                next = kind;
            }
            bytes[ETHERNET + 6] = next;
            bytes
        };
        for (kinds, last, offset, counted) in [
            (&[60][..], 6, 0, "strict_ip_extension"),
            (&[0, 43, 60], 6, 0, "strict_ip_extension"),
            (&[0, 44], 6, 0, "strict_ip_extension"),
            (&[44], 6, 1, "strict_fragment"),
            (&[44], 6, 0xf8, "strict_fragment"),
            (&[44, 60], 6, 1, "strict_fragment"),
            (&[60; 9], 6, 0, "strict_ip_extension"),
            // multicast listener reports have a hop-by-hop header, and datagrams fragments
            (&[0], 58, 0, "ip_extension"),
            (&[44], 17, 1, "fragment"),
            (&[44], 17, 0xf8, "fragment"),
        ] {
            assert_eq!(
                reason(&behind(kinds, last, offset)),
                counted,
                "{kinds:?} {last}"
            );
        }
    });
}

#[test]
fn live_malformed_options_and_signed_syns_are_dropped() {
    over_families(|programs, guest, remote| {
        let signed = segment(consts::SYN, consts::OPT_MSS | consts::OPT_SIGNED);
        let bytes = frame(&signed, guest, remote, &PLAIN);
        assert_eq!(pass(programs, &bytes).0, "strict_signed");
        let mut cut_short = frame(
            &segment(consts::SYN, consts::OPT_MSS),
            guest,
            remote,
            &PLAIN,
        );
        let options_at = cut_short.len() - 4;
        cut_short[options_at + 1] = 40;
        assert_eq!(pass(programs, &cut_short).0, "strict_malformed");
        assert!(programs.flows().unwrap().is_empty());
    });
}

#[test]
fn live_connection_without_a_handshake_is_held_and_its_syn_ack_dropped() {
    over_families(|programs, guest, remote| {
        let reason = |segment: &Segment| {
            let bytes = frame(segment, guest, remote, &PLAIN);
            let (reason, _, after) = pass(programs, &bytes);
            assert_eq!(after, bytes, "nothing is written");
            reason
        };
        let both = consts::SYN | consts::ACK;
        assert_eq!(
            reason(&segment(both, consts::OPT_MSS)),
            "strict_no_handshake"
        );
        assert_eq!(reason(&segment(consts::ACK, 0)), "no_handshake");
        assert_eq!(reason(&segment(consts::RST, 0)), "no_handshake");
        let passed = (0..50).take_while(|nth| reason(&data(5_000 + nth * 1_000)) == "held");
        assert_eq!(passed.count(), 11, "ten segments and the guard's slack");
        assert!(programs.flow(IFINDEX, guest, remote).unwrap().is_some());
    });
}

#[test]
fn live_flow_above_the_quota_is_dropped() {
    over_families(|programs, guest, remote| {
        let plan = PortPlan {
            flows_max: 1,
            ..strict().into()
        };
        programs.set_plan(IFINDEX, &plan).unwrap();
        let syn = segment(consts::SYN, consts::OPT_MSS);
        let first = frame(&syn, guest, remote, &PLAIN);
        assert_eq!(pass(programs, &first).0, "translated");
        // a half-open flow does not count
        let answer = Segment {
            seq: 9_000,
            ack: 1_001,
            direction: consts::TO_GUEST as u8,
            ..segment(consts::SYN | consts::ACK | consts::ECE, consts::OPT_MSS)
        };
        let answer = frame(&answer, guest, remote, &PLAIN);
        programs
            .test_run(Direction::ToGuest, &answer, context())
            .unwrap();
        let next = SocketAddr::new(guest.ip(), guest.port() + 1);
        let second = frame(&syn, next, remote, &PLAIN);
        assert_eq!(pass(programs, &second).0, "strict_quota_full");
        // nor does its data leave without a place
        let other = SocketAddr::new(guest.ip(), guest.port() + 2);
        let bytes = frame(&data(5_000), other, remote, &PLAIN);
        assert_eq!(pass(programs, &bytes).0, "strict_quota_full");
    });
}

#[test]
fn live_rules_that_pass_flows_pass_them_beside_strict_ones() {
    over_families(|programs, guest, remote| {
        let pass_policy = Policy {
            modes: consts::MODE_STRICT as u8,
            ..Policy::new(consts::LAW_PASS, consts::PROFILE_LINUX)
        };
        let mut plan: PortPlan = pass_policy.into();
        plan.rules[0].matches.remote_ports = (5_001, 5_001);
        plan.rules.extend(PortPlan::from(strict()).rules);
        programs.set_plan(IFINDEX, &plan).unwrap();
        let other = SocketAddr::new(remote.ip(), 5_002);
        let data = data(5_000);
        let reason = |remote| pass(programs, &frame(&data, guest, remote, &PLAIN)).0;
        assert_eq!((reason(remote), reason(other)), ("no_handshake", "held"));
    });
}
