//! Runs that can't finish end with a reason, never with a hang.

use std::sync::Arc;

use uc_net::{BitsPerSec, HostId, Length, LinkSpec, Nanos, NetError, QueueSpec, Star, Topology};
use uc_sim::scenario::{Application, FlowPlan, Scenario};
use uc_sim::unfinished::{Unfinished, unfinished};
use uc_sim::{SimError, World};
use uc_tcp::Config;

fn link(rate: BitsPerSec) -> LinkSpec {
    let limit = Length::Packets(100);
    LinkSpec::new(rate, Nanos::from_micros(50), QueueSpec::DropTail { limit })
}

fn star(rate: BitsPerSec) -> Topology {
    let access = link(BitsPerSec::from_mbit(100));
    Star::new(1, access, link(rate)).expect("a star").topology
}

fn scenario(topology: Topology, receiver: Config) -> Scenario {
    let config = Config::default();
    Scenario {
        seed: 1,
        topology,
        ip_header_bytes: 20,
        groups: Vec::new(),
        consolidation: uc_sim::consolidation::Consolidation::default(),
        granter: None,
        flows: vec![FlowPlan {
            name: "only[0]".into(),
            guest: HostId(0),
            receivers: vec![HostId(1)],
            guest_config: Arc::new(config),
            receiver_config: Arc::new(receiver),
            policy: None,
            dupacks: None,
            hold: None,
            receiver_policy: None,
            start_policy: None,
            membership: None,
            virtual_part: uc_sim::consolidation::Virtual::default(),
            stop: None,
            start: Nanos::ZERO,
            application: Application::Transfer {
                bytes: 100_000,
                parallel: 1,
            },
        }],
    }
}

fn why(scenario: &Scenario, until: Nanos) -> Option<Unfinished> {
    let mut world = World::new(scenario).expect("a world");
    world.run_until(until).expect("it runs");
    unfinished(&world.hosts, &world.applications.flows()[0])
}

#[test]
fn unconnected_hosts_are_refused_before_the_run() {
    let mut topology = Topology::new();
    for name in ["a", "b"] {
        topology.add_host(name).expect("a host");
    }
    let error = World::new(&scenario(topology, Config::default())).err();
    let expected = SimError::NoRoute {
        flow: "only[0]".into(),
        from: 0,
        to: 1,
    };
    assert_eq!(error, Some(expected));
}

#[test]
fn a_link_with_rate_zero_is_refused_before_the_run() {
    let error = World::new(&scenario(star(BitsPerSec(0)), Config::default())).err();
    assert!(
        matches!(error, Some(SimError::Network(NetError::Link { .. }))),
        "{error:?}"
    );
}

#[test]
fn a_window_that_never_opens_is_the_stated_reason() {
    let shut = Config {
        receive_buffer_bytes: 0,
        ..Config::default()
    };
    let scenario = scenario(star(BitsPerSec::from_mbit(10)), shut);
    let hour = Nanos::from_secs(3_600);
    assert_eq!(why(&scenario, hour), Some(Unfinished::WindowClosed));
}

#[test]
fn a_network_that_loses_every_packet_is_no_handshake() {
    let mut nothing = link(BitsPerSec::from_mbit(10));
    nothing.faults = vec![uc_net::FaultRule {
        chance_ppm: 1_000_000,
        flow: None,
        fault: uc_net::Fault::Loss,
    }];
    let access = link(BitsPerSec::from_mbit(100));
    let topology = Star::new(1, access, nothing).expect("a star").topology;
    let scenario = scenario(topology, Config::default());
    let soon = why(&scenario, Nanos::from_secs(10));
    assert_eq!(soon, Some(Unfinished::NoHandshake));
    let late = why(&scenario, Nanos::from_secs(36_000));
    assert_eq!(late, Some(Unfinished::GaveUp));
}

#[test]
fn a_run_too_short_is_the_stated_reason_and_a_longer_one_has_none() {
    let scenario = scenario(star(BitsPerSec::from_mbit(10)), Config::default());
    let early = why(&scenario, Nanos::from_millis(20));
    assert_eq!(early, Some(Unfinished::OutOfTime));
    assert_eq!(why(&scenario, Nanos::from_secs(2)), None);
}
