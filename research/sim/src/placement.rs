//! The hosts of a case's guests, and the receivers of each flow.

use std::collections::BTreeMap;

use uc_experiment::layout::Place;
use uc_experiment::{Application, Case, Experiment, Guests, Pattern, Topology};
use uc_net::random::Stream;

use crate::error::SimError;

/// The hosts with guests, and the host of each guest.
pub struct Placement {
    /// Locations of the hosts with guests; all hosts where each both sends and receives.
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
            let receiver = match group.pattern {
                Some(Pattern::FanIn { to }) => Some(to),
                _ => None,
            };
            let senders = (0..hosts).filter(|&host| Some(host) != receiver);
            let of_group: Vec<usize> = senders
                .take(group.count as usize)
                .map(|host| host as usize)
                .collect();
            if of_group.len() < group.count as usize {
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
                "a pattern needs hosts that both send and receive",
                "leave it out, or take the topology `switch` or `fat-tree`",
            )),
        };
    };
    if let Application::List(_) = group.application {
        let listed = group.listed_from(host as u32);
        return Ok(listed.iter().map(|(target, ..)| *target as usize).collect());
    }
    let hosts = hosts as usize;
    let others = (0..hosts).filter(|&other| other != host);
    let mut found: Vec<usize> = match &group.pattern {
        None => {
            return Err(unsupported(
                "nothing says who its receivers are",
                "give it a `pattern`",
            ));
        }
        Some(Pattern::Stride(steps)) => {
            let steps = steps.iter();
            steps.map(|&step| (host + step as usize) % hosts).collect()
        }
        Some(Pattern::FanIn { to }) => vec![*to as usize],
        Some(Pattern::Shuffle { .. }) => shuffled(others.collect(), random),
        Some(Pattern::Random) => others.collect(),
    };
    if found.iter().any(|&to| to == host || to >= hosts) {
        return Err(unsupported(
            "a host would send to itself, or to one that is not there",
            "take other numbers in its `pattern`",
        ));
    }
    // A single transfer to "another host, drawn at random" has one receiver.
    let is_drawn = matches!(group.pattern, Some(Pattern::Random));
    match group.application {
        Application::Web { .. } | Application::Messages { .. } => Ok(found),
        _ if is_drawn => {
            let place = random.below(found.len() as u64) as usize;
            Ok(vec![found.swap_remove(place)])
        }
        Application::Transfer { .. } => Ok(found),
        _ if found.len() == 1 => Ok(found),
        _ => Err(unsupported(
            "several receivers for a flow that can have one",
            "make it a transfer, or a stride of one number",
        )),
    }
}

/// Shuffles; every order is equally likely (Fisher and Yates).
pub fn shuffled(mut hosts: Vec<usize>, random: &mut Stream) -> Vec<usize> {
    for place in (1..hosts.len()).rev() {
        let other = random.below(place as u64 + 1) as usize;
        hosts.swap(place, other);
    }
    hosts
}
