//! Rules, quotas and counters of ports, in the kernel.

mod kernel;
#[path = "../../../base/core/tests/rules/naive.rs"]
mod naive;
#[path = "../../../base/core/tests/flows/seeded.rs"]
mod seeded;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kernel::frame::{PLAIN, Shape, frame};
use kernel::{IFINDEX, context, policy, programs, reason};
use naive::{NaiveFlow, flows_near, naive_rules};
use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq};
use seeded::for_all;
use uc_core::{Reason, Segment, consts};
use uc_port::{Direction, Match, PortCoupling, PortError, PortPlan, Programs, RULES_MAX, Rule};

fn shape(dscp: u8) -> Shape {
    Shape { dscp, ..PLAIN }
}

/// Returns a SYN; the peer's asks for ECN, which the guests' law needs.
fn syn(direction: u32) -> Segment {
    let asks = if direction == consts::TO_GUEST {
        consts::ECE | consts::CWR
    } else {
        0
    };
    Segment {
        seq: 1000,
        window: 65535,
        mss_bytes: 1460,
        options: consts::OPT_MSS as u8,
        flags: (consts::SYN | asks) as u8,
        direction: direction as u8,
        ..Segment::default()
    }
}

/// Returns the guest's answer to the peer's SYN.
fn answer_from_guest() -> Segment {
    Segment {
        seq: 9000,
        ack: 1001,
        flags: (consts::SYN | consts::ACK) as u8,
        ..syn(consts::FROM_GUEST)
    }
}

/// Returns the peer's answer to the guest's SYN; it agrees to ECN.
fn answer_to_guest() -> Segment {
    Segment {
        seq: 9000,
        ack: 1001,
        flags: (consts::SYN | consts::ACK | consts::ECE) as u8,
        ..syn(consts::TO_GUEST)
    }
}

/// Passes a segment of the flow; returns the reason that was counted.
fn pass(programs: &Programs, flow: &NaiveFlow, segment: &Segment) -> Reason {
    let bytes = frame(segment, flow.local, flow.remote, &shape(flow.dscp));
    let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
        Direction::FromGuest
    } else {
        Direction::ToGuest
    };
    let before = programs.counters().unwrap();
    programs.test_run(direction, &bytes, context()).unwrap();
    let after = programs.counters().unwrap();
    let counted = after
        .iter()
        .find(|(reason, packets)| *packets > before.get(*reason));
    counted.expect("every packet is counted").0
}

fn flow(port: u16) -> NaiveFlow {
    NaiveFlow {
        local: SocketAddr::new([10, 0, 0, 1].into(), port),
        remote: SocketAddr::new([10, 0, 0, 2].into(), 80),
        dscp: 0,
    }
}

/// Returns a rule whose guard width identifies it in the flows.
fn rule(matches: Match, mark: usize) -> Rule {
    let mut policy = policy();
    policy.guard_segments = mark as u8;
    Rule {
        matches,
        policy,
        share: 0,
        number: 1000 + mark as u16,
    }
}

#[test]
fn live_a_syn_of_either_end_gets_the_rule_that_a_naive_search_finds() {
    let Some(programs) = programs(4096) else {
        return;
    };
    let cases = (vec(naive_rules(), 0..=RULES_MAX), flows_near(naive_rules()));
    for_all(60, &cases, |(mut rules, (near, flows))| {
        rules.truncate(RULES_MAX - 1);
        rules.insert(rules.len() / 2, near);
        let compiled = rules.iter().enumerate();
        let plan = PortPlan {
            rules: compiled.map(|(at, one)| rule(one.compile(), at)).collect(),
            ..PortPlan::default()
        };
        programs.set_plan(IFINDEX, &plan).unwrap();
        for (at, flow) in flows.iter().enumerate() {
            programs.forget_flows(IFINDEX).unwrap();
            let direction = [consts::FROM_GUEST, consts::TO_GUEST][at % 2];
            let expected = rules.iter().position(|rule| rule.holds(flow));
            let counted = pass(&programs, flow, &syn(direction));
            if direction == consts::TO_GUEST {
                let none = programs.flow(IFINDEX, flow.local, flow.remote).unwrap();
                prop_assert!(none.is_none(), "before the guest has answered");
                pass(&programs, flow, &answer_from_guest());
            }
            let view = programs.flow(IFINDEX, flow.local, flow.remote).unwrap();
            let found = view.as_ref().map(|view| usize::from(view.rule));
            prop_assert_eq!(found, expected, "{:?}", flow);
            let number = view.as_ref().map(|view| usize::from(view.rule_number));
            prop_assert_eq!(number, expected.map(|at| 1000 + at), "its number");
            let marked = view.map(|view| usize::from(view.state.policy.guard_segments));
            prop_assert_eq!(marked, expected, "its policy");
            let none = expected.is_none();
            prop_assert_eq!(counted == Reason::NO_POLICY, none);
        }
        Ok(())
    });
}

#[test]
fn live_a_plan_reads_back_unchanged_and_stays_when_one_too_long_is_refused() {
    let Some(programs) = programs(64) else {
        return;
    };
    for_all(30, &vec(naive_rules(), 0..=RULES_MAX), |rules| {
        let rules = rules.iter().enumerate();
        let plan = PortPlan {
            rules: rules.map(|(at, one)| rule(one.compile(), at)).collect(),
            flows_max: 7,
            tenant: 3,
            ..PortPlan::default()
        };
        programs.set_plan(IFINDEX, &plan).unwrap();
        prop_assert_eq!(programs.plan(IFINDEX).unwrap(), Some(plan.clone()));
        let generation = programs.plan_generation().unwrap();
        let long = PortPlan {
            rules: vec![rule(Match::ALL, 0); RULES_MAX + 1],
            ..PortPlan::default()
        };
        let refused = programs.set_plan(IFINDEX, &long);
        prop_assert_eq!(matches!(refused, Err(PortError::TooManyRules { .. })), true);
        prop_assert_eq!(programs.plan(IFINDEX).unwrap(), Some(plan));
        prop_assert_eq!(programs.plan_generation().unwrap(), generation);
        Ok(())
    });
}

#[test]
fn live_a_new_plan_applies_to_new_flows_only() {
    let Some(programs) = programs(64) else {
        return;
    };
    let plan = |mark| PortPlan {
        rules: vec![rule(Match::ALL, mark)],
        ..PortPlan::default()
    };
    programs
        .set_plans(&BTreeMap::from([(IFINDEX, plan(1))]))
        .unwrap();
    let first = programs.plan_generation().unwrap();
    pass(&programs, &flow(1), &syn(consts::FROM_GUEST));
    programs
        .set_plans(&BTreeMap::from([(IFINDEX, plan(2))]))
        .unwrap();
    assert_eq!(programs.plan_generation().unwrap(), first + 1);
    pass(&programs, &flow(2), &syn(consts::FROM_GUEST));
    let opened = |port| {
        let flow = flow(port);
        let view = programs
            .flow(IFINDEX, flow.local, flow.remote)
            .unwrap()
            .unwrap();
        (view.generation, view.state.policy.guard_segments)
    };
    assert_eq!(opened(1), (first, 1));
    assert_eq!(opened(2), (first + 1, 2));

    programs.set_plans(&BTreeMap::new()).unwrap();
    assert_eq!(
        pass(&programs, &flow(3), &syn(consts::FROM_GUEST)),
        Reason::NO_POLICY
    );
    let answer = Segment {
        seq: 9000,
        ack: 1001,
        flags: (consts::SYN | consts::ACK | consts::ECE) as u8,
        ..syn(consts::TO_GUEST)
    };
    assert_eq!(
        pass(&programs, &flow(1), &answer),
        Reason::TRANSLATED,
        "an open flow must keep its policy"
    );
}

#[test]
fn live_a_port_at_its_quota_passes_new_flows_until_flows_end() {
    let Some(programs) = programs(64) else {
        return;
    };
    let plan = PortPlan {
        flows_max: 3,
        ..policy().into()
    };
    programs.set_plan(IFINDEX, &plan).unwrap();
    let flows = || programs.ports().unwrap()[0].flows;
    let connect = |port| {
        let opened = pass(&programs, &flow(port), &syn(consts::FROM_GUEST));
        if opened == Reason::TRANSLATED {
            pass(&programs, &flow(port), &answer_to_guest());
        }
        opened
    };
    for port in 1..=3 {
        assert_eq!(connect(port), Reason::TRANSLATED);
        assert_eq!(flows(), u32::from(port));
    }
    let full = reason("quota_full");
    assert_eq!(connect(4), full);
    let again = pass(&programs, &flow(2), &syn(consts::FROM_GUEST));
    assert_eq!(again, Reason::TRANSLATED, "again");
    assert_eq!(flows(), 3);
    // The guest's new connection on the same ports; its peer refuses ECN, so the flow is deleted.
    let anew = Segment {
        seq: 50_000,
        ..syn(consts::FROM_GUEST)
    };
    pass(&programs, &flow(2), &anew);
    let refusal = Segment {
        ack: 50_001,
        flags: (consts::SYN | consts::ACK) as u8,
        ..answer_to_guest()
    };
    assert_eq!(
        pass(&programs, &flow(2), &refusal),
        Reason::PEER_REFUSED_ECN
    );
    assert_eq!(flows(), 2);
    assert_eq!(connect(4), Reason::TRANSLATED);
    assert_eq!(connect(5), full);
    let wider = PortPlan {
        flows_max: 4,
        ..plan
    };
    programs.set_plan(IFINDEX, &wider).unwrap();
    assert_eq!(connect(5), Reason::TRANSLATED);
    programs.forget_flows(IFINDEX).unwrap();
    assert_eq!(flows(), 0);
}

#[test]
fn live_counters_are_by_port_and_those_of_a_former_port_stay_in_the_sum() {
    let Some(programs) = programs(64) else {
        return;
    };
    let absent = IFINDEX + 70_000;
    programs.set_plan(absent, &policy().into()).unwrap();
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    pass(&programs, &flow(1), &syn(consts::FROM_GUEST));
    pass(&programs, &flow(2), &syn(consts::FROM_GUEST));
    let of = |ifindex| {
        let ports = programs.ports().unwrap().into_iter();
        let mut of_index = ports.filter(|port| port.ifindex == ifindex);
        of_index
            .next()
            .map(|port| port.counters.get(Reason::TRANSLATED))
    };
    assert_eq!((of(IFINDEX), of(absent)), (Some(2), Some(0)));
    programs.clear_plan(IFINDEX).unwrap();
    assert_eq!(of(IFINDEX), None);
    assert_eq!(programs.counters().unwrap().get(Reason::TRANSLATED), 2);
    programs.forget_flows(IFINDEX).unwrap();
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    assert_eq!(of(IFINDEX), Some(0), "a new port must begin at 0");
    assert!(programs.memory_bytes().unwrap() > 0);
}

#[test]
fn live_a_plan_with_any_coupling_reads_back_unchanged() {
    let Some(programs) = programs(8) else {
        return;
    };
    let tenant = PortCoupling::of_tenant(u32::MAX);
    for group in [
        0,
        (1 << 31) - 1,
        PortCoupling::OWN,
        PortCoupling::TENANT,
        tenant,
    ] {
        let coupling = PortCoupling {
            group,
            priorities: vec![(80, 2), (443, 8)],
            ..PortCoupling::default()
        };
        let told = PortPlan::of_all(policy(), Some(coupling));
        programs
            .set_plans(&BTreeMap::from([(IFINDEX, told.clone())]))
            .unwrap();
        assert_eq!(programs.plan(IFINDEX).unwrap(), Some(told));
    }
}
