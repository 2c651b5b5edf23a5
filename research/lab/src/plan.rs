//! The layout of one case: hosts, guests, names and addresses, before anything is built.

use std::collections::BTreeMap;

use uc_experiment::layout::Place;
use uc_experiment::{
    BitsPerSec, Case, Coupling, CouplingRules, Experiment, Family, Guests, Network, Profile, Stack,
    Topology, Value, Watch, start_keys,
};

pub use crate::addresses::mac_text;
use crate::addresses::{address, mac};
use crate::error::LabError;
pub use crate::guest::Guest;
use crate::incast::Incast;
use crate::names::{COUPLED_CONTROLS, DCTCP};
use crate::pages::Pages;
use crate::part::Part;
use crate::server;
pub use crate::server::Server;

/// Maximum number of flows of one guest, each with a port of its own.
pub(crate) const FLOWS_MAX: u32 = 20_000;
/// Maximum number of connections of a case: each has a number for each direction ([`crate::flow`]).
const CONNECTIONS_MAX: u64 = 32_767;

/// A case laid out for the live backend.
#[derive(Debug, Clone)]
pub struct Plan {
    /// IP version of all traffic.
    pub family: Family,
    /// Whether interfaces segment and coalesce (TSO, GSO, GRO).
    pub offload: bool,
    /// Maximum size of an IP packet on all interfaces, in bytes.
    pub mtu_bytes: u32,
    /// All guests, in the file's order.
    pub guests: Vec<Guest>,
    /// Location of each host with guests; the receivers' hosts have the numbers after them.
    pub places: Vec<Place>,
    /// Receivers: one for all flows in a star, else one for each host with guests, in their order; where
    /// hosts both send and receive, one on each.
    pub servers: Vec<Server>,
    /// Rules of coupled flows.
    pub coupling: CouplingRules,
    /// Rate at which a host grants the first windows of all flows with a start; `None`: each host those
    /// toward it.
    pub grants: Option<BitsPerSec>,
}

impl Plan {
    /// Lays out `case`: guest i has address i + 1 of the LAN, and the receivers have those after the
    /// last guest's. Groups without a host get one host per guest, or that of their pattern; groups that
    /// name the same coupled guest are that one guest.
    ///
    /// # Errors
    /// [`LabError::Refused`] when the guests don't fit into the LAN's addresses, a guest has too many flows, or a stack
    /// is not defined or contradicts itself.
    pub fn new(experiment: &Experiment, case: &Case) -> Result<Self, LabError> {
        let (network, family) = (&experiment.network, experiment.network.family);
        let mut hosts = Hosts::of(network.topology);
        let mut guests = Vec::new();
        for group in &case.guests {
            let stack = stack_named(experiment, case, &group.stack)?;
            for index in 0..group.count {
                let (from, to) = group.ends(network.topology);
                let place = Place { from, to };
                if let Some(guest) = same_guest(case, &mut guests, group)? {
                    // A receiver elsewhere is on a host of its own.
                    let host = match group.pattern.is_some() || hosts.places[guest.host] == place {
                        true => guest.host,
                        false => hosts.number(None, place),
                    };
                    let servers = receivers(group, network, host);
                    let part = Part::of(experiment, group, index, servers);
                    guest.flows += part.flows;
                    guest.parts.push(part);
                    continue;
                }
                let number = guests.len();
                let host = match &group.pattern {
                    Some(pattern) => pattern.host(index) as usize,
                    None => hosts.number(group.host.as_deref(), place),
                };
                let part = Part::of(experiment, group, index, receivers(group, network, host));
                guests.push(Guest {
                    label: format!("{}[{index}]", group.name),
                    group: group.name.clone(),
                    index,
                    host,
                    server: part.servers[0],
                    port: format!("port{number}"),
                    address: address(family, number, case)?,
                    mac: mac(number),
                    stack: stack.clone(),
                    law: group.law,
                    parameters: group.parameters.clone(),
                    profile: group.profile.unwrap_or(Profile::Linux),
                    hypervisor: group.hypervisor.clone(),
                    hold: group.hold,
                    dupack: group.dupack,
                    flows: group.flows.max(part.flows),
                    parts: vec![part],
                    coupling: group.group().cloned(),
                    is_coupled_by_port: group.is_coupled_by_port(),
                    shares_sum: group.share.is_some(),
                    // without a rate in the file, pacing slots come at the rate of the receiver's link
                    start: group.start_law.map(|_| {
                        let rate = Value::Rate(network.receiver_rate());
                        let usual = Watch::default().choose(start_keys::PACE, rate);
                        group.watch.clone().or(usual)
                    }),
                    pages: Pages::of(group),
                    incast: Incast::of(group),
                });
            }
        }
        check_flows(case, &guests)?;
        let servers = server::servers(experiment, case, &guests, hosts.places.len())?;
        check_stacks(case, &guests, &servers)?;
        Ok(Self {
            family,
            offload: network.offload,
            mtu_bytes: network.mtu.0,
            guests,
            places: hosts.places,
            servers,
            coupling: case.coupling,
            grants: case.grants,
        })
    }

    /// Returns the receiver of a guest's flows, of several the first group's.
    pub fn server_of(&self, guest: &Guest) -> &Server {
        &self.servers[guest.server]
    }

    /// Returns all receivers of a guest's flows.
    pub fn servers_of(&self, guest: &Guest) -> impl Iterator<Item = &Server> {
        let servers = self.servers.iter().enumerate();
        let own = servers.filter(|(number, _)| guest.sends_to(*number));
        own.map(|(_, server)| server)
    }

    /// Returns the guests that send to receiver number `server`.
    pub fn guests_of(&self, server: usize) -> impl Iterator<Item = &Guest> {
        let guests = self.guests.iter();
        guests.filter(move |guest| guest.sends_to(server))
    }

    /// Returns the number of flows that the case's guests open.
    pub fn flow_count(&self) -> usize {
        self.guests
            .iter()
            .map(|guest| guest.opened_flows() as usize)
            .sum()
    }
}

/// A numbering of hosts, in the order in which guests name them.
struct Hosts {
    places: Vec<Place>,
    named: BTreeMap<String, usize>,
}

impl Hosts {
    /// Returns the numbering of a network: with all hosts where each both sends and receives.
    fn of(topology: Topology) -> Self {
        let hosts = topology.hosts().unwrap_or(0) as usize;
        Self {
            places: vec![Place { from: 0, to: 0 }; hosts],
            named: BTreeMap::new(),
        }
    }

    fn number(&mut self, name: Option<&str>, place: Place) -> usize {
        let next = self.places.len();
        let number = match name {
            Some(name) => *self.named.entry(name.to_owned()).or_insert(next),
            None => next,
        };
        if number == next {
            self.places.push(place);
        }
        number
    }
}

/// Returns the numbers of the receivers of each flow of a guest on `host`.
fn receivers(group: &Guests, network: &Network, host: usize) -> Vec<usize> {
    let by_pattern = group.pattern.as_ref().zip(network.topology.hosts());
    match by_pattern {
        Some((pattern, hosts)) => {
            let found = pattern.receivers(host as u32, hosts).into_iter();
            found.map(|to| to as usize).collect()
        }
        None if network.topology == Topology::Star => vec![0],
        None => vec![host],
    }
}

/// Returns the guest that an earlier group of the case has created under the same name; `None` if there is none.
/// Refuses groups of one guest that differ in what a guest, its port or its host has once.
fn same_guest<'a>(
    case: &Case,
    guests: &'a mut [Guest],
    group: &Guests,
) -> Result<Option<&'a mut Guest>, LabError> {
    let name = |coupling: Option<&Coupling>| {
        let coupling = coupling?;
        Some((coupling.group.clone(), coupling.guest.clone()?))
    };
    let Some(wanted) = name(group.group()) else {
        return Ok(None);
    };
    let found = guests
        .iter_mut()
        .find(|guest| name(guest.coupling.as_ref()).as_ref() == Some(&wanted));
    let Some(guest) = found else {
        return Ok(None);
    };
    if let Some(key) = case
        .group(&guest.group)
        .and_then(|first| differing(first, group))
    {
        return Err(LabError::Refused(format!(
            "case {}: {} and {} are one guest, and their `{key}` differs; a guest has one: give both groups the same",
            case.name, guest.group, group.name
        )));
    }
    let serves = Pages::of(group).is_some() || Incast::of(group).is_some();
    if serves || guest.pages.is_some() || guest.incast.is_some() {
        return Err(LabError::Refused(format!(
            "case {}: {} and {} are one guest, and one serves pages or blocks, which a guest does for all its flows; \
             give each a guest of its own",
            case.name, guest.group, group.name
        )));
    }
    Ok(Some(guest))
}

/// Returns the first key of what a guest, its port or its host has once that two groups set differently.
fn differing(first: &Guests, other: &Guests) -> Option<&'static str> {
    let keys = [
        ("stack", first.stack == other.stack),
        ("law", first.law == other.law),
        ("parameters", first.parameters == other.parameters),
        ("profile", first.profile == other.profile),
        ("start_law", first.start_law == other.start_law),
        ("watch", first.watch == other.watch),
        ("hold", first.hold == other.hold),
        ("dupack", first.dupack == other.dupack),
        ("hypervisor", first.hypervisor == other.hypervisor),
        ("host", first.host == other.host),
        ("from", first.from == other.from),
        ("pattern", first.pattern == other.pattern),
    ];
    let found = keys.into_iter().find(|(_, is_same)| !is_same);
    found.map(|(key, _)| key)
}

fn check_flows(case: &Case, guests: &[Guest]) -> Result<(), LabError> {
    let connections: u64 = guests.iter().map(|guest| u64::from(guest.flows)).sum();
    if connections > CONNECTIONS_MAX {
        return Err(LabError::Refused(format!(
            "case {}: {connections} connections, and the emulated network tells at most {CONNECTIONS_MAX} apart; \
             lower `count`, `flows` or the network's `hosts`",
            case.name
        )));
    }
    match guests.iter().find(|guest| guest.flows > FLOWS_MAX) {
        None => Ok(()),
        Some(guest) => Err(LabError::Refused(format!(
            "case {}: {} flows in a guest of {}; a guest's flows have 20,000 ports: raise `count` \
             instead",
            case.name, guest.flows, guest.group
        ))),
    }
}

fn stack_named<'a>(
    experiment: &'a Experiment,
    case: &Case,
    name: &str,
) -> Result<&'a Stack, LabError> {
    experiment.stacks.get(name).ok_or_else(|| {
        LabError::Refused(format!(
            "case {}: there is no [stack.{name}]; define it in the experiment",
            case.name
        ))
    })
}

/// Checks the congestion controls of the stacks. DCTCP requests ECN whatever the settings are
/// (`TCP_CONG_NEEDS_ECN`), so a stack can't have one without the other.
fn check_stacks(case: &Case, guests: &[Guest], servers: &[Server]) -> Result<(), LabError> {
    let is_known = |name: &str| COUPLED_CONTROLS.contains(&name);
    let is_uncoupled =
        |guest: &&Guest| guest.couples() && !is_known(&guest.stack.congestion_control);
    if let Some(guest) = guests.iter().find(is_uncoupled) {
        return Err(LabError::Refused(format!(
            "case {}: {} couples {}; reno and cubic can be coupled in a guest; or give its port \
             law `coupled`",
            case.name, guest.label, guest.stack.congestion_control
        )));
    }
    let guests = guests.iter().map(|guest| (&guest.label[..], &guest.stack));
    let servers = servers
        .iter()
        .map(|server| (&server.label[..], &server.stack));
    let mut nodes = guests.chain(servers);
    match nodes.find(|(_, stack)| stack.congestion_control == DCTCP && !stack.ecn) {
        None => Ok(()),
        Some((node, _)) => Err(LabError::Refused(format!(
            "case {}: the stack of {node} has dctcp without ecn; on Linux DCTCP asks for ECN \
             always: set `ecn = true`",
            case.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(guests: &str, family: &str) -> Result<Plan, LabError> {
        let text = format!(
            "name = \"lab/plan\"\ntitle = \"plan\"\nduration = \"1s\"\n\
             [network]\nrate = \"10Mbit\"\ndelay = \"1ms\"\nfamily = \"{family}\"\n\
             queue = {{ kind = \"droptail\", limit = \"100kB\" }}\n\
             [stack.reno]\n[[case]]\nname = \"only\"\n{guests}"
        );
        let experiment = Experiment::from_str("plan", &text).unwrap();
        Plan::new(&experiment, &experiment.cases[0])
    }

    fn plan_error(guests: &str) -> String {
        plan(guests, "ipv4").unwrap_err().to_string()
    }

    #[test]
    fn guests_have_hosts_of_their_own_unless_they_name_one() {
        let group = |name, host| {
            format!("[[case.guests]]\nname = \"{name}\"\ncount = 2\nstack = \"reno\"\n{host}\n")
        };
        let guests = group("a", "host = \"h\"") + &group("b", "") + &group("c", "host = \"h\"");
        let plan = plan(&guests, "ipv4").unwrap();
        let hosts: Vec<_> = plan.guests.iter().map(|guest| guest.host).collect();
        assert_eq!(hosts, [0, 0, 1, 2, 0, 0]);
        assert_eq!(
            (plan.places.len(), plan.servers[0].host, plan.flow_count()),
            (3, 3, 6)
        );
        assert_eq!(plan.guests[3].label, "b[1]");
        assert_eq!(plan.guests[0].address.to_string(), "10.77.0.1");
        assert_eq!(plan.servers[0].address.to_string(), "10.77.0.7");
        assert_eq!(mac_text(plan.servers[0].mac), "02:75:63:00:00:07");
    }

    #[test]
    fn groups_that_name_one_guest_become_its_flows_with_separate_times() {
        let group = |name: &str, more: &str| {
            format!(
                "[[case.guests]]\nname = \"{name}\"\nstack = \"reno\"\nhost = \"h\"\n\
                 coupling = {{ group = \"g\", guest = \"vm\", priority = 2 }}\n{more}\n"
            )
        };
        let guests = "[[case.guests]]\nname = \"other\"\nstack = \"reno\"\ncount = 2\n".to_owned()
            + &group("first", "flows = 2")
            + &group("late", "start = \"500ms\"\nstop = \"900ms\"");
        let plan = plan(&guests, "ipv4").unwrap();
        assert_eq!((plan.guests.len(), plan.flow_count()), (3, 5));
        let vm = &plan.guests[2];
        let flows: Vec<_> = (0..vm.flows)
            .map(|flow| vm.part_of(flow))
            .map(|part| (&part.group[..], part.start.0, part.stop.map(|stop| stop.0)))
            .collect();
        let (first, late) = (("first", 0, None), ("late", 500_000_000, Some(900_000_000)));
        assert_eq!(flows, [first, first, late]);
        assert_eq!(vm.parts[1].priority, 2);
        let other = |text: String| plan_error(&(guests.clone() + &text));
        let elsewhere = other(group("else", "").replace("\"h\"", "\"i\""));
        assert!(elsewhere.contains("`host` differs"), "{elsewhere}");
        let watched = other(group("else", "law = \"dctcp\"\nstart_law = \"watch\""));
        assert!(watched.contains("`law` differs"), "{watched}");
        let incast = "application = { incast = { block = \"1kB\", rounds = 2 } }";
        let served = other(group("else", incast));
        assert!(served.contains("a guest of its own"), "{served}");
        let served_first = plan_error(&(group("first", incast) + &group("late", "")));
        assert!(
            served_first.contains("a guest of its own"),
            "{served_first}"
        );
    }

    #[test]
    fn groups_of_one_guest_may_have_receivers_at_different_switches() {
        let group = |name: &str, to: u32| {
            format!(
                "[[case.guests]]\nname = \"{name}\"\nstack = \"reno\"\nto = {to}\n\
                 coupling = {{ group = \"g\", guest = \"vm\" }}\n"
            )
        };
        let text = format!(
            "name = \"lab/plan\"\ntitle = \"plan\"\nduration = \"1s\"\n[network]\n\
             topology = {{ parking-lot = {{ hops = 3 }} }}\nrate = \"10Mbit\"\ndelay = \"1ms\"\n\
             queue = {{ kind = \"droptail\", limit = \"100kB\" }}\n[stack.reno]\n[[case]]\n\
             name = \"only\"\n{}{}{}",
            group("near", 1),
            group("far", 3),
            group("also_near", 1)
        );
        let experiment = Experiment::from_str("plan", &text).unwrap();
        let plan = Plan::new(&experiment, &experiment.cases[0]).unwrap();
        let places: Vec<_> = plan.places.iter().map(|it| (it.from, it.to)).collect();
        assert_eq!((plan.guests.len(), places), (1, vec![(0, 1), (0, 3)]));
        let tuples = crate::flow::tuples(&plan);
        let ends: Vec<_> = tuples.iter().map(|it| it.destination.to_string()).collect();
        assert_eq!(ends, ["10.77.0.2:5001", "10.77.0.3:5001", "10.77.0.2:5001"]);
    }

    #[test]
    fn transfers_in_epochs_are_flows_of_their_own_at_their_times() {
        let guests = "[[case.guests]]\nname = \"a\"\ncount = 2\nstack = \"reno\"\n\
             start = \"100ms\"\n\
             application = { epochs = { size = \"10kB\", rounds = 3, every = \"50ms\" } }\n";
        let plan = plan(guests, "ipv4").unwrap();
        assert_eq!(plan.flow_count(), 6);
        let parts = plan.guests.iter().flat_map(|guest| &guest.parts);
        let parts: Vec<_> = parts.map(|part| (part.first, part.flows)).collect();
        assert_eq!(parts, [(0, 3), (3, 3)]);
        let waits = crate::traffic::waits(&plan, 1).into_iter();
        let waits: Vec<_> = waits.map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 150, 200, 100, 150, 200]);
    }

    #[test]
    fn cases_that_do_not_fit_are_refused_with_a_remedy() {
        let guests = |count, flows, stack| {
            let group = "[[case.guests]]\nname = \"a\"";
            format!("{group}\ncount = {count}\nflows = {flows}\nstack = \"{stack}\"")
        };
        for (family, address) in [("ipv4", "10.77.1.244"), ("ipv6", "fd77::1f4")] {
            let last = plan(&guests(499, 1, "reno"), family).unwrap();
            assert_eq!(last.servers[0].address.to_string(), address);
        }
        for (guests, part) in [
            (guests(1, 20_001, "reno"), "20001 flows"),
            (guests(1, 1, "cubic"), "[stack.cubic]"),
        ] {
            let error = plan(&guests, "ipv4").unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("only"), "{error}");
        }
    }

    #[test]
    fn dctcp_without_ecn_is_refused_at_both_ends() {
        let text = |guest: &str, server: &str| {
            format!(
                "name = \"lab/plan\"\ntitle = \"plan\"\nduration = \"1s\"\n\
                 [network]\nrate = \"10Mbit\"\ndelay = \"1ms\"\n\
                 queue = {{ kind = \"droptail\", limit = \"100kB\" }}\n\
                 [stack.guest]\n{guest}\n[stack.server]\n{server}\n[[case]]\n\
                 name = \"only\"\n[[case.guests]]\nname = \"a\"\nstack = \"guest\"\n"
            )
        };
        let of = |guest, server| {
            let experiment = Experiment::from_str("plan", &text(guest, server)).unwrap();
            Plan::new(&experiment, &experiment.cases[0])
        };
        let (with, without) = (
            "congestion_control = \"dctcp\"\necn = true",
            "congestion_control = \"dctcp\"",
        );
        assert!(of(with, with).is_ok());
        for (guest, server, node) in [(without, with, "a[0]"), (with, without, "the server")] {
            let error = of(guest, server).unwrap_err().to_string();
            assert!(
                error.contains(node) && error.contains("`ecn = true`"),
                "{error}"
            );
        }
    }
}
