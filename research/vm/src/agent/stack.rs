//! The guest's TCP: its settings and its counters.

use std::collections::BTreeMap;
use std::path::Path;

use uc_experiment::CouplingRules;
use uc_lab::CongestionControls;
use uc_lab::netns::Namespace;
use uc_lab::wiring;

use crate::image::MODULES;
use crate::message::{Done, SetUp};
use crate::modules;

/// Name of the guest's interface.
const INTERFACE: &str = "eth0";
/// Path of the counters of the guest's PVTCP module.
const PVTCP: &str = "/sys/module/uc_pvtcp/parameters/stats";

/// Applies all settings, in the order in which a namespace of the live backend would be set up.
pub fn set_up(set_up: &SetUp) -> Done<CongestionControls> {
    let text = |error: uc_lab::LabError| error.to_string();
    let here = Namespace::here("this guest").map_err(text)?;
    let sysctls = set_up
        .sysctls
        .iter()
        .map(|(key, value)| (&key[..], value.clone()));
    here.set_sysctls(&sysctls.collect::<Vec<_>>())
        .map_err(text)?;
    wiring::ip_batch(&here, &set_up.lines).map_err(text)?;
    wiring::set_offload(&here, INTERFACE, set_up.offload).map_err(text)?;
    wiring::wait_running(&here).map_err(text)?;
    let names: Vec<_> = set_up
        .congestion_controls
        .iter()
        .map(String::as_str)
        .collect();
    for name in &names {
        // The kernel would call modprobe, which a guest does not have.
        modules::load(Path::new(MODULES), &format!("tcp_{name}"))
            .map_err(|error| error.to_string())?;
    }
    // Coupling in a VM is not the lab's: the VM's kernel has its own maps.
    CongestionControls::for_names(&names, &CouplingRules::default()).map_err(text)
}

/// Returns the counters of `/proc/net/snmp` and `/proc/net/netstat`, named by section, such as
/// `Tcp_RetransSegs`.
pub fn counters() -> Done<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for path in ["/proc/net/snmp", "/proc/net/netstat"] {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        all.extend(parse(&text));
    }
    // Counters of guest/pvtcp, if it is loaded: a name and a number in each line.
    let pvtcp = std::fs::read_to_string(PVTCP).unwrap_or_default();
    let pairs = pvtcp.lines().filter_map(|line| line.split_once(' '));
    for (name, value) in pairs {
        if let Ok(value) = value.parse() {
            all.insert(format!("Pvtcp_{name}"), value);
        }
    }
    Ok(all)
}

/// Parses pairs of lines: `Section: name name`, then `Section: number number`. Omits negative
/// values, which mean no limit.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let lines: Vec<_> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (names, values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
        let section = pair[0].split(':').next().unwrap_or_default();
        for (name, value) in names.zip(values).skip(1) {
            if let Ok(value) = value.parse() {
                found.insert(format!("{section}_{name}"), value);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_section_and_name() {
        let text = "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\n\
                    TcpExt: TCPTimeouts\nTcpExt: 3\n";
        let found = parse(text);
        assert_eq!(found["Tcp_RetransSegs"], 7);
        assert_eq!(found["TcpExt_TCPTimeouts"], 3);
        assert!(!found.contains_key("Tcp_MaxConn"));
        let here = counters().unwrap();
        assert!(here.contains_key("TcpExt_TCPTimeouts"), "{here:?}");
    }
}
