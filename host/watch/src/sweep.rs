//! Removes finished and stale entries from the programs' tables.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use uc_core::watch::consts;
use zerocopy::FromBytes;

use crate::layout::{uc_path_slot, uc_watch_slot};
use crate::names::name_if_there;
use crate::programs::{Programs, port_of};

const SECOND_NS: u64 = 1_000_000_000;
/// Time for which a finished start stays in the table: until a replay of its probes is recognized by their time alone.
const OVER_NS: u64 = 5 * SECOND_NS;
/// Time after which an incomplete handshake is removed, longer than all retransmissions of its SYN.
const HANDSHAKE_NS: u64 = 30 * SECOND_NS;
/// Time after which a silent start is removed; then the flow's windows are the guest's own again.
const SILENT_NS: u64 = 60 * SECOND_NS;
/// Time after which an unused path record is removed; no record is valid for an hour, so the path
/// would be probed again anyway.
const PATH_NS: u64 = 3_600 * SECOND_NS;

/// Returns whether a flow's entry may be removed: the flow has closed, or has been idle too long.
fn is_over(slot: &uc_watch_slot, now_ns: u64) -> bool {
    let idle_ns = now_ns.saturating_sub(slot.seen_ns);
    let keep_ns = match u32::from(slot.flow.stage) {
        _ if slot.closed != 0 => OVER_NS,
        consts::LEFT => OVER_NS,
        consts::COUNTING => HANDSHAKE_NS,
        _ => SILENT_NS,
    };
    idle_ns > keep_ns
}

impl Programs {
    /// Removes flows that have started, paths that were not used, and everything of deleted ports,
    /// in the network namespace of the calling thread. The holder sends the handshakes that wait on
    /// such ports.
    pub fn sweep(&self, now_ns: u64) {
        let mut ports = Ports::default();
        clear(&self.maps.starts, &mut ports, |slot: &uc_watch_slot| {
            let counts = u32::from(slot.flow.stage) == consts::COUNTING;
            match is_over(slot, now_ns) {
                true => Use::Over,
                false if counts => Use::Displaceable(slot.seen_ns),
                false => Use::Needed,
            }
        });
        clear(&self.maps.paths, &mut ports, |slot: &uc_path_slot| {
            let used_ns = slot.path.measured_ns.max(slot.asked_ns);
            match now_ns.saturating_sub(used_ns) > PATH_NS {
                true => Use::Over,
                false => Use::Displaceable(used_ns),
            }
        });
        for map in [&self.maps.watched, &self.maps.allowances] {
            ports.clear_gone(map);
        }
    }
}

/// Whether ports exist, by interface index; each is queried once in a sweep.
#[derive(Default)]
struct Ports(BTreeMap<u32, bool>);

impl Ports {
    /// Returns whether the port of a key is gone; every table's keys begin with its ifindex.
    fn is_gone(&mut self, key: &[u8]) -> bool {
        let Some(ifindex) = key.get(..4).and_then(|bytes| bytes.try_into().ok()) else {
            return false;
        };
        let ifindex = u32::from_ne_bytes(ifindex);
        let there = self.0.entry(ifindex);
        !*there.or_insert_with(|| name_if_there(ifindex).is_some())
    }

    /// Removes a table's entries of deleted ports, and returns the other keys.
    fn clear_gone(&mut self, map: &MapHandle) -> Vec<Vec<u8>> {
        // Reads all keys first: a walk restarts if its current key is deleted.
        let keys: Vec<_> = map.keys().collect();
        let (gone, there): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| self.is_gone(key));
        for key in gone {
            let _gone_already = map.delete(&key);
        }
        there
    }
}

/// Whether an entry of a table is still needed.
enum Use {
    /// Finished or stale: the sweep removes the entry.
    Over,
    /// Last used at this time, in ns: removed if its port has too many entries.
    Displaceable(u64),
    /// The entry is needed now, so it stays.
    Needed,
}

/// Removes a table's entries that are over. If those left fill more than half of the table, also removes entries used
/// longest ago, of the ports that have many ([`displace`]).
fn clear<T: FromBytes>(map: &MapHandle, ports: &mut Ports, use_of: impl Fn(&T) -> Use) {
    let mut used: BTreeMap<u32, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
    for key in ports.clear_gone(map) {
        let Ok(Some(bytes)) = map.lookup(&key, MapFlags::ANY) else {
            continue;
        };
        match T::read_from_bytes(&bytes).as_ref().map(&use_of) {
            Ok(Use::Over) => drop(map.delete(&key)),
            Ok(Use::Displaceable(used_ns)) => {
                used.entry(port_of(&key)).or_default().push((used_ns, key));
            }
            Ok(Use::Needed) | Err(_) => {}
        }
    }
    displace(map, used);
}

/// Removes the oldest entries of ports that have more than an equal part of half of the table, if that half is full:
/// a full table would have no room for other ports.
fn displace(map: &MapHandle, mut used: BTreeMap<u32, Vec<(u64, Vec<u8>)>>) {
    let room = map.max_entries() as usize / 2;
    if used.values().map(Vec::len).sum::<usize>() <= room {
        return;
    }
    let share = room / used.len();
    for entries in used.values_mut() {
        entries.sort_unstable();
        for (_, key) in entries.drain(..entries.len().saturating_sub(share)) {
            let _gone_already = map.delete(&key);
        }
    }
}
