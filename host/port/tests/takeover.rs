//! Ports that could block an upgrade or a plan: deleted ones, ones with unreadable maps, ones
//! beyond the capacity. The other ports are served all the same.

mod kernel;

use std::collections::BTreeMap;

use kernel::host::{Host, clsact_filters, ip};
use kernel::policy;
use uc_port::{
    AttachVia, PORTS_MAX, PortError, PortPlan, RULES_MAX, Rule, Upgrade, interface_index,
};

fn plans(ports: &[u32]) -> BTreeMap<u32, PortPlan> {
    ports.iter().map(|port| (*port, policy().into())).collect()
}

#[test]
fn live_a_deleted_interface_does_not_block_an_upgrade_of_other_ports() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link add gone type veth peer name peer");
    host.attach(&["one", "gone"], AttachVia::Auto);
    ip("link del gone");
    let one = interface_index("one").unwrap();
    let _turn = host.store.lock().unwrap();
    for _ in 0..2 {
        let (programs, what) = host.store.upgrade(&plans(&[one]), 64, true).unwrap();
        assert_eq!((what, host.versions().len()), (Upgrade::Swapped, 2));
        assert!(host.store.tidy(&programs).unwrap());
        assert_eq!(host.attached(), [one]);
    }
}

#[test]
fn live_a_clsact_port_without_a_plan_stays_attached_if_its_maps_cant_be_read() {
    let Some(host) = Host::new() else {
        return;
    };
    let [one, two] = host.attach_pair(AttachVia::Clsact);
    host.relay();
    host.remove_map("couplings");
    let turn = host.store.lock().unwrap();
    let (programs, what) = host.store.upgrade(&plans(&[one]), 64, false).unwrap();
    assert!(matches!(what, Upgrade::Replaced { .. }), "{what:?}");
    assert_eq!(host.attached(), [one.min(two), one.max(two)]);
    assert_eq!(programs.plan(one).unwrap(), Some(policy().into()));
    assert_eq!(programs.plan(two).unwrap(), None);
    host.store
        .detach_indices(&programs, &[one, two].into())
        .unwrap();
    drop(turn);
    assert_eq!((clsact_filters("one"), clsact_filters("two")), (0, 0));
    assert!(!host.folder.exists(), "nothing is left");
}

#[test]
fn live_an_attach_that_is_refused_after_an_upgrade_says_what_the_upgrade_has_done() {
    let Some(host) = Host::new() else {
        return;
    };
    host.attach_pair(AttachVia::Auto);
    host.relay();
    host.remove_map("couplings");
    let (names, plan) = (["one".to_owned()], policy().into());
    let refused = host.store.attach_all(&names, &plan, AttachVia::Auto, 64);
    let refused = refused.unwrap_err().to_string();
    for part in [
        "'one' is attached",
        "all ports have this version's",
        "can't be read",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn live_pins_of_another_version_are_removed_without_reading_its_maps() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link add three type veth peer name four");
    host.attach(&["one"], AttachVia::Auto);
    host.attach(&["two"], AttachVia::Clsact);
    host.relay();
    // As left by a process that was killed between its filters.
    let filter = "filter del dev two ingress";
    let half = std::process::Command::new("tc")
        .args(filter.split(' '))
        .status();
    assert!(half.unwrap().success());
    host.store.open().unwrap_err();
    let turn = host.store.lock().unwrap();
    let removed = host.store.remove_all().unwrap();
    drop(turn);
    let names: Vec<_> = removed.into_iter().map(|port| port.name).collect();
    assert_eq!(names, [Some("one".to_owned())]);
    assert_eq!(clsact_filters("two"), 0);
    assert!(!host.folder.exists(), "nothing is left");
    assert_eq!(host.store.remove_all().unwrap(), []);
    // The next attachment is complete.
    host.attach(&["one", "two"], AttachVia::Auto);
    assert_eq!(host.attached().len(), 2);
}

#[test]
fn live_a_plan_too_long_or_ports_beyond_capacity_do_not_block_other_ports() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link add three type veth peer name four");
    let [one, two, three, four] =
        ["one", "two", "three", "four"].map(|name| interface_index(name).unwrap());
    let turn = host.store.lock().unwrap();
    // Plans of ports that do not exist yet are ignored.
    let strangers: Vec<u32> = (1000..1000 + PORTS_MAX as u32 + 1).collect();
    let (programs, what) = host.store.upgrade(&plans(&strangers), 64, false).unwrap();
    assert_eq!((what, programs.ports().unwrap()), (Upgrade::Fresh, vec![]));
    programs
        .set_plans(&plans(&strangers[..PORTS_MAX - 2]))
        .unwrap();
    let mut wanted = plans(&[one, two, three, four]);
    let rules = vec![Rule::all(policy()); RULES_MAX + 1];
    wanted.get_mut(&one).unwrap().rules = rules;
    let failed = host
        .store
        .attach_indices(&programs, &wanted, AttachVia::Auto)
        .unwrap();
    let mut others = [two, three, four];
    others.sort_unstable();
    let last = others[2];
    let kinds: Vec<_> = failed
        .iter()
        .map(|(port, error)| (*port, matches!(error, PortError::TooManyPorts)))
        .collect();
    let mut expected = vec![(one, false), (last, true)];
    expected.sort_unstable();
    assert_eq!(kinds, expected, "{failed:?}");
    assert_eq!(host.attached(), others[..2]);
    drop(turn);
}
