//! Turns on a link that several hosts share: for what a flow asks, how long it waits, and what
//! happens without an answer.

use crate::watch::{FRAME, MSS};
use uc_core::watch::consts::ASK_MAX_BYTES;
use uc_core::watch::{Bucket, Grant, Granter, StartPolicy, ask_for};
use uc_core::{Segment, consts};

const NOW_NS: u64 = 10_000_000_000;
/// The sequence number of the guest's SYN; its data wrap around.
const SYN_SEQ: u32 = 0xffff_fff0;
/// How long the peer's answer waits for the granter's.
const PATIENCE_NS: u64 = 1_000_000;

fn policy() -> StartPolicy {
    StartPolicy {
        pace_bytes_per_s: 125_000_000,
        ..StartPolicy::usual()
    }
}

fn syn() -> Segment {
    Segment {
        seq: SYN_SEQ,
        flags: consts::SYN as u8,
        options: consts::OPT_MSS as u8,
        mss_bytes: MSS as u16,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

/// Data of the guest, `bytes` from its first byte on.
fn data(bytes: u32, flags: u32) -> Segment {
    Segment {
        seq: SYN_SEQ.wrapping_add(1),
        payload_bytes: bytes,
        flags: (consts::ACK | flags) as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

/// A flow's grant after its question, and the bytes of the link that it asked for.
fn asked(granter: &Granter) -> (Grant, u32) {
    let mut grant = Grant::default();
    let bytes = grant.ask(granter, &policy(), &syn());
    (grant, bytes)
}

#[test]
fn a_flow_asks_once_for_a_whole_window_or_for_the_mean_of_its_hosts_flows() {
    for (used_bytes, asks) in [(0, 10 * FRAME), (5_264, 5_264), (1 << 20, 10 * FRAME)] {
        let granter = Granter {
            used_q8: 256 * used_bytes,
            ..Granter::default()
        };
        let (mut grant, bytes) = asked(&granter);
        assert_eq!(bytes, asks);
        assert_eq!(grant.ask(&granter, &policy(), &syn()), 0, "once");
    }
    let observing = StartPolicy {
        observe: 1,
        ..policy()
    };
    let bytes = Grant::default().ask(&Granter::default(), &observing, &syn());
    assert_eq!(bytes, 0, "no turn where no window is written");
}

#[test]
fn use_is_learned_when_the_guest_closes_or_has_sent_a_whole_window() {
    let mut granter = Granter::default();
    let (mut grant, _) = asked(&granter);
    grant.sent(&mut granter, &policy(), &data(3 * MSS, 0));
    assert_eq!(granter.used_q8, 0, "it may send more");
    grant.sent(&mut granter, &policy(), &data(3 * MSS, consts::FIN));
    assert_eq!(granter.used_q8, 256 * 3 * FRAME);
    grant.sent(&mut granter, &policy(), &data(9 * MSS, consts::FIN));
    assert_eq!(granter.used_q8, 256 * 3 * FRAME, "a flow counts once");
    let (mut grant, bytes) = asked(&granter);
    assert_eq!(bytes, 3 * FRAME);
    grant.sent(&mut granter, &policy(), &data(99 * MSS, 0));
    assert_eq!(granter.used_q8, 256 * (3 * FRAME * 7 + 10 * FRAME) / 8);
}

#[test]
fn the_mean_of_equal_flows_is_what_each_uses_to_a_thousandth() {
    let used_bytes = 5_000 + 4 * 66;
    for first_bytes in [100, 14_600] {
        let mut granter = Granter::default();
        for flow in 0..100 {
            let (mut grant, _) = asked(&granter);
            let bytes = if flow == 0 { first_bytes } else { 5_000 };
            grant.sent(&mut granter, &policy(), &data(bytes, consts::FIN));
        }
        let mean_bytes = granter.used_q8 / 256;
        assert!(
            mean_bytes.abs_diff(used_bytes) <= used_bytes / 1_000,
            "{mean_bytes}"
        );
    }
}

#[test]
fn the_peers_answer_waits_for_the_turn_and_never_longer_than_policy_allows() {
    let wait_ns = |grant: &Grant, now_ns| grant.wait_ns(&Granter::default(), NOW_NS, now_ns);
    for (given_ns, waits_ns) in [(0, 0), (70_000, 70_000), (u64::from(u32::MAX), 800_000_000)] {
        let (mut grant, _) = asked(&Granter::default());
        assert_eq!(wait_ns(&grant, NOW_NS), PATIENCE_NS);
        grant.granted(&mut Granter::default(), &policy(), given_ns, NOW_NS);
        assert_eq!(wait_ns(&grant, NOW_NS), waits_ns, "{given_ns}");
        assert_eq!(wait_ns(&grant, NOW_NS + waits_ns), 0, "{given_ns}");
        // A copy of the answer changes nothing.
        grant.granted(&mut Granter::default(), &policy(), 5_000, NOW_NS + 1_000);
        assert_eq!(wait_ns(&grant, NOW_NS), waits_ns, "{given_ns}");
    }
    assert_eq!(
        wait_ns(&Grant::default(), NOW_NS),
        0,
        "no turn was asked for"
    );
}

#[test]
fn without_an_answer_one_flow_waits_for_a_millisecond_and_later_ones_not_at_all() {
    let mut granter = Granter::default();
    let (first, _) = asked(&Granter::default());
    assert_eq!(first.wait_ns(&granter, NOW_NS, NOW_NS), PATIENCE_NS);
    assert_eq!(first.wait_ns(&granter, NOW_NS, NOW_NS + PATIENCE_NS), 0);
    first.unanswered(&mut granter);
    let (mut second, _) = asked(&Granter::default());
    assert_eq!(second.wait_ns(&granter, NOW_NS, NOW_NS), 0);
    // The granter answers again, even a flow that has begun meanwhile.
    second.granted(&mut granter, &policy(), 50_000, NOW_NS);
    let (mut third, _) = asked(&Granter::default());
    assert_eq!(third.wait_ns(&granter, NOW_NS, NOW_NS), PATIENCE_NS);
    third.granted(&mut granter, &policy(), 50_000, NOW_NS);
    third.unanswered(&mut granter);
    assert_eq!(granter, Granter::default(), "it was answered");
}

#[test]
fn an_answer_that_nobody_asked_for_gives_no_turn() {
    let mut grant = Grant::default();
    grant.granted(&mut Granter::default(), &policy(), 700_000_000, NOW_NS);
    assert_eq!(grant.wait_ns(&Granter::default(), NOW_NS, NOW_NS), 0);
}

#[test]
fn a_burst_gets_four_sevenths_of_the_link_and_single_flows_never_wait() {
    let policy = policy();
    let takes_ns = |bytes: u32| u64::from(bytes) * 8;
    let mut bucket = Bucket::default();
    let waits: Vec<u64> = (0..100)
        .map(|_| bucket.grant_ns(&policy, 10_000, NOW_NS))
        .collect();
    // The burst is 48,448 bytes: five flows, and the sixth comes to it.
    assert_eq!(waits[..5], [0; 5]);
    let step_ns = waits[99] - waits[98];
    assert_eq!(step_ns, takes_ns(10_000) * 7 / 4);
    let later_ns = NOW_NS + 1_000_000_000;
    for number in 0..100 {
        let now_ns = later_ns + number * takes_ns(10_000) * 10 / 9;
        assert_eq!(bucket.grant_ns(&policy, 10_000, now_ns), 0, "{number}");
    }
}

#[test]
fn a_question_for_more_than_a_window_is_charged_a_window() {
    let policy = policy();
    let wait_ns = |bytes| {
        let mut bucket = Bucket::default();
        bucket.grant_ns(&policy, bytes, NOW_NS);
        bucket.grant_ns(&policy, 1, NOW_NS)
    };
    assert_eq!(wait_ns(u32::MAX), wait_ns(2 * 65_535));
    assert!(wait_ns(65_535) < wait_ns(2 * 65_535));
}

#[test]
fn a_receiving_host_asks_in_all_for_what_its_flows_use() {
    let mut owed_bytes = 0;
    let (mut asked, mut used) = (0, 0);
    for number in 0..1_000 {
        // Each flow is charged a window, and uses more or less of it.
        let settle_bytes = [-9 * FRAME as i32, 3 * FRAME as i32][number % 2];
        asked += ask_for(&mut owed_bytes, 10 * FRAME, 0);
        assert_eq!(
            ask_for(&mut owed_bytes, 0, settle_bytes),
            0,
            "no first window"
        );
        used += 10 * FRAME as i32 + settle_bytes;
    }
    assert_eq!(asked as i32 + owed_bytes, used);
    assert!(owed_bytes.unsigned_abs() <= 10 * FRAME, "{owed_bytes}");
}

#[test]
fn a_question_is_for_a_byte_at_least_and_a_first_window_at_most_and_debts_are_bounded() {
    let most = ASK_MAX_BYTES as i32;
    let mut owed_bytes = 0;
    for _ in 0..3 {
        ask_for(&mut owed_bytes, 0, -most);
        assert_eq!(
            owed_bytes, -most,
            "a burst that used nothing frees no later one"
        );
    }
    assert_eq!(ask_for(&mut owed_bytes, 10 * FRAME, 0), 1);
    for _ in 0..3 {
        ask_for(&mut owed_bytes, 0, most);
    }
    assert_eq!(owed_bytes, most);
    assert_eq!(ask_for(&mut owed_bytes, 10 * FRAME, 0), ASK_MAX_BYTES);
}

#[test]
fn a_receiving_host_waits_for_an_answer_a_millisecond_after_its_question() {
    let (mut granter, mut grant) = (Granter::default(), Grant::asked());
    assert_eq!(grant.wait_ns(&granter, NOW_NS, NOW_NS), PATIENCE_NS);
    assert_eq!(grant.wait_ns(&granter, NOW_NS, NOW_NS + PATIENCE_NS), 0);
    grant.granted(&mut granter, &policy(), 3 * PATIENCE_NS, NOW_NS);
    assert_eq!(grant.wait_ns(&granter, NOW_NS, NOW_NS), 3 * PATIENCE_NS);
}
