//! Law `coupled` in the kernel: groups by remote address, full tables, and removed members.

mod kernel;

use std::net::{Ipv4Addr, SocketAddr};

use kernel::frame::{PLAIN, frame};
use kernel::{IFINDEX, context, programs};
use uc_core::rule::{Match, Rule};
use uc_core::{DelayParameters, Policy, Reason, Segment, consts};
use uc_port::{Direction, FlowView, MemberView, PortCoupling, PortPlan, Programs};

/// Maximum number of groups per number in the table, as in bpf/port/groups.h.
const GROUPS_OF_NUMBER: usize = 1024;

fn couple(programs: &Programs, coupling: PortCoupling) {
    let plan = PortPlan {
        coupling: Some(coupling),
        ..Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX).into()
    };
    programs.set_plan(IFINDEX, &plan).unwrap();
}

/// Returns the policy of law `delay` with a target that no round trip of a test exceeds.
fn slow() -> Policy {
    Policy::new(consts::LAW_DELAY, consts::PROFILE_LINUX).with_delay(DelayParameters {
        target_us: 50_000,
        range_us: 0,
    })
}

/// A flow of the guest, by its remote end.
#[derive(Clone, Copy)]
struct Flow<'a> {
    programs: &'a Programs,
    guest_port: u16,
    remote: SocketAddr,
}

impl Flow<'_> {
    fn guest(&self) -> SocketAddr {
        SocketAddr::new("10.77.0.1".parse().unwrap(), self.guest_port)
    }

    /// Passes a segment and returns the window in the resulting frame.
    fn pass(&self, segment: &Segment) -> u16 {
        let bytes = frame(segment, self.guest(), self.remote, &PLAIN);
        let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
            Direction::FromGuest
        } else {
            Direction::ToGuest
        };
        let run = self
            .programs
            .test_run(direction, &bytes, context())
            .unwrap();
        u16::from_be_bytes([run.packet[48], run.packet[49]])
    }

    /// Passes the handshake, ten segments of data, and the ACK of one; returns its window.
    fn begin(&self) -> u16 {
        let syn = Segment {
            seq: 1_000,
            window: 65_535,
            mss_bytes: 1_000,
            options: consts::OPT_MSS as u8,
            flags: consts::SYN as u8,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        };
        self.pass(&syn);
        self.pass(&Segment {
            seq: 9_000,
            ack: 1_001,
            flags: (consts::SYN | consts::ACK) as u8,
            direction: consts::TO_GUEST as u8,
            ..syn
        });
        for number in 0..10 {
            self.pass(&Segment {
                seq: 1_001 + 1_000 * number,
                ack: 9_001,
                payload_bytes: 1_000,
                wire_payload_bytes: 1_000,
                flags: consts::ACK as u8,
                options: 0,
                ..syn
            });
        }
        self.ack(1)
    }

    fn ack(&self, segments: u32) -> u16 {
        self.pass(&Segment {
            seq: 9_001,
            ack: 1_001 + 1_000 * segments,
            window: 65_535,
            flags: consts::ACK as u8,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        })
    }

    fn view(&self) -> Option<FlowView> {
        let flow = self.programs.flow(IFINDEX, self.guest(), self.remote);
        flow.unwrap()
    }

    fn member(&self) -> Option<MemberView> {
        self.programs.member(&self.view()?).unwrap()
    }
}

fn remote(number: u32) -> SocketAddr {
    let first = u32::from(Ipv4Addr::new(10, 78, 0, 0));
    SocketAddr::new(Ipv4Addr::from(first + number).into(), 5001)
}

fn flow(programs: &Programs, guest_port: u16, remote: SocketAddr) -> Flow<'_> {
    Flow {
        programs,
        guest_port,
        remote,
    }
}

fn translated(programs: &Programs) -> u64 {
    programs.counters().unwrap().get(Reason::TRANSLATED)
}

#[test]
fn live_only_flows_to_one_remote_share_a_window() {
    let Some(programs) = programs(64) else {
        return;
    };
    couple(&programs, PortCoupling::default());
    let near = [1, 2, 3].map(|port| flow(&programs, port, remote(1)));
    let far = flow(&programs, 4, remote(2));
    for flow in near {
        flow.begin();
    }
    far.begin();
    // Each learns of later members at its next ACK.
    for flow in near {
        flow.ack(2);
    }
    let groups = programs.groups().unwrap();
    let windows: Vec<_> = groups
        .iter()
        .map(|group| (group.remote, group.flows))
        .collect();
    assert_eq!(windows, [(remote(1).ip(), 3), (remote(2).ip(), 1)]);
    let shares = near.map(|flow| flow.member().unwrap().share_bytes);
    let third = u64::from(groups[0].window_bytes) / 3;
    assert!(
        shares.iter().all(|&share| share.abs_diff(third) <= 1),
        "{shares:?}, {third}"
    );
    assert_eq!(groups[0].guests[0].ifindex, IFINDEX);
    // Eight in flight, a third of the group's window: there is no room for another.
    assert_eq!(near[0].view().unwrap().state.given_window, 8_000);
}

#[test]
fn live_a_prefix_groups_remotes_and_a_number_separates_groups() {
    let Some(programs) = programs(64) else {
        return;
    };
    let coupling = |group, prefix4| PortCoupling {
        group,
        prefix4,
        weight: 7,
        ..PortCoupling::default()
    };
    let by = [(1, 24), (1, 24), (1, 0), (2, 24)];
    for (number, (group, prefix4)) in (1..).zip(by) {
        couple(&programs, coupling(group, prefix4));
        flow(&programs, number, remote(u32::from(number))).begin();
    }
    let groups = programs.groups().unwrap();
    let found: Vec<_> = groups
        .iter()
        .map(|group| (group.number, group.remote.to_string(), group.flows))
        .collect();
    let site = "10.78.0.0".to_string();
    let all = "0.0.0.0".to_string();
    assert_eq!(found, [(1, all, 1), (1, site.clone(), 2), (2, site, 1)]);
    assert!(groups.iter().all(|group| group.guests[0].weight == 7));
}

#[test]
fn live_zero_prefix_lengths_make_all_remotes_one_group() {
    let Some(programs) = programs(64) else {
        return;
    };
    let all = PortCoupling {
        prefix4: 0,
        prefix6: 0,
        ..PortCoupling::default()
    };
    couple(&programs, all);
    flow(&programs, 1, remote(1)).begin();
    let group = &programs.groups().unwrap()[0];
    assert_eq!(group.remote.to_string(), "::");
}

#[test]
fn live_a_flow_beyond_a_full_table_of_groups_is_translated_uncoupled() {
    let Some(programs) = programs(8192) else {
        return;
    };
    couple(&programs, PortCoupling::default());
    let flows: Vec<Flow<'_>> = (0..2_000)
        .map(|number| flow(&programs, 1 + number as u16, remote(number)))
        .collect();
    let before = translated(&programs);
    let mut windows = Vec::new();
    for flow in &flows {
        windows.push(flow.begin());
    }
    let coupled = flows.iter().filter(|flow| flow.member().is_some()).count();
    println!("{coupled} of 2000 flows are coupled");
    assert!(
        (GROUPS_OF_NUMBER / 2..=GROUPS_OF_NUMBER).contains(&coupled),
        "{coupled}"
    );
    assert_eq!(translated(&programs) - before, 13 * 2_000);
    // Alone in its group or without one: the window is equal.
    assert!(
        windows.iter().all(|&window| window == windows[0]),
        "{windows:?}"
    );
    let first = flows[0].member().expect("the first flow is still a member");
    assert!(first.share_bytes >= 10_000, "{first:?}");
}

#[test]
fn live_a_tenant_at_its_limit_of_groups_takes_none_from_others() {
    let Some(programs) = programs(16_384) else {
        return;
    };
    let of_number = [(7, 2_000), (8, 100)].map(|(group, flows)| {
        let coupling = PortCoupling {
            group,
            ..PortCoupling::default()
        };
        couple(&programs, coupling);
        let begun = (0..flows).map(|number| {
            let flow = flow(
                &programs,
                1 + number as u16,
                remote(group * 10_000 + number),
            );
            flow.begin();
            flow
        });
        let coupled = begun.filter(|flow| flow.member().is_some()).count();
        println!("{coupled} of {flows} flows of {group} are coupled");
        coupled
    });
    assert!(of_number[0] <= GROUPS_OF_NUMBER, "{of_number:?}");
    assert_eq!(of_number[1], 100);
}

#[test]
fn live_a_reopened_or_deleted_flow_is_no_member_until_it_reports() {
    let Some(programs) = programs(64) else {
        return;
    };
    couple(&programs, PortCoupling::default());
    let one = flow(&programs, 1, remote(1));
    one.begin();
    assert!(one.member().is_some());
    let opening = Segment {
        window: 65_535,
        mss_bytes: 1_000,
        options: consts::OPT_MSS as u8,
        ..Segment::default()
    };
    one.pass(&Segment {
        seq: 500_000,
        flags: consts::SYN as u8,
        direction: consts::FROM_GUEST as u8,
        ..opening
    });
    assert!(
        one.member().is_some(),
        "a SYN without an answer removed the member"
    );
    one.pass(&Segment {
        seq: 900_000,
        ack: 500_001,
        flags: (consts::SYN | consts::ACK) as u8,
        direction: consts::TO_GUEST as u8,
        ..opening
    });
    assert!(one.view().is_some() && one.member().is_none());
    one.begin();
    assert!(one.member().is_some());
    programs.forget_flows(IFINDEX).unwrap();
    assert!(one.view().is_none());
    // If its port has no coupling, it has law coupled and no group.
    programs.clear_plan(IFINDEX).unwrap();
    let flows = Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX);
    programs.set_plan(IFINDEX, &flows.into()).unwrap();
    one.begin();
    assert!(one.view().is_some() && one.member().is_none());
}

#[test]
fn live_flows_of_another_law_share_by_weight_and_existing_flows_get_new_weights() {
    let Some(programs) = programs(4096) else {
        return;
    };
    let policy = slow();
    let weigh = |weight: u8| {
        let coupling = PortCoupling {
            priorities: vec![(5004, weight)],
            ..PortCoupling::share(None)
        };
        let plan = PortPlan::of_all(policy, Some(coupling));
        programs.set_plan(IFINDEX, &plan).unwrap();
    };
    weigh(3);
    let preferred = SocketAddr::new(remote(9).ip(), 5004);
    // Whatever the remotes are: the sum belongs to the port.
    let flows = [
        flow(&programs, 41_000, remote(1)),
        flow(&programs, 41_001, preferred),
    ];
    for flow in &flows {
        flow.begin();
    }
    let shares = || flows.map(|flow| flow.member().expect("it has a group").share_bytes);
    let [one, three] = shares();
    assert!(three.abs_diff(3 * one) <= 3, "{one}, {three}");
    assert_eq!(programs.groups().unwrap().len(), 1);
    weigh(1);
    for flow in &flows {
        flow.ack(2);
    }
    let [one, other] = shares();
    assert!(one.abs_diff(other) <= 1, "{one}, {other}");
    // New flows get none any more.
    programs.set_plan(IFINDEX, &policy.into()).unwrap();
    let late = flow(&programs, 41_002, remote(1));
    late.begin();
    assert!(late.member().is_none());
}

#[test]
fn live_a_rules_share_is_its_flows_weight_and_a_new_plan_changes_it() {
    let Some(programs) = programs(4096) else {
        return;
    };
    // The peer need not negotiate ECN.
    let policy = slow();
    let weigh = |weight: u8| {
        let preferred = Rule {
            matches: Match {
                remote_ports: (5004, 5004),
                ..Match::ALL
            },
            share: weight,
            ..Rule::all(policy)
        };
        let others = Rule {
            share: 1,
            ..Rule::all(policy)
        };
        let plan = PortPlan {
            rules: vec![preferred, others],
            coupling: Some(PortCoupling::share(None)),
            ..PortPlan::default()
        };
        programs.set_plan(IFINDEX, &plan).unwrap();
    };
    weigh(3);
    let flows = [
        flow(&programs, 41_000, remote(1)),
        flow(&programs, 41_001, SocketAddr::new(remote(9).ip(), 5004)),
    ];
    for flow in &flows {
        flow.begin();
    }
    let shares = || flows.map(|flow| flow.member().expect("it has a group").share_bytes);
    let [one, three] = shares();
    assert!(three.abs_diff(3 * one) <= 3, "{one}, {three}");
    weigh(7);
    for flow in &flows {
        flow.ack(2);
    }
    let [one, seven] = shares();
    assert!(seven.abs_diff(7 * one) <= 7, "{one}, {seven}");
}
