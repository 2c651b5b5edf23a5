//! The hosts of a case's guests, and the receivers of each flow.

use std::collections::BTreeMap;

use uc_experiment::layout::Place;
use uc_experiment::{Application, Case, Experiment, Guests, Pattern, Topology};
use uc_net::random::Stream;

use crate::error::SimError;

/// The hosts with guests, and the host of each guest.
pub struct Placement {
    /// Locations of the hosts with guests; in a network whose hosts both send and receive, of all hosts.
    pub places: Vec<Place>,
    /// Index into `places` of each guest, group by group.
    pub of_groups: Vec<Vec<usize>>,
}

impl Placement {
    /// Places the guests of a case: every guest has a host of its own, unless its group names one;
    /// where hosts both send and receive, guest i of each group is on host i, or where its pattern
    /// puts it.
    ///
    /// # Errors
    /// [`SimError::Refused`] for groups that can't be placed as they specify.
    pub fn new(experiment: &Experiment, case: &Case) -> Result<Placement, SimError> {
        let topology = experiment.network.topology;
        match topology.hosts() {
            Some(hosts) => Placement::by_pattern(hosts, case),
            None => Ok(Placement::by_guest(topology, case)),
        }
    }

    fn by_guest(topology: Topology, case: &Case) -> Placement {
        let mut places: Vec<Place> = Vec::new();
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        let mut of_groups = Vec::new();
        for group in &case.guests {
            let (from, to) = group.ends(topology);
            let place = Place { from, to };
            let mut of_group = Vec::new();
            for _ in 0..group.count {
                let known = group.host.as_deref().and_then(|name| named.get(name));
                let host = known.copied().unwrap_or(places.len());
                if host == places.len() {
                    places.push(place);
                }
                if let Some(name) = group.host.as_deref() {
                    named.insert(name, host);
                }
                of_group.push(host);
            }
            of_groups.push(of_group);
        }
        Placement { places, of_groups }
    }

    fn by_pattern(hosts: u32, case: &Case) -> Result<Placement, SimError> {
        let mut of_groups = Vec::new();
        for group in &case.guests {
            let host = |index| match &group.pattern {
                Some(pattern) => pattern.host(index),
                None => index,
            };
            let of_group = (0..group.count).map(|index| host(index) as usize);
            let of_group: Vec<usize> = of_group.collect();
            if of_group.iter().any(|&host| host >= hosts as usize) {
                return Err(SimError::Refused(format!(
                    "group {} has more guests than there are hosts, {hosts}; lower `count`, or \
                     enlarge the topology",
                    group.name
                )));
            }
            of_groups.push(of_group);
        }
        let places = vec![Place { from: 0, to: 0 }; hosts as usize];
        Ok(Placement { places, of_groups })
    }
}

/// Returns the receivers of one flow of a guest on `host`, by their indices among `hosts`; random
/// choices are drawn from `random`.
///
/// # Errors
/// [`SimError::Refused`] for a pattern that the application can't follow, or a missing pattern.
pub fn receivers(
    group: &Guests,
    topology: Topology,
    host: usize,
    random: &mut Stream,
) -> Result<Vec<usize>, SimError> {
    let unsupported =
        |what: &str, mend: &str| SimError::Refused(format!("group {}: {what}; {mend}", group.name));
    let Some(hosts) = topology.hosts() else {
        return match group.pattern {
            None => Ok(vec![host]),
            Some(_) => Err(unsupported(
                "`pattern` needs a topology whose hosts both send and receive",
                "remove `pattern`, or use the topology `switch` or `fat-tree`",
            )),
        };
    };
    if let Application::List(_) = group.application {
        let listed = group.listed_from(host as u32);
        return Ok(listed.iter().map(|(target, ..)| *target as usize).collect());
    }
    let Some(pattern) = &group.pattern else {
        return Err(unsupported(
            "no key names the receivers of its flows",
            "give the group a `pattern`",
        ));
    };
    let found = pattern.receivers(host as u32, hosts).into_iter();
    let mut found: Vec<usize> = found.map(|to| to as usize).collect();
    if let Pattern::Shuffle { .. } = pattern {
        random.shuffle(&mut found);
    }
    if found.iter().any(|&to| to == host || to >= hosts as usize) {
        return Err(unsupported(
            "its `pattern` makes a host send to itself or to a host that does not exist",
            "change the numbers in `pattern`",
        ));
    }
    // A single transfer to "another host, drawn at random" has one receiver.
    let is_drawn = matches!(pattern, Pattern::Random);
    match group.application {
        Application::Web { .. } | Application::Messages { .. } => Ok(found),
        _ if is_drawn => {
            let place = random.below(found.len() as u64) as usize;
            Ok(vec![found.swap_remove(place)])
        }
        Application::Transfer { .. } => Ok(found),
        _ if found.len() == 1 => Ok(found),
        _ => Err(unsupported(
            "its `pattern` gives a flow several receivers, and its application can have only one",
            "use the application `transfer`, or a stride with one number",
        )),
    }
}
