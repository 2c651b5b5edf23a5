//! Flows whose peer has not acknowledged the guest's SYN or SYN-ACK: how many places they get.

mod kernel;

use kernel::table::{accept, connect, filling, flow, pass, segment, syn, syn_of_peer};
use kernel::{IFINDEX, policy, programs, reason};
use uc_core::{Reason, consts};

/// Capacity of the smallest table.
const FLOWS_MAX: u32 = 4;

#[test]
fn live_peers_syns_take_no_place_before_the_guest_answers() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    for port in 1..=1000 {
        assert_eq!(syn_of_peer(&programs, port), Reason::TRANSLATED);
    }
    assert_eq!(programs.flows().unwrap().len(), 0);
    assert_eq!(programs.ports().unwrap()[0].flows, 0);
    assert_eq!(
        accept(&programs, 2000),
        (Reason::NO_HANDSHAKE, false),
        "nobody asked"
    );
    assert_eq!(accept(&programs, 500), (Reason::TRANSLATED, true));
    assert!(uc_core::is_half_open(&flow(&programs, 500).unwrap()));
    let ack = segment(consts::TO_GUEST, consts::ACK);
    assert_eq!(pass(&programs, 500, &ack, 0).0, Reason::TRANSLATED);
    assert!(!uc_core::is_half_open(&flow(&programs, 500).unwrap()));
    let port = &programs.ports().unwrap()[0];
    assert_eq!((port.flows, port.half_open, port.displaced), (1, 0, 0));
}

#[test]
fn live_a_half_open_flow_displaces_the_oldest_of_its_port_and_direction_only() {
    // a quarter of the table, half of it for each direction: eight flows
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    assert_eq!(syn(&programs, 2).0, Reason::TRANSLATED);
    for port in 100..140 {
        assert_eq!(syn_of_peer(&programs, port), Reason::TRANSLATED);
        assert_eq!(accept(&programs, port), (Reason::TRANSLATED, true));
    }
    let has = |port| flow(&programs, port).is_some();
    assert!(has(1) && has(2), "agreed; opened by the guest");
    assert!((100..132).all(|port| !has(port)), "the oldest 32");
    assert!((132..140).all(has), "the newest eight");
    let port = &programs.ports().unwrap()[0];
    assert_eq!((port.flows, port.half_open, port.displaced), (10, 9, 32));
}

#[test]
fn live_without_a_quota_a_port_gets_as_many_flows_as_stay_free() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    for port in 1..=32 {
        connect(&programs, port);
    }
    assert_eq!(syn(&programs, 100), (reason("quota_full"), false));
    assert_eq!(
        syn_of_peer(&programs, 101),
        Reason::TRANSLATED,
        "asks the guest"
    );
    assert_eq!(accept(&programs, 101), (reason("quota_full"), false));
    programs.forget_flows(IFINDEX).unwrap();
    for port in 1..=32 {
        connect(&programs, port);
    }
    assert_eq!(syn(&programs, 100), (reason("quota_full"), false));
    assert_eq!(programs.flows().unwrap().len(), 32);
}

#[test]
fn live_a_full_table_takes_the_place_of_a_half_open_flow_and_of_no_other() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &filling()).unwrap();
    for port in 1..FLOWS_MAX as u16 {
        connect(&programs, port);
    }
    assert_eq!(syn(&programs, 100).0, Reason::TRANSLATED);
    assert_eq!(syn(&programs, 101).0, Reason::TRANSLATED);
    assert!(flow(&programs, 100).is_none(), "half-open");
    for port in (1..FLOWS_MAX as u16).chain([101]) {
        assert!(flow(&programs, port).is_some(), "port {port}");
    }
}

#[test]
fn live_forgotten_port_has_no_syns_that_wait_for_an_answer() {
    let Some(programs) = programs(FLOWS_MAX) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    assert_eq!(syn_of_peer(&programs, 500), Reason::TRANSLATED);
    programs.forget_flows(IFINDEX).unwrap();
    assert_eq!(accept(&programs, 500), (Reason::NO_HANDSHAKE, false));
}
