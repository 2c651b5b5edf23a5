//! The guest's TCP: its settings and its counters.

use std::collections::BTreeMap;
use std::path::Path;

use uc_experiment::CouplingRules;

use crate::CongestionControls;
use crate::netns::Namespace;
use crate::tcp_counters;
use crate::vm::image::MODULES;
use crate::vm::message::{Done, SetUp};
use crate::vm::modules;
use crate::wiring;

/// Name of the guest's interface.
const INTERFACE: &str = "eth0";
/// Path of the counters of the guest's PVTCP module.
const PVTCP: &str = "/sys/module/uc_pvtcp/parameters/stats";

/// Applies all settings, in the order in which a namespace of the live backend would be set up.
pub fn set_up(set_up: &SetUp) -> Done<CongestionControls> {
    let text = |error: crate::LabError| error.to_string();
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

/// Returns the counters of `/proc/net/snmp` and `/proc/net/netstat`, named by section, such as `Tcp_RetransSegs`, and
/// those of the module `pvtcp` if it is loaded, as `Pvtcp_…`.
pub fn counters() -> Done<BTreeMap<String, u64>> {
    let mut all = tcp_counters::read().map_err(|error| error.to_string())?;
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
