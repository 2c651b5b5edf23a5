//! Flows that one port hands over to a port of another table: a host's own programs, twice.

mod kernel;

use std::collections::HashSet;
use std::thread;
use std::time::Instant;

use kernel::table::{
    accept, connect, filling, flow, guest, pass, remote, segment, syn, syn_of_peer,
};
use kernel::{IFINDEX, policy, programs};
use uc_core::rule::Rule;
use uc_core::{Policy, Reason, consts};
use uc_port::{Obstacle, PortCoupling, PortPlan, Programs};

/// Returns programs with a port by this plan.
fn host(places: u32, plan: &PortPlan) -> Option<Programs> {
    let programs = programs(places)?;
    programs.set_plan(IFINDEX, plan).unwrap();
    Some(programs)
}

/// Passes data of the guest, beginning at this byte, and an ACK with a mark.
fn talk_from(programs: &Programs, port: u16, byte: u32) {
    let mut data = segment(consts::FROM_GUEST, consts::ACK);
    data.seq += byte;
    data.payload_bytes = 1000;
    data.wire_payload_bytes = 1000;
    assert_eq!(pass(programs, port, &data, 0).0, Reason::TRANSLATED);
    let mut ack = segment(consts::TO_GUEST, consts::ACK | consts::ECE);
    ack.ack += byte + 1000;
    assert_eq!(pass(programs, port, &ack, 0).0, Reason::TRANSLATED);
}

/// Opens a flow under any law, and lets its guest send.
fn open(programs: &Programs, port: u16) {
    syn(programs, port);
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
    pass(programs, port, &answer, 0);
    talk_from(programs, port, 0);
}

/// Returns the numbers of a port's flows and of taken places.
fn counted(programs: &Programs) -> (u32, u32) {
    let ports = programs.ports().unwrap();
    let port = ports.iter().find(|port| port.ifindex == IFINDEX).unwrap();
    (port.flows, programs.places_taken().unwrap())
}

#[test]
fn live_flows_of_each_law_go_on_where_they_were() {
    for law in [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_DELAY] {
        let plan = PortPlan::from(Policy::new(law, consts::PROFILE_LINUX));
        let (Some(here), Some(there)) = (host(1024, &plan), host(1024, &filling())) else {
            return;
        };
        for port in 1..=20 {
            open(&here, port);
        }
        let (handover, left) = here.flows_to_send(IFINDEX).unwrap();
        assert_eq!((handover.len(), left), (20, Vec::new()));
        assert_eq!(there.receive_flows(IFINDEX, &handover).unwrap(), []);
        let places = if law == consts::LAW_DELAY { 40 } else { 20 };
        assert_eq!(counted(&there), (20, places));
        assert_eq!(counted(&here), (20, places), "they go on here, too");
        for port in 1..=20 {
            let [mut before, mut after] =
                [&here, &there].map(|programs| flow(programs, port).unwrap());
            // one clock: nothing moves but by rounding down, by a whole unit if its readings differ by some ns
            let moved_ns = before.seen_ns - after.seen_ns;
            assert!(moved_ns <= 128_000, "{moved_ns}");
            before.rebase(1);
            after.rebase((before.seen_ns - after.seen_ns).div_euclid(128_000) as i64);
            before.seen_ns = after.seen_ns;
            assert_eq!(before, after, "law {law}");
            talk_from(&there, port, 1000);
        }
    }
}

#[test]
fn live_a_flow_that_is_known_or_finds_no_room_is_named() {
    let few = PortPlan {
        flows_max: 8,
        ..policy().into()
    };
    let mut observing = policy();
    observing.modes |= consts::MODE_OBSERVE as u8;
    let (Some(here), Some(there), Some(small), Some(dry)) = (
        host(1024, &filling()),
        host(1024, &few),
        host(4, &filling()),
        host(1024, &observing.into()),
    ) else {
        return;
    };
    for port in 1..=10 {
        open(&here, port);
    }
    let (handover, _) = here.flows_to_send(IFINDEX).unwrap();
    open(&there, 3);
    let receive = |programs: &Programs| {
        let left = programs.receive_flows(IFINDEX, &handover).unwrap();
        let why = left.iter().map(|left| left.why).collect::<Vec<_>>();
        let kinds = [Obstacle::Known, Obstacle::Quota, Obstacle::Full];
        kinds.map(|kind| why.iter().filter(|why| **why == kind).count())
    };
    assert_eq!(receive(&there), [1, 2, 0]);
    assert_eq!(counted(&there), (8, 8));
    assert_eq!(receive(&there), [8, 2, 0], "a second time");
    assert_eq!(counted(&there), (8, 8), "nothing is lost");
    assert_eq!(receive(&small), [0, 0, 6]);
    assert_eq!(counted(&small), (4, 4));
    let left = dry.receive_flows(IFINDEX, &handover).unwrap();
    assert!(left.iter().all(|left| left.why == Obstacle::Observed));
    assert_eq!(
        (left.len(), counted(&dry)),
        (10, (0, 0)),
        "nothing is written"
    );
    assert_eq!(receive(&here), [10, 0, 0], "those that are still there");
    assert_eq!(counted(&here), (10, 10));
}

#[test]
fn live_a_handshake_stays_behind_until_the_guest_has_answered() {
    let (Some(here), Some(there)) = (host(1024, &filling()), host(1024, &filling())) else {
        return;
    };
    open(&here, 1);
    syn(&here, 2);
    syn_of_peer(&here, 3);
    accept(&here, 3);
    let (handover, left) = here.flows_to_send(IFINDEX).unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|left| (left.guest.port(), left.why))
        .collect();
    assert_eq!(left, [(2, Obstacle::Handshake)]);
    assert_eq!(there.receive_flows(IFINDEX, &handover).unwrap(), []);
    let half_open = || there.ports().unwrap()[0].half_open;
    assert_eq!((counted(&there), half_open()), ((2, 2), 1));
    let ack = segment(consts::TO_GUEST, consts::ACK);
    assert_eq!(pass(&there, 3, &ack, 0).0, Reason::TRANSLATED);
    assert_eq!((counted(&there), half_open()), ((2, 2), 0));
}

#[test]
fn live_the_new_port_gives_the_rule_and_the_group() {
    let coupled = |share| PortPlan {
        rules: vec![Rule {
            share,
            number: 7,
            ..Rule::all(policy())
        }],
        coupling: Some(PortCoupling::default()),
        ..filling()
    };
    let none = PortPlan {
        rules: Vec::new(),
        ..coupled(1)
    };
    let (Some(here), Some(alone), Some(joined), Some(without)) = (
        host(1024, &coupled(3)),
        host(1024, &filling()),
        host(1024, &coupled(5)),
        host(1024, &none),
    ) else {
        return;
    };
    open(&here, 1);
    let (handover, _) = here.flows_to_send(IFINDEX).unwrap();
    let left = alone.receive_flows(IFINDEX, &handover).unwrap();
    assert_eq!(left[0].why, Obstacle::NoGroup);
    assert_eq!(counted(&alone), (0, 0));
    for (there, number, is_in_force) in [(&joined, 7, true), (&without, 0, false)] {
        assert_eq!(there.receive_flows(IFINDEX, &handover).unwrap(), []);
        let view = there.flow(IFINDEX, guest(1), remote()).unwrap().unwrap();
        assert_eq!(view.rule_number, number);
        let generation = there.plan_generation().unwrap();
        assert_eq!(view.generation == generation, is_in_force);
        assert_eq!(there.member(&view).unwrap(), None);
        talk_from(there, 1, 1000);
        assert!(there.member(&view).unwrap().is_some(), "it has joined");
    }
}

/// A flow begins at the new port while it is entered there: one of both is in the table.
#[test]
fn live_no_flow_is_in_twice_however_both_come() {
    const FLOWS: u16 = 2000;
    let (Some(here), Some(there)) = (host(8192, &filling()), host(8192, &filling())) else {
        return;
    };
    for port in 1..=FLOWS {
        open(&here, port);
    }
    let (handover, _) = here.flows_to_send(IFINDEX).unwrap();
    let left = thread::scope(|scope| {
        let begin = scope.spawn(|| {
            for port in (1..=FLOWS).rev() {
                syn(&there, port);
            }
        });
        let left = there.receive_flows(IFINDEX, &handover).unwrap();
        begin.join().unwrap();
        left
    });
    assert!(left.iter().all(|left| left.why == Obstacle::Known));
    println!("{} of {FLOWS} began there first", left.len());
    assert!(!left.is_empty() && left.len() < usize::from(FLOWS));
    let flows = there.flows().unwrap();
    let ends: HashSet<_> = flows.iter().map(|flow| flow.guest).collect();
    assert_eq!((flows.len(), ends.len()), (2000, 2000));
    assert_eq!(counted(&there), (2000, 2000));
}

#[test]
fn live_ten_thousand_flows_go_quickly() {
    const FLOWS: u16 = 10_000;
    let (Some(here), Some(there)) = (host(65_536, &filling()), host(65_536, &filling())) else {
        return;
    };
    for port in 1..=FLOWS {
        connect(&here, port);
    }
    let began = Instant::now();
    let (handover, left) = here.flows_to_send(IFINDEX).unwrap();
    let bytes = handover.write(|_| 1).unwrap();
    let out = began.elapsed();
    let handover = uc_port::Handover::read(&bytes, |_, tag| tag == 1).unwrap();
    let more = there.receive_flows(IFINDEX, &handover).unwrap();
    println!(
        "{FLOWS} flows: out {out:?}, out and in {:?}",
        began.elapsed()
    );
    assert_eq!((left.len(), more.len()), (0, 0));
    assert_eq!(counted(&there), (FLOWS.into(), FLOWS.into()));
}
