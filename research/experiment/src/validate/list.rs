//! Checks of lists of transfers: hosts that exist, and times within the run.

use super::fault::{Check, ensure};
use crate::application::Listed;
use crate::case::Guests;
use crate::schema::Experiment;

pub(super) fn check_list(
    key: &str,
    list: &[Listed],
    guests: &Guests,
    experiment: &Experiment,
) -> Check {
    let topology = experiment.network.topology;
    let hosts = topology.hosts().unwrap_or(0);
    let key_list = format!("{key}.application.list");
    ensure(hosts > 0, &key_list, || {
        let name = topology.name();
        format!("in a {name} no host sends to any other; take the topology `switch` or `fat-tree`")
    })?;
    let absent = [
        ("pattern", guests.pattern.is_none()),
        ("host", guests.host.is_none()),
        ("start_spread", guests.start_spread.0 == 0),
    ];
    for (field, is_absent) in absent {
        ensure(is_absent, &format!("{key}.{field}"), || {
            "the list has the hosts and times of its transfers; leave it out".into()
        })?;
    }
    for (field, value, only) in [("count", guests.count, hosts), ("flows", guests.flows, 1)] {
        ensure(value == only, &format!("{key}.{field}"), || {
            format!("is {value}; a list is for all hosts, with a flow each: give {only}")
        })?;
    }
    for (i, &Listed(source, target, size, _)) in list.iter().enumerate() {
        let key = format!("{key_list}.{i}");
        ensure(source.max(target) < hosts && source != target, &key, || {
            let last = hosts - 1;
            format!("from host {source} to host {target}; give two different ones of 0 to {last}")
        })?;
        ensure(size.0 > 0, &key, || {
            "is of 0 bytes; give at least 1B".into()
        })?;
    }
    let last = (0..hosts)
        .filter_map(|host| Some(guests.listed_from(host).last()?.2))
        .max();
    let duration = experiment.duration;
    ensure(last.is_none_or(|last| last < duration), &key_list, || {
        format!(
            "its last transfer begins {} after time 0, and the run ends at {duration}; lengthen the run",
            last.unwrap_or_default()
        )
    })
}
