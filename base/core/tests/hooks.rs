//! The hooks of a port: what makes one blind, what an idle port, an outage and a new port prove, and
//! what a half-blind port does to its flows.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert;
use uc_core::hooks::consts::{GRAIN_NS, RUN_NS, TRIAL_NS};
use uc_core::hooks::{Hooks, is_missed};
use uc_core::slot::Slot;
use uc_core::{Flow, Policy, Reason, Segment, consts};

use crate::flows::for_all;

const MS: u64 = 1_000_000;
/// When each story begins: hours after the host's start.
const BEGIN: u64 = 1 << 44;

fn segment(direction: u32, flags: u32) -> Segment {
    let from_guest = direction == consts::FROM_GUEST;
    Segment {
        seq: if from_guest { 1001 } else { 9001 },
        ack: if from_guest { 9001 } else { 1001 },
        window: 65535,
        mss_bytes: 1460,
        options: if flags & consts::SYN != 0 {
            consts::OPT_MSS as u8
        } else {
            0
        },
        flags: flags as u8,
        direction: direction as u8,
        ..Segment::default()
    }
}

fn saw(hooks: &mut Hooks, direction: u32, flags: u32, at_ms: u64) {
    hooks.saw(&segment(direction, flags), BEGIN + at_ms * MS);
}

fn asks(hooks: &Hooks, at_ms: u64) -> bool {
    hooks.ask(BEGIN + at_ms * MS)
}

#[test]
fn new_port_asks_where_nothing_runs_before_its_programs_and_else_after_the_first_answer() {
    assert!(asks(&Hooks::trusted(BEGIN), 0));
    let mut doubted = Hooks::default();
    assert!(!asks(&doubted, 0));
    saw(&mut doubted, consts::FROM_GUEST, consts::SYN, 0);
    assert!(!asks(&doubted, 1));
    saw(&mut doubted, consts::TO_GUEST, consts::SYN | consts::ACK, 2);
    assert!(asks(&doubted, 3));
}

#[test]
fn idle_port_keeps_its_trust_for_a_day() {
    let mut hooks = Hooks::trusted(BEGIN);
    saw(&mut hooks, consts::TO_GUEST, consts::ACK, 10);
    // the last ACK of a connection, and an hour later a keepalive
    saw(&mut hooks, consts::FROM_GUEST, consts::ACK, 90);
    assert!(asks(&hooks, 86_400_000));
    saw(&mut hooks, consts::FROM_GUEST, consts::ACK, 3_600_000);
    assert!(asks(&hooks, 3_600_001));
}

#[test]
fn outage_with_backed_off_retransmissions_or_syns_for_ever_blinds_no_hook() {
    let mut hooks = Hooks::trusted(BEGIN);
    let mut at_ms = 0;
    for rto_ms in [200u64, 400, 800, 1600, 3200, 6400, 12_800] {
        at_ms += rto_ms;
        saw(&mut hooks, consts::FROM_GUEST, consts::ACK, at_ms);
    }
    assert!(asks(&hooks, at_ms + 1), "{hooks:?}");
    for tenths in 0..600 {
        saw(
            &mut hooks,
            consts::FROM_GUEST,
            consts::SYN,
            at_ms + tenths * 100,
        );
    }
    assert!(asks(&hooks, at_ms + 60_000), "{hooks:?}");
}

#[test]
fn hook_is_blind_after_a_second_of_the_others_segments_and_until_it_sees_one() {
    for (seen, hidden) in [
        (consts::FROM_GUEST, consts::TO_GUEST),
        (consts::TO_GUEST, consts::FROM_GUEST),
    ] {
        let mut hooks = Hooks::trusted(BEGIN);
        for ms in 0..500 {
            saw(&mut hooks, seen, consts::ACK, ms);
            saw(&mut hooks, hidden, consts::ACK, ms);
        }
        let mut blind_at = None;
        for ms in 500..3000 {
            saw(&mut hooks, seen, consts::ACK, ms);
            if hooks.is_blind(hidden) {
                blind_at.get_or_insert(ms);
            }
            assert!(!hooks.is_blind(seen));
        }
        let after_ms = blind_at.expect("a second without an answer") - 500;
        let grains = 2 * u64::from(GRAIN_NS) / MS;
        let run = u64::from(RUN_NS) / MS;
        assert!(
            (run - grains..=run + grains).contains(&after_ms),
            "{after_ms} ms"
        );
        assert_eq!(asks(&hooks, 3000), hidden == consts::FROM_GUEST);
        // idle for a day, it has still not been seen
        assert!(hooks.is_blind(hidden));
        saw(&mut hooks, hidden, consts::ACK, 86_400_000);
        assert!(!hooks.is_blind(hidden));
        assert!(asks(&hooks, 86_400_000));
    }
}

#[test]
fn hooks_that_both_see_something_each_second_are_never_blind() {
    for_all(
        2000,
        &vec((0u64..1000, any::<bool>(), 0u64..400), 1..200),
        |steps| {
            let mut hooks = Hooks::trusted(BEGIN);
            let (mut at_ms, mut last) = (0, [0u64; 2]);
            for &(pause_ms, to_guest, other_ms) in &steps {
                at_ms += pause_ms;
                let direction = u32::from(to_guest);
                // the other direction's segment comes before a second is over
                if at_ms - last[1 - direction as usize] > 800 {
                    last[1 - direction as usize] = at_ms + other_ms / 4;
                    at_ms = last[1 - direction as usize];
                    saw(&mut hooks, 1 - direction, consts::ACK, at_ms);
                }
                saw(&mut hooks, direction, consts::ACK, at_ms);
                last[direction as usize] = at_ms;
                prop_assert!(!hooks.is_blind(0) && !hooks.is_blind(1), "{hooks:?}");
            }
            Ok(())
        },
    );
}

#[test]
fn missed_answer_ends_asking_at_once_and_for_a_minute_after_it() {
    let mut hooks = Hooks::trusted(BEGIN);
    hooks.missed(BEGIN + 5 * MS);
    assert!(!asks(&hooks, 6));
    assert!(
        !asks(&hooks, TRIAL_NS / MS * 10),
        "nothing has been seen since"
    );
    saw(&mut hooks, consts::TO_GUEST, consts::ACK, 60);
    assert!(!asks(&hooks, 61));
    assert!(asks(&hooks, 5 + TRIAL_NS / MS));
}

#[test]
fn answer_that_the_port_cannot_read_is_no_missed_one_for_a_second() {
    let mut hooks = Hooks::trusted(BEGIN);
    hooks.unread(BEGIN + 5 * MS);
    hooks.missed(BEGIN + 6 * MS);
    assert!(asks(&hooks, 7));
    hooks.missed(BEGIN + 5 * MS + u64::from(RUN_NS));
    assert!(!asks(&hooks, 6 + u64::from(RUN_NS) / MS));
}

#[test]
fn strict_port_that_may_be_half_blind_opens_flows_without_ecn() {
    let strict = Policy {
        modes: consts::MODE_STRICT as u8,
        ..policy(consts::LAW_ECN)
    };
    let mut slot = Slot::new(strict);
    let mut pass = |segment: &Segment| slot.pass(segment, BEGIN, &mut |_| None);
    let (reason, edit) = pass(&blind(syn()));
    assert_eq!(
        (reason, edit.flags),
        (Reason::TRANSLATED, consts::SYN as u8)
    );
    // behind an answer that the port has not seen
    let data = Segment {
        payload_bytes: 1_000,
        wire_payload_bytes: 1_000,
        ..segment(consts::FROM_GUEST, consts::ACK)
    };
    assert_eq!(pass(&data).0.label(), "strict_no_handshake");
    assert_eq!(pass(&blind(data)).0.label(), "strict_half_blind");
    let answer = Segment {
        seq: 9000,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK)
    };
    assert_eq!(pass(&answer).0, Reason::TRANSLATED);
    let (reason, edit) = pass(&data);
    assert_eq!(
        (reason, edit.ecn),
        (Reason::TRANSLATED, consts::NOT_ECT as u8)
    );
}

fn policy(law: u32) -> Policy {
    Policy::new(law, consts::PROFILE_LINUX)
}

fn blind(segment: Segment) -> Segment {
    Segment {
        blind: 1,
        ..segment
    }
}

fn syn() -> Segment {
    Segment {
        seq: 1000,
        ..segment(consts::FROM_GUEST, consts::SYN)
    }
}

/// Returns a flow that the guest opened, after its handshake.
fn open_flow(law: u32) -> Flow {
    let (mut flow, policy) = (Flow::default(), policy(law));
    let (reason, edit) = crate::steps::open(&mut flow, &policy, &syn(), BEGIN);
    assert_eq!(reason, Reason::TRANSLATED);
    assert_ne!(u32::from(edit.flags) & consts::ECE, 0);
    let answer = Segment {
        seq: 9000,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE)
    };
    assert_eq!(
        uc_core::COMPILED.translate(&mut flow, &answer, BEGIN).0,
        Reason::TRANSLATED
    );
    flow
}

#[test]
fn half_blind_port_opens_no_flow_whose_law_wants_ecn_and_leaves_the_syn_as_it_is() {
    for law in [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_COUPLED] {
        let mut flow = Flow::default();
        let syn = blind(syn());
        let (reason, edit) = crate::steps::open(&mut flow, &policy(law), &syn, BEGIN);
        assert_eq!((reason, edit), (Reason::HALF_BLIND, uc_core::no_edit(&syn)));
    }
    let mut flow = Flow::default();
    let delay = policy(consts::LAW_DELAY);
    assert_eq!(
        crate::steps::open(&mut flow, &delay, &blind(syn()), BEGIN).0,
        Reason::TRANSLATED
    );
    // into a live flow: passes, and the flow goes on
    let mut flow = open_flow(consts::LAW_ECN);
    let again = blind(Segment {
        seq: 77_000,
        ..syn()
    });
    let (reason, edit) = crate::steps::open(&mut flow, &policy(consts::LAW_ECN), &again, BEGIN);
    assert_eq!(
        (reason, edit),
        (Reason::NO_HANDSHAKE, uc_core::no_edit(&again))
    );
}

#[test]
fn guest_that_goes_on_after_an_unseen_syn_ack_shows_that_it_was_missed() {
    let mut flow = Flow::default();
    crate::steps::open(&mut flow, &policy(consts::LAW_ECN), &syn(), BEGIN);
    assert!(is_missed(&flow, &segment(consts::FROM_GUEST, consts::ACK)));
    let elsewhere = Segment {
        seq: 1002,
        ..segment(consts::FROM_GUEST, consts::ACK)
    };
    for other in [
        elsewhere,
        syn(),
        segment(consts::FROM_GUEST, consts::RST | consts::ACK),
        segment(consts::TO_GUEST, consts::ACK),
    ] {
        assert!(!is_missed(&flow, &other), "{other:?}");
    }
    assert!(!is_missed(
        &open_flow(consts::LAW_ECN),
        &segment(consts::FROM_GUEST, consts::ACK)
    ));
}

#[test]
fn open_flow_of_a_half_blind_port_sends_no_ect_and_ends_the_receivers_echo() {
    for law in [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_COUPLED] {
        let mut flow = open_flow(law);
        let data = Segment {
            payload_bytes: 1000,
            wire_payload_bytes: 1000,
            ..segment(consts::FROM_GUEST, consts::ACK)
        };
        let (reason, edit) = uc_core::COMPILED.translate(&mut flow, &data, BEGIN + MS);
        assert_eq!(
            (reason, u32::from(edit.ecn)),
            (Reason::TRANSLATED, consts::ECT0)
        );
        let more = blind(Segment { seq: 2001, ..data });
        let (reason, edit) = uc_core::COMPILED.translate(&mut flow, &more, BEGIN + 2 * MS);
        assert_eq!(
            (reason, u32::from(edit.ecn)),
            (Reason::TRANSLATED, consts::NOT_ECT)
        );
        assert_eq!(u32::from(edit.flags), consts::ACK | consts::CWR);
        // an echo would go on for ever: the peer's CWR is not seen
        let mut marked = Segment {
            ecn: consts::CE as u8,
            ack: 1001,
            payload_bytes: 1000,
            wire_payload_bytes: 1000,
            ..segment(consts::TO_GUEST, consts::ACK)
        };
        assert_eq!(
            uc_core::COMPILED
                .translate(&mut flow, &marked, BEGIN + 3 * MS)
                .0,
            Reason::TRANSLATED
        );
        let ack = Segment {
            seq: 3001,
            ack: 10_001,
            ..segment(consts::FROM_GUEST, consts::ACK)
        };
        let (_, edit) = uc_core::COMPILED.translate(&mut flow.clone(), &ack, BEGIN + 4 * MS);
        assert_eq!(u32::from(edit.flags), consts::ACK | consts::ECE);
        let (_, edit) = uc_core::COMPILED.translate(&mut flow, &blind(ack), BEGIN + 4 * MS);
        assert_eq!(u32::from(edit.flags), consts::ACK);
        // once the hook sees again, all is as before
        let last = Segment { seq: 3001, ..data };
        let (_, edit) = uc_core::COMPILED.translate(&mut flow, &last, BEGIN + 5 * MS);
        assert_eq!(u32::from(edit.ecn), consts::ECT0);
        // the other way round: the guest's ACKs are not seen, so nobody would echo the mark
        marked.seq = 10_001;
        let (before, marked) = (flow, blind(marked));
        let (reason, _) = uc_core::COMPILED.translate(&mut flow, &marked, BEGIN + 6 * MS);
        assert_eq!(
            (reason, reason.drops(), reason.forgets()),
            (Reason::UNECHOED, true, false)
        );
        assert_eq!(flow, before);
        let plain = Segment {
            ecn: consts::ECT0 as u8,
            ..marked
        };
        assert_eq!(
            uc_core::COMPILED
                .translate(&mut flow, &plain, BEGIN + 7 * MS)
                .0,
            Reason::TRANSLATED
        );
    }
}

#[test]
fn guard_of_a_half_blind_port_drops_nothing_since_it_knows_no_window() {
    let guarded = Policy {
        guard_segments: 1,
        ..policy(consts::LAW_ECN)
    };
    let mut flow = open_flow(consts::LAW_ECN);
    flow.policy = guarded;
    let far = Segment {
        seq: 1_000_000,
        payload_bytes: 1000,
        wire_payload_bytes: 1000,
        ..segment(consts::FROM_GUEST, consts::ACK)
    };
    let after = |segment| {
        uc_core::COMPILED
            .translate(&mut flow.clone(), &segment, BEGIN + MS)
            .0
    };
    assert_eq!(after(far), Reason::BEYOND_EDGE);
    assert_eq!(after(blind(far)), Reason::TRANSLATED);
}
