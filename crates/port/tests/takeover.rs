//! Ports that stand in the way of an upgrade: the others get what is theirs.

mod kernel;

use std::collections::BTreeMap;

use kernel::host::{Host, ip};
use kernel::policy;
use uc_port::{AttachVia, PortPlan, Upgrade, interface_index};

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
