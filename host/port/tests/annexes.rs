//! Flows under laws with much state, and flows that share windows, take a second place of the table.

mod kernel;
#[path = "../../../base/core/tests/flows/seeded.rs"]
mod seeded;

use kernel::table::{connect, filling, flow, guest, pass, remote, segment, syn};
use kernel::{IFINDEX, programs, reason};
use proptest::prelude::*;
use seeded::for_all;
use uc_core::{Policy, Reason, Segment, consts};
use uc_port::{PortCoupling, PortPlan, Programs};

/// Plans whose port may fill the table: those of flows with one place, and of flows with two.
fn plans() -> [PortPlan; 5] {
    let law = |law| Policy::new(law, consts::PROFILE_LINUX);
    let share = || Some(PortCoupling::share(None));
    let filling = |plan: PortPlan| PortPlan {
        flows_max: 1 << 24,
        ..plan
    };
    [
        filling(law(consts::LAW_ECN).into()),
        filling(law(consts::LAW_DCTCP).into()),
        filling(law(consts::LAW_DELAY).into()),
        filling(PortPlan::of_all(law(consts::LAW_DCTCP), share())),
        filling(PortPlan::of_all(law(consts::LAW_DELAY), share())),
    ]
}

/// How many of [`plans`] are of flows with one place.
const LIGHT: usize = 2;

/// Passes a SYN and its answer on the ports of a flow; returns the reasons.
fn again(programs: &Programs, port: u16, seq: u32) -> (Reason, Reason) {
    let syn = Segment {
        seq,
        ..segment(consts::FROM_GUEST, consts::SYN)
    };
    let answer = Segment {
        ack: seq + 1,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE)
    };
    let asked = pass(programs, port, &syn, 0).0;
    (asked, pass(programs, port, &answer, 0).0)
}

/// Opens a flow under any of [`plans`].
fn begin(programs: &Programs, port: u16) {
    let both = (Reason::TRANSLATED, Reason::TRANSLATED);
    assert_eq!(again(programs, port, 1000), both);
}

#[test]
fn live_a_flow_takes_two_places_if_its_law_or_its_share_needs_them() {
    let Some(programs) = programs(8) else {
        return;
    };
    for (number, plan) in plans().iter().enumerate() {
        programs.set_plan(IFINDEX, plan).unwrap();
        let room = if number < LIGHT { 8 } else { 4 };
        (1..=room).for_each(|port| begin(&programs, port));
        let full = syn(&programs, 100);
        assert_eq!(full, (reason("table_full"), false), "plan {number}");
        for port in 1..=room {
            let state = flow(&programs, port).unwrap();
            assert_eq!(state.has_annex(), number >= LIGHT);
        }
        programs.forget_flows(IFINDEX).unwrap();
    }
}

#[test]
fn live_a_port_without_a_quota_gets_half_of_the_places_also_for_flows_with_two() {
    let Some(programs) = programs(64) else {
        return;
    };
    for plan in plans() {
        let plan = PortPlan {
            flows_max: 0,
            ..plan
        };
        programs.set_plan(IFINDEX, &plan).unwrap();
        let opened = (1..=64).filter(|&port| {
            let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
            let begun = syn(&programs, port).0 == Reason::TRANSLATED;
            begun && pass(&programs, port, &answer, 0).0 == Reason::TRANSLATED
        });
        let places: usize = opened
            .map(|port| 1 + usize::from(flow(&programs, port).unwrap().has_annex()))
            .sum();
        assert!((30..=34).contains(&places), "{places}");
        programs.forget_flows(IFINDEX).unwrap();
    }
}

#[test]
fn live_a_flow_that_begins_again_without_room_for_its_annex_passes() {
    let Some(programs) = programs(1) else {
        return;
    };
    let [light, _, heavy, ..] = plans();
    programs.set_plan(IFINDEX, &light).unwrap();
    connect(&programs, 1);
    programs.set_plan(IFINDEX, &heavy).unwrap();
    let (asked, answered) = again(&programs, 1, 70_000);
    assert_eq!(
        (asked, answered),
        (Reason::TRANSLATED, reason("table_full"))
    );
    assert!(flow(&programs, 1).is_none());
    programs.set_plan(IFINDEX, &light).unwrap();
    connect(&programs, 2);
}

#[test]
fn live_a_stored_syn_leaves_windows_and_shares_of_its_flow_as_they_are() {
    let Some(programs) = programs(4) else {
        return;
    };
    for plan in plans() {
        programs.set_plan(IFINDEX, &plan).unwrap();
        begin(&programs, 1);
        let before = flow(&programs, 1).unwrap();
        let late = Segment {
            seq: 700_000,
            ..segment(consts::FROM_GUEST, consts::SYN)
        };
        pass(&programs, 1, &late, 0);
        let after = flow(&programs, 1).unwrap();
        assert_eq!(after.reno, before.reno);
        assert_eq!(after.annex.coupled, before.annex.coupled);
        if u32::from(after.policy.law) == consts::LAW_DELAY {
            assert_eq!(after.annex.delay, before.annex.delay);
            assert_eq!(after.policy, before.policy);
        } else {
            assert_eq!(after.dctcp, before.dctcp);
        }
        programs.forget_flows(IFINDEX).unwrap();
    }
}

/// Returns a plan that leaves the quota to the table.
fn by_default(number: usize) -> PortPlan {
    PortPlan {
        flows_max: 0,
        ..plans()[number].clone()
    }
}

/// Passes a second SYN of another number with more flags, and the answer to the first; returns the reasons.
fn second_syn(programs: &Programs, flags: u32) -> (Reason, Reason) {
    let syn = Segment {
        seq: 500_000,
        ..segment(consts::FROM_GUEST, consts::SYN | flags)
    };
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
    let passed = pass(programs, 1, &syn, 0).0;
    (passed, pass(programs, 1, &answer, 0).0)
}

/// A guest's second SYN may reach nobody, so the peer's answer to the first one counts as well, whatever
/// number of places the rule of the second asks for.
#[test]
fn live_a_second_syn_under_a_rule_of_other_places_ends_no_translation() {
    let Some(programs) = programs(8) else {
        return;
    };
    for (first, second) in [(0, 2), (2, 0), (1, 3), (3, 1), (2, 4)] {
        programs.set_plan(IFINDEX, &plans()[first]).unwrap();
        assert_eq!(syn(&programs, 1).0, Reason::TRANSLATED);
        programs.set_plan(IFINDEX, &plans()[second]).unwrap();
        let (_, answered) = second_syn(&programs, 0);
        assert_eq!(answered, Reason::TRANSLATED, "plans {first}, {second}");
        assert_eq!(flow(&programs, 1).unwrap().snd_una, 1001);
        programs.forget_flows(IFINDEX).unwrap();
    }
}

/// As above, but the second SYN's rule has no room for the annex in its quota, or it asks for ECN itself.
#[test]
fn live_a_second_syn_that_opens_nothing_ends_no_translation() {
    let Some(programs) = programs(8) else {
        return;
    };
    for (others, own) in [(3, 0), (0, consts::ECE | consts::CWR)] {
        programs.set_plan(IFINDEX, &by_default(0)).unwrap();
        (2..2 + others).for_each(|port| connect(&programs, port));
        assert_eq!(syn(&programs, 1).0, Reason::TRANSLATED);
        programs.set_plan(IFINDEX, &by_default(2)).unwrap();
        let reasons = (Reason::NO_HANDSHAKE, Reason::TRANSLATED);
        assert_eq!(second_syn(&programs, own), reasons);
        assert_eq!(programs.places_taken().unwrap(), u32::from(others) + 1);
        programs.forget_flows(IFINDEX).unwrap();
    }
}

#[test]
fn live_flows_that_begin_again_take_no_more_places_than_new_ones() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &by_default(0)).unwrap();
    (1..=64).for_each(|port| {
        again(&programs, port, 1000);
    });
    let before = programs.places_taken().unwrap();
    assert!((30..=34).contains(&before), "{before}");
    programs.set_plan(IFINDEX, &by_default(2)).unwrap();
    (1..=64).for_each(|port| {
        again(&programs, port, 70_000);
    });
    let after = programs.places_taken().unwrap();
    assert!(after <= 34, "{after}");
}

#[test]
fn live_no_member_stays_of_a_flow_that_the_answer_ends() {
    let Some(programs) = programs(4) else {
        return;
    };
    programs.set_plan(IFINDEX, &plans()[3]).unwrap();
    begin(&programs, 1);
    let data = Segment {
        payload_bytes: 1000,
        wire_payload_bytes: 1000,
        ..segment(consts::FROM_GUEST, consts::ACK)
    };
    let acked = Segment {
        ack: 2001,
        ..segment(consts::TO_GUEST, consts::ACK)
    };
    pass(&programs, 1, &data, 0);
    pass(&programs, 1, &acked, 0);
    let view = programs.flow(IFINDEX, guest(1), remote()).unwrap().unwrap();
    assert!(programs.member(&view).unwrap().is_some());
    programs.set_plan(IFINDEX, &plans()[0]).unwrap();
    let late = Segment {
        seq: 700_000,
        ..segment(consts::FROM_GUEST, consts::SYN)
    };
    pass(&programs, 1, &late, 0);
    let refused = Segment {
        ack: 700_001,
        ..segment(consts::TO_GUEST, consts::SYN | consts::ACK)
    };
    let refusal = pass(&programs, 1, &refused, 0).0;
    assert_eq!(refusal, reason("peer_refused_ecn"));
    assert!(flow(&programs, 1).is_none());
    assert!(programs.member(&view).unwrap().is_none());
}

/// A step of the life of flows on three ports.
#[derive(Clone, Debug)]
enum Step {
    Plan(usize),
    Syn(u16, u32),
    Answer(u16, u32),
    Again(u16, u32),
    Reset(u16),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let seq = || (1..4u32).prop_map(|number| number * 10_000);
    prop_oneof![
        2 => (0..5usize).prop_map(Step::Plan),
        3 => (1..4u16, seq()).prop_map(|(port, seq)| Step::Syn(port, seq)),
        3 => (1..4u16, seq()).prop_map(|(port, seq)| Step::Answer(port, seq)),
        4 => (1..4u16, seq()).prop_map(|(port, seq)| Step::Again(port, seq)),
        1 => (1..4u16).prop_map(Step::Reset),
        1 => Just(Step::Forget),
    ]
}

fn take(programs: &Programs, step: &Step) {
    match *step {
        Step::Plan(number) => programs.set_plan(IFINDEX, &plans()[number]).unwrap(),
        Step::Syn(port, seq) => {
            let syn = Segment {
                seq,
                ..segment(consts::FROM_GUEST, consts::SYN)
            };
            pass(programs, port, &syn, 0);
        }
        Step::Answer(port, seq) => {
            let answer = Segment {
                ack: seq + 1,
                ..segment(consts::TO_GUEST, consts::SYN | consts::ACK)
            };
            pass(programs, port, &answer, 0);
        }
        Step::Again(port, seq) => {
            again(programs, port, seq);
        }
        Step::Reset(port) => {
            let reset = segment(consts::FROM_GUEST, consts::RST);
            pass(programs, port, &reset, 0);
        }
        Step::Forget => programs.forget_flows(IFINDEX).unwrap(),
    }
}

/// Whatever becomes of flows, no place is lost, and none is two flows'.
#[test]
fn live_as_many_places_are_taken_as_flows_and_annexes_are_there() {
    let Some(programs) = programs(5) else {
        return;
    };
    let steps = prop::collection::vec(step(), 1..40);
    for_all(30, &steps, |steps| {
        programs.set_plan(IFINDEX, &filling()).unwrap();
        for step in steps {
            take(&programs, &step);
            let flows = programs.flows().unwrap();
            let annexes = flows.iter().filter(|flow| flow.state.has_annex()).count();
            prop_assert_eq!(
                programs.places_taken().unwrap() as usize,
                flows.len() + annexes
            );
        }
        programs.forget_flows(IFINDEX).unwrap();
        prop_assert_eq!(programs.places_taken().unwrap(), 0);
        Ok(())
    });
}
