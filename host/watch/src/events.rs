//! What became of handshakes and probes, in numbers.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use crate::error::WatchError;
use crate::layout as c;
use crate::programs::Programs;

/// One kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u32);

impl Event {
    /// A handshake waits in user space.
    pub const HELD: Event = Event(c::UC_EVENT_HELD);
    /// A probe, or what had waited, came from user space.
    pub const INJECTED: Event = Event(c::UC_EVENT_INJECTED);
    /// The other host isn't known to run us.
    pub const NOT_A_PEER: Event = Event(c::UC_EVENT_NOT_A_PEER);
    /// No holder was alive.
    pub const NOBODY: Event = Event(c::UC_EVENT_NOBODY);
    /// The port's guest had too many.
    pub const OVER_RATE: Event = Event(c::UC_EVENT_OVER_RATE);
    /// The path was measured a moment before.
    pub const RECENT: Event = Event(c::UC_EVENT_RECENT);
    /// It waited already.
    pub const REPEATED: Event = Event(c::UC_EVENT_REPEATED);
    /// There was no place to wait in.
    pub const NO_ROOM: Event = Event(c::UC_EVENT_NO_ROOM);
    /// A probe arrived unmarked.
    pub const PROBE: Event = Event(c::UC_EVENT_PROBE);
    /// A probe arrived marked.
    pub const PROBE_CE: Event = Event(c::UC_EVENT_PROBE_CE);
    /// A probe arrived unmarked, but late behind another of its flow: counted as marked.
    pub const PROBE_SLOW: Event = Event(c::UC_EVENT_PROBE_SLOW);
    /// A probe of the wrong length.
    pub const TRUNCATED: Event = Event(c::UC_EVENT_TRUNCATED);
    /// A probe that makes no sense.
    pub const UNKNOWN: Event = Event(c::UC_EVENT_UNKNOWN);
    /// A probe with a wrong tag.
    pub const FORGED: Event = Event(c::UC_EVENT_FORGED);
    /// A probe from another time.
    pub const LATE: Event = Event(c::UC_EVENT_LATE);
    /// A probe that was counted already.
    pub const REPLAYED: Event = Event(c::UC_EVENT_REPLAYED);
    /// No place for a flow.
    pub const TABLE_FULL: Event = Event(c::UC_EVENT_TABLE_FULL);
    /// A window was lowered.
    pub const WINDOW: Event = Event(c::UC_EVENT_WINDOW);
    /// The kernel would not write.
    pub const EDIT_FAILED: Event = Event(c::UC_EVENT_EDIT_FAILED);
    /// What had waited was sent once more.
    pub const SENT_ALREADY: Event = Event(c::UC_EVENT_SENT_ALREADY);

    /// Every kind, in the order of the programs.
    pub fn all() -> impl Iterator<Item = Event> {
        (0..c::UC_EVENT_COUNT).map(Event)
    }

    /// Its name in records and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Event::HELD => "held",
            Event::INJECTED => "injected",
            Event::NOT_A_PEER => "not-a-peer",
            Event::NOBODY => "nobody",
            Event::OVER_RATE => "over-rate",
            Event::RECENT => "recent",
            Event::REPEATED => "repeated",
            Event::NO_ROOM => "no-room",
            Event::PROBE => "probe",
            Event::PROBE_CE => "probe-ce",
            Event::PROBE_SLOW => "probe-slow",
            Event::TRUNCATED => "probe-truncated",
            Event::UNKNOWN => "probe-unknown",
            Event::FORGED => "probe-forged",
            Event::LATE => "probe-late",
            Event::REPLAYED => "probe-replayed",
            Event::TABLE_FULL => "table-full",
            Event::WINDOW => "window",
            Event::EDIT_FAILED => "edit-failed",
            _ => "sent-already",
        }
    }

    /// What happened, for the reader of a table.
    pub fn meaning(self) -> &'static str {
        match self {
            Event::HELD => "handshakes that waited for probes or their turn",
            Event::INJECTED => "probes and handshakes sent by the holder",
            Event::NOT_A_PEER => "handshakes with hosts that aren't known to run us: passed",
            Event::NOBODY => "handshakes while no holder was alive: passed",
            Event::OVER_RATE => "handshakes beyond their port's rate: passed",
            Event::RECENT => "handshakes on paths measured a moment before: passed",
            Event::REPEATED => "copies of handshakes that waited: passed",
            Event::NO_ROOM => "handshakes for which there was no place: passed",
            Event::PROBE => "probes that arrived without a mark",
            Event::PROBE_CE => "probes that arrived marked",
            Event::PROBE_SLOW => "probes that fell behind others of their flow: as if marked",
            Event::TRUNCATED => "probes of the wrong length: dropped",
            Event::UNKNOWN => "probes that make no sense: dropped",
            Event::FORGED => "probes with a wrong tag: dropped",
            Event::LATE => "probes from another time: dropped",
            Event::REPLAYED => {
                "probes that were counted already, or of a connection that is over: dropped"
            }
            Event::TABLE_FULL => "flows for which there was no place: not watched",
            Event::WINDOW => "windows that were lowered",
            Event::EDIT_FAILED => "windows that the kernel would not write",
            _ => "handshakes that were sent once more, after a holder's end: dropped",
        }
    }
}

/// All counts at one moment, all ports and CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(BTreeMap<Event, u64>);

impl Events {
    /// How many of this kind.
    pub fn get(&self, event: Event) -> u64 {
        self.0.get(&event).copied().unwrap_or(0)
    }

    /// All kinds with their numbers, zeroes too.
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
        assert_eq!(labels.len(), c::UC_EVENT_COUNT as usize);
        assert_eq!(meanings.len(), c::UC_EVENT_COUNT as usize);
    }
}
