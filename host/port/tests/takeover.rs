//! Ports that stand in the way of an upgrade or a plan: ones that have gone, ones whose maps nobody
//! can read, ones that there is no room for. The others get what is theirs.

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
fn live_an_interface_that_went_before_an_upgrade_keeps_no_other_port_from_it() {
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
fn live_a_port_by_clsact_that_gets_no_plan_at_a_change_of_layout_is_a_port_still() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    host.attach(&["one", "two"], AttachVia::Clsact);
    let (one, two) = (
        interface_index("one").unwrap(),
        interface_index("two").unwrap(),
    );
    host.relay();
    let turn = host.store.lock().unwrap();
    let (programs, what) = host.store.upgrade(&plans(&[one]), 64, false).unwrap();
    assert_eq!(what, Upgrade::Replaced);
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
fn live_what_another_version_left_is_removed_though_its_maps_cant_be_read() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link add three type veth peer name four");
    host.attach(&["one"], AttachVia::Auto);
    host.attach(&["two"], AttachVia::Clsact);
    host.relay();
    // of one that was killed between its filters
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
    // and what comes next is whole
    host.attach(&["one", "two"], AttachVia::Auto);
    assert_eq!(host.attached().len(), 2);
}

#[test]
fn live_a_plan_that_is_too_long_and_ports_beyond_the_last_place_are_in_no_others_way() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link add three type veth peer name four");
    let [one, two, three, four] =
        ["one", "two", "three", "four"].map(|name| interface_index(name).unwrap());
    let turn = host.store.lock().unwrap();
    // of ports that there are not yet, the plans have no use
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
