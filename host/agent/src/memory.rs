//! The memory that the maps take, compared with what the host and the service's unit allow: a table that
//! does not fit would have the agent killed, and again each time that it is started.

use std::fs;
use std::path::{Path, PathBuf};

use uc_client::AgentError;

/// Memory of a flow in all maps that grow with the table, and of a flow's recorded events, in bytes.
const FLOW_BYTES: u64 = uc_port::FLOW_BYTES as u64;
const EVENTS_BYTES: u64 = 400;
/// The folder of control groups (version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// Checks that maps for so many flows, and for so many flows' events, fit into memory.
///
/// # Errors
/// [`AgentError::NoMemory`].
pub fn check((flows, events): (u32, u32)) -> Result<(), AgentError> {
    fits(
        u64::from(flows) * FLOW_BYTES + u64::from(events) * EVENTS_BYTES,
        available(),
    )
}

fn fits(needed: u64, available: Option<u64>) -> Result<(), AgentError> {
    match available {
        Some(available) if needed > available => Err(AgentError::NoMemory {
            needed_mb: needed.div_ceil(1 << 20),
            available_mb: available >> 20,
        }),
        _ => Ok(()),
    }
}

/// Returns the memory that is left to this process, in bytes: the host's, or that of its control group
/// if that is less; `None` if neither is known.
fn available() -> Option<u64> {
    let host = fs::read_to_string("/proc/meminfo").ok();
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let groups = group.as_deref().and_then(group_of);
    let limits = groups.iter().flat_map(|group| {
        let above = group
            .ancestors()
            .take_while(|above| above.starts_with(GROUPS));
        above.filter_map(left_in).collect::<Vec<u64>>()
    });
    limits.chain(host.as_deref().and_then(available_in)).min()
}

/// Returns the folder of the control group in the text of `/proc/self/cgroup`.
fn group_of(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(GROUPS).join(path))
}

/// Returns what a control group may still take; `None` if it has no limit.
fn left_in(group: &Path) -> Option<u64> {
    let read = |name| {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let (most, taken): (u64, u64) = (read("memory.max")?, read("memory.current")?);
    Some(most.saturating_sub(taken))
}

/// Returns the memory that programs may still take, from the text of `/proc/meminfo`.
fn available_in(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use uc_port::Programs;

    use super::*;

    #[test]
    fn live_the_kernel_takes_what_is_reserved() {
        if uc_live::or_skip(Programs::load(1)).is_none() {
            return;
        }
        let kernel = |flows, events| {
            let programs = Programs::load_with(flows, events).unwrap();
            programs.memory_bytes().unwrap()
        };
        // so large that no map has its minimum
        let (few, many) = (1 << 18, 1 << 19);
        let flow = (kernel(many, 1) - kernel(few, 1)).div_ceil(u64::from(many - few));
        let rings = 1 << 17;
        let events = (kernel(rings, rings) - kernel(rings, 1)) / u64::from(rings);
        assert!(flow <= FLOW_BYTES && FLOW_BYTES < flow + 20, "{flow}");
        assert!(
            events <= EVENTS_BYTES && EVENTS_BYTES < events + 20,
            "{events}"
        );
    }

    #[test]
    fn maps_larger_than_the_memory_left_are_refused_with_the_remedy() {
        check((65_536, 65_536)).unwrap();
        let refused = check((1 << 24, 1 << 24)).map_err(|error| error.to_string());
        let left = available().unwrap();
        let needed = (1 << 24) * (FLOW_BYTES + EVENTS_BYTES);
        assert_eq!(refused.is_err(), needed > left);
        let told = fits(needed, Some(1 << 30)).unwrap_err().to_string();
        assert!(
            told.contains(&format!("{} MB", needed >> 20)) && told.contains("1024 MB"),
            "{told}"
        );
        assert!(
            told.contains("agent.flows_max") && told.contains("MemoryMax"),
            "{told}"
        );
        fits(needed, None).unwrap();
    }

    #[test]
    fn the_memory_left_is_read_from_the_kernels_texts() {
        let text = "MemTotal:       16 kB\nMemAvailable:    3 kB\n";
        assert_eq!(available_in(text), Some(3072));
        let group = group_of("1:name=x:/\n0::/system.slice/a.service\n");
        assert_eq!(
            group,
            Some(Path::new(GROUPS).join("system.slice/a.service"))
        );
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "300\n");
        write("memory.max", "max\n");
        assert_eq!(left_in(folder.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(left_in(folder.path()), Some(700));
    }
}
