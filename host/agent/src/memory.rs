//! The memory that the maps take, compared with the memory that the host and the service's unit allow. With a table
//! that does not fit, the kernel would kill the agent, and again after each start.

use std::fs;

use uc_client::AgentError;
use uc_port::{MemoryLimit, tables_bytes};

/// Checks that maps for `flows` flows, of which `events` have their events recorded, fit into memory. Accepts any
/// number if the free memory is not known.
///
/// # Errors
/// [`AgentError::NoMemory`].
pub fn check((flows, events): (u32, u32)) -> Result<(), AgentError> {
    fits(tables_bytes(flows, events), left())
}

fn fits(needed: u64, left: Option<(u64, String)>) -> Result<(), AgentError> {
    match left {
        Some((bytes, left)) if needed > bytes => Err(AgentError::NoMemory {
            needed_mb: needed.div_ceil(1 << 20),
            left,
        }),
        _ => Ok(()),
    }
}

/// Returns the memory that is left to this process, in bytes and in words for messages: the host's, or its control
/// group's if that is less; `None` if neither is known.
fn left() -> Option<(u64, String)> {
    let host = fs::read_to_string("/proc/meminfo").ok();
    let host = host.as_deref().and_then(available_in);
    let host = host.map(|bytes| (bytes, format!("the host has {} MB left", bytes >> 20)));
    let group = MemoryLimit::tightest().map(|limit| (limit.left_bytes, limit.to_string()));
    host.into_iter().chain(group).min()
}

/// Returns the available memory in bytes, from the text of `/proc/meminfo`; `None` if the text lacks it.
fn available_in(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use uc_port::{EVENTS_BYTES, Programs};

    use super::*;

    const FLOW_BYTES: u64 = uc_port::FLOW_BYTES as u64;

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
        let (left, _) = left().unwrap();
        let needed = (1 << 24) * (FLOW_BYTES + EVENTS_BYTES);
        assert_eq!(refused.is_err(), needed > left);
        let told = fits(needed, Some((1 << 30, "x leaves 1024 MB".to_owned())))
            .unwrap_err()
            .to_string();
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
    }
}
