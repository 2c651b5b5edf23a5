//! The life of a store: upgrades, kills at any moment, and interfaces that appear and disappear.

mod kernel;

use std::collections::BTreeMap;
use std::fs;

use kernel::frame::{PLAIN, frame};
use kernel::host::{Host, ip};
use kernel::policy;
use nix::sched::{CloneFlags, unshare};
use uc_core::{Reason, Segment, consts};
use uc_port::{
    AttachVia, Direction, FlowView, PacketContext, PortPlan, Programs, Upgrade, interface_index,
};

fn syn() -> Segment {
    Segment {
        seq: 1000,
        window: 65535,
        mss_bytes: 1460,
        options: consts::OPT_MSS as u8,
        flags: consts::SYN as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

const GUEST: &str = "10.77.0.1:40000";
const REMOTE: &str = "10.77.0.2:5001";

/// Passes a segment of the only flow on a port, by test_run.
fn pass(programs: &Programs, ifindex: u32, segment: &Segment) -> Reason {
    let bytes = frame(
        segment,
        GUEST.parse().unwrap(),
        REMOTE.parse().unwrap(),
        &PLAIN,
    );
    let context = PacketContext {
        ifindex,
        ..kernel::context()
    };
    let before = programs.counters().unwrap();
    programs
        .test_run(Direction::FromGuest, &bytes, context)
        .unwrap();
    let after = programs.counters().unwrap();
    let mut counted = after.iter();
    counted
        .find(|(at, packets)| *packets > before.get(*at))
        .expect("it is counted")
        .0
}

fn flow(programs: &Programs, ifindex: u32) -> Option<FlowView> {
    let ends = (GUEST.parse().unwrap(), REMOTE.parse().unwrap());
    programs.flow(ifindex, ends.0, ends.1).unwrap()
}

#[test]
fn live_an_upgrade_swaps_every_ports_programs_and_keeps_flows_and_plans() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    ip("link set one up");
    host.attach(&["one"], AttachVia::Auto);
    host.attach(&["two"], AttachVia::Clsact);
    let (one, two) = (
        interface_index("one").unwrap(),
        interface_index("two").unwrap(),
    );
    let old = host.open();
    assert_eq!(pass(&old, one, &syn()), Reason::TRANSLATED);
    drop(old);
    let versions = host.versions();

    let _turn = host.store.lock().unwrap();
    let none = BTreeMap::new();
    let (_, what) = host.store.upgrade(&none, 64, false).unwrap();
    assert_eq!(
        (what, host.versions()),
        (Upgrade::Current, versions.clone())
    );
    for _ in 0..2 {
        let (programs, what) = host.store.upgrade(&none, 64, true).unwrap();
        assert_eq!(what, Upgrade::Swapped);
        assert_eq!(programs.plan(two).unwrap(), Some(policy().into()));
        assert!(flow(&programs, one).is_some(), "the flow was kept");
    }
    let now = host.versions();
    assert_eq!(
        now.len(),
        2,
        "the maps, and one version of the programs: {now:?}"
    );
    assert_eq!(
        now.intersection(&versions).count(),
        1,
        "the same maps, others programs"
    );
    assert_eq!(host.attached(), [one.min(two), one.max(two)]);
    let programs = host.open();
    assert_eq!(
        pass(&programs, one, &syn()),
        Reason::TRANSLATED,
        "the array of tail calls is whole"
    );
    let ports = [one, two].into();
    host.store.detach_indices(&programs, &ports).unwrap();
    assert!(!host.folder.exists(), "nothing is left");
}

#[test]
fn live_programs_whose_maps_cant_be_read_are_replaced_and_ports_stay_attached() {
    let Some(host) = Host::new() else {
        return;
    };
    let [one, two] = host.attach_pair(AttachVia::Auto);
    assert_eq!(pass(&host.open(), one, &syn()), Reason::TRANSLATED);
    host.relay();
    let refused = host.store.open().unwrap_err().to_string();
    assert!(refused.contains("another version"), "{refused}");
    host.remove_map("couplings");

    let _turn = host.store.lock().unwrap();
    let plans: BTreeMap<u32, PortPlan> = [(one, policy().into())].into();
    let (programs, what) = host.store.upgrade(&plans, 64, false).unwrap();
    assert!(matches!(what, Upgrade::Replaced { .. }), "{what:?}");
    assert_eq!(
        host.versions().len(),
        2,
        "nothing of the other build: {:?}",
        host.versions()
    );
    assert_eq!(host.attached(), [one.min(two), one.max(two)]);
    let ack = Segment {
        seq: 1001,
        flags: consts::ACK as u8,
        ..syn()
    };
    assert_eq!(
        pass(&programs, one, &ack),
        Reason::NO_HANDSHAKE,
        "flows under way must pass"
    );
    assert_eq!(
        pass(&programs, one, &syn()),
        Reason::TRANSLATED,
        "new flows must be translated"
    );
    assert_eq!(
        pass(&programs, two, &syn()),
        Reason::NO_POLICY,
        "a port without a plan must have none"
    );
}

#[test]
fn live_an_attach_or_upgrade_completes_what_a_kill_interrupted() {
    let Some(host) = Host::new() else {
        return;
    };
    let [one, two] = host.attach_pair(AttachVia::Auto);
    let whole = host.versions();
    // Killed before the second link was pinned, and with a version half pinned.
    fs::remove_file(host.folder.join(format!("port-{two}-to_guest"))).unwrap();
    let half = "programs-9-00000000000000aa-00000000000000bb";
    fs::create_dir(host.folder.join(half)).unwrap();
    let _turn = host.store.lock().unwrap();
    let (programs, what) = host.store.upgrade(&BTreeMap::new(), 64, false).unwrap();
    assert_eq!(what, Upgrade::Current);
    assert_eq!(host.versions(), whole);
    assert!(host.store.tidy(&programs).unwrap());
    assert_eq!(host.attached(), [one]);
    assert!(!host.folder.join(format!("port-{two}-from_guest")).exists());
    assert_eq!(programs.plan(two).unwrap(), None);
    // Attaching it again is complete.
    let plans: BTreeMap<u32, PortPlan> = [(two, policy().into())].into();
    let failed = host
        .store
        .attach_indices(&programs, &plans, AttachVia::Auto)
        .unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(host.attached(), [one.min(two), one.max(two)]);
}

#[test]
fn live_maps_pinned_without_programs_by_a_killed_process_are_not_used() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one type veth peer name two");
    host.attach(&["one"], AttachVia::Auto);
    let one = interface_index("one").unwrap();
    let versions = host.versions();
    let version = versions.iter().find(|name| name.starts_with("programs-"));
    let version = host.folder.join(version.unwrap());
    fs::remove_file(version.join("to_guest")).unwrap();
    let _turn = host.store.lock().unwrap();
    let plans: BTreeMap<u32, PortPlan> = [(one, policy().into())].into();
    let (_, what) = host.store.upgrade(&plans, 64, false).unwrap();
    assert_eq!(what, Upgrade::Fresh);
    let programs = host.open();
    assert_eq!(programs.plan(one).unwrap(), Some(policy().into()));
    assert_eq!(pass(&programs, one, &syn()), Reason::TRANSLATED);
    assert!(flow(&programs, one).is_some());
}

#[test]
fn live_a_reused_interface_index_is_no_port_until_it_is_attached() {
    let Some(host) = Host::new() else {
        return;
    };
    let [one, two] = host.attach_pair(AttachVia::Auto);
    let programs = host.open();
    assert_eq!(pass(&programs, one, &syn()), Reason::TRANSLATED);
    ip("link del one");
    ip(&format!(
        "link add other index {one} type veth peer name another index {two}"
    ));
    assert_eq!(
        host.attached(),
        [0u32; 0],
        "the pins are of interfaces that have gone"
    );
    let plans: BTreeMap<u32, PortPlan> = [(one, policy().into())].into();
    let failed = host
        .store
        .attach_indices(&programs, &plans, AttachVia::Auto)
        .unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(host.attached(), [one]);
    assert!(
        flow(&programs, one).is_none(),
        "flows of the former guest remain"
    );
    assert_eq!(
        programs
            .ports()
            .unwrap()
            .iter()
            .find(|port| port.ifindex == one)
            .unwrap()
            .flows,
        0
    );
}

#[test]
fn live_a_port_of_another_namespace_keeps_its_programs_when_its_index_comes_up_here() {
    let Some(host) = Host::new() else {
        return;
    };
    ip("link add one index 700 type veth peer name two");
    host.attach(&["one"], AttachVia::Auto);
    let programs = host.open();
    let is_linked = || {
        let pin = host.folder.join("port-700-from_guest");
        pin.exists()
    };
    if !is_linked() {
        return; // a clsact port is visible from its own namespace only
    }
    let _first = fs::File::open("/proc/thread-self/ns/net").unwrap();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ip("link add other index 700 type veth peer name another");
    let plans: BTreeMap<u32, PortPlan> = [(700, policy().into())].into();
    let failed = host
        .store
        .attach_indices(&programs, &plans, AttachVia::Auto)
        .unwrap();
    let refusal = failed[&700].to_string();
    assert!(
        refusal.starts_with("port 700: a port of another network namespace"),
        "{refusal}"
    );
    assert!(is_linked(), "the other port has lost its programs");
    assert_eq!(host.attached(), [700]);
}
