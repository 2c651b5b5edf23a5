//! Guests whose connections share the places of one port.

use std::collections::BTreeMap;

use uc_net::{HostId, Nanos};
use uc_sim::hosts::Side;
use uc_sim::tenant_port::Settings;
use uc_sim::{Plan, World};

use crate::common::{STAR, experiment, group};

/// Returns for each of two guests with four connections how many of them have a flow at its port.
fn known(settings: Settings) -> Vec<usize> {
    let rest = "count = 2\nstack = \"legacy\"\nlaw = \"ecn\"\nflows = 4";
    let experiment = experiment(STAR, &[group("virtual", rest)]);
    let plan = Plan::new(&experiment, &experiment.cases[0], 1).expect("can be laid out");
    let mut world = World::new(&plan.scenario).expect("a world");
    world.hosts.set_ports(settings);
    world.run_until(Nanos::from_secs(5)).expect("runs");
    let mut known: BTreeMap<HostId, usize> = BTreeMap::new();
    let flows = world.applications.flows().iter().zip(&plan.scenario.flows);
    for (flow, planned) in flows {
        let slot = flow.open().next().expect("a connection");
        let guest = world.hosts.end(slot, Side::Guest);
        assert!(guest.connection.totals().acknowledged_bytes > 0);
        let port = guest.port.as_deref().expect("a port");
        *known.entry(planned.guest).or_default() += usize::from(port.flow().is_some());
    }
    known.into_values().collect()
}

#[test]
fn connections_without_a_place_go_untranslated_and_each_guest_has_its_own_places() {
    assert_eq!(known(Settings::default()), [4, 4]);
    let few = known(Settings {
        places: 4,
        ..Settings::default()
    });
    assert!(few.iter().all(|known| (1..4).contains(known)), "{few:?}");
    assert_eq!(few.len(), 2);
}
