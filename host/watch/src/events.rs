//! Counters of handshakes and probes, by outcome.

use std::collections::BTreeMap;
use std::ffi::CStr;

use libbpf_rs::{MapCore, MapFlags};

use crate::error::WatchError;
use crate::layout as c;
use crate::programs::Programs;

/// One kind of counted event of `uc watch` (`bpf/watch/event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u32);

impl Event {
    /// A handshake packet waits in user space for its probes.
    pub const HELD: Event = Event(c::UC_WATCH_HELD);
    /// A handshake waits for a granter's answer.
    pub const ASKED: Event = Event(c::UC_WATCH_ASKED);
    /// User space sent a probe, or a handshake that had waited.
    pub const INJECTED: Event = Event(c::UC_WATCH_INJECTED);
    /// The other host isn't known to run watch programs.
    pub const NOT_A_PEER: Event = Event(c::UC_WATCH_NOT_A_PEER);
    /// A handshake passed at once, because no process was there to hold it.
    pub const NOBODY: Event = Event(c::UC_WATCH_NOBODY);
    /// The port's guest exceeded its rate of handshakes.
    pub const OVER_RATE: Event = Event(c::UC_WATCH_OVER_RATE);
    /// The path was measured a moment before.
    pub const RECENT: Event = Event(c::UC_WATCH_RECENT);
    /// A retransmitted handshake packet came while the first one still waits.
    pub const REPEATED: Event = Event(c::UC_WATCH_REPEATED);
    /// There was no room for the handshake to wait.
    pub const NO_ROOM: Event = Event(c::UC_WATCH_NO_ROOM);
    /// A probe arrived without a CE mark.
    pub const PROBE: Event = Event(c::UC_WATCH_PROBE);
    /// A probe arrived with a CE mark.
    pub const PROBE_CE: Event = Event(c::UC_WATCH_PROBE_CE);
    /// A probe arrived unmarked, but late behind another of its flow: counted as marked.
    pub const PROBE_SLOW: Event = Event(c::UC_WATCH_PROBE_SLOW);
    /// A probe arrived with a wrong length.
    pub const TRUNCATED: Event = Event(c::UC_WATCH_TRUNCATED);
    /// A probe whose numbers contradict each other.
    pub const UNKNOWN: Event = Event(c::UC_WATCH_UNKNOWN);
    /// A probe arrived whose authentication tag is wrong.
    pub const FORGED: Event = Event(c::UC_WATCH_FORGED);
    /// A probe arrived whose time is too far from this host's clock.
    pub const LATE: Event = Event(c::UC_WATCH_LATE);
    /// A probe arrived that had been counted already.
    pub const REPLAYED: Event = Event(c::UC_WATCH_REPLAYED);
    /// The programs' table had no room for a flow.
    pub const TABLE_FULL: Event = Event(c::UC_WATCH_TABLE_FULL);
    /// A handshake that had waited was sent once more.
    pub const SENT_ALREADY: Event = Event(c::UC_WATCH_SENT_ALREADY);

    /// Returns every kind, in the order of the programs.
    pub fn all() -> impl Iterator<Item = Event> {
        (0..c::UC_WATCH_EVENT_COUNT).map(Event)
    }

    /// Returns the kind's name in records and JSON.
    pub fn label(self) -> &'static str {
        // SAFETY: the C side returns a pointer to a string literal for every number.
        text(unsafe { CStr::from_ptr(c::uc_shim_watch_event_label(self.0)) })
    }

    /// Returns what happened, for the reader of a table.
    pub fn meaning(self) -> &'static str {
        // SAFETY: the C side returns a pointer to a string literal for every number.
        text(unsafe { CStr::from_ptr(c::uc_shim_watch_event_meaning(self.0)) })
    }
}

fn text(literal: &'static CStr) -> &'static str {
    literal.to_str().unwrap_or("not UTF-8")
}

/// All counts at one moment, all ports and CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(BTreeMap<Event, u64>);

impl Events {
    /// Returns the number of events of this kind.
    pub fn get(&self, event: Event) -> u64 {
        self.0.get(&event).copied().unwrap_or(0)
    }

    /// Returns all kinds with their counts, zeroes too.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        self.0.iter().map(|(event, count)| (*event, *count))
    }
}

impl Programs {
    /// Reads the counts.
    ///
    /// # Errors
    /// [`WatchError::Kernel`] with the kernel's answer.
    pub fn events(&self) -> Result<Events, WatchError> {
        let mut events = BTreeMap::new();
        for event in Event::all() {
            let per_cpu = self
                .maps
                .events
                .lookup_percpu(&event.0.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| WatchError::libbpf("read the watch's counts", &error))?;
            let count = per_cpu
                .into_iter()
                .flatten()
                .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)))
                .sum();
            events.insert(event, count);
        }
        Ok(Events(events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_event_of_the_programs_has_a_label_and_a_meaning_of_its_own() {
        let labels: BTreeSet<_> = Event::all().map(Event::label).collect();
        let meanings: BTreeSet<_> = Event::all().map(Event::meaning).collect();
        assert_eq!(labels.len(), c::UC_WATCH_EVENT_COUNT as usize);
        assert_eq!(meanings.len(), c::UC_WATCH_EVENT_COUNT as usize);
    }
}
