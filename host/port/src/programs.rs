//! The programs and maps in the kernel.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use uc_core::LawRow;
use uc_law::RINGS_MAX;
use zerocopy::IntoBytes;

use crate::bytes::value_at;
use crate::direction::Direction;
use crate::error::PortError;
use crate::hash::{self, SET_UP};
use crate::kernel_error::KernelError;
use crate::layout::{
    UC_BUCKETS_PART, UC_HALF_OPEN_PART, uc_asking, uc_bucket, uc_cursor, uc_key, uc_slot, uc_turn,
};
use crate::loaded::Loaded;
use crate::maps::Maps;
use crate::memory::MemoryLimit;
use crate::numbers::LAYOUT;
use crate::object::{ProgramObject, laws_of};

/// Maps with as many entries as the flow table has.
const PER_FLOW: [&str; 2] = ["flows", "vacant"];

/// Divisor of the flow table's capacity that gives the room for peers' SYNs that wait for the guests' answers.
const ASKED_PART: u32 = 10;

/// Divisor of the flow table's capacity that gives the room for members of groups: flows that share windows take two
/// entries of the table.
const MEMBERS_PART: u32 = 2;

/// Minimum number of peers' SYNs for which a host has room: about 1 s of a flood of 16,700 SYNs a second.
const ASKED_LEAST: u32 = 16_384;

/// Kernel memory of a hash map's bucket, in bytes; next line: of an element, besides its key and value.
const HASH_BUCKET: usize = 16;
const HASH_ELEMENT: usize = 48;

/// Kernel memory of an entry of the flow table in bytes, without its events and groups, if the table has 2^n entries:
/// the kernel rounds hash maps' buckets up to a power of two. A flow takes one entry; under a law whose state needs an
/// annex (trait `UC_FAR`), or with a share of a window, two.
pub const FLOW_BYTES: usize = size_of::<uc_slot>()
    + 2 * size_of::<uc_bucket>() / UC_BUCKETS_PART as usize
    + size_of::<u32>() // in `vacant`
    + size_of::<uc_turn>() / UC_HALF_OPEN_PART as usize
    + (HASH_ELEMENT + size_of::<uc_key>() + size_of::<uc_asking>()).div_ceil(ASKED_PART as usize)
    + HASH_BUCKET / (ASKED_PART.next_power_of_two() as usize / 2)
    + HASH_BUCKET / MEMBERS_PART as usize;

/// Kernel memory of a flow's recorded events, in bytes.
pub const EVENTS_BYTES: u64 = 400;

/// Returns the kernel memory, in bytes, of a flow table with `flows` entries and of the recorded events of `events`
/// flows.
pub const fn tables_bytes(flows: u32, events: u32) -> u64 {
    flows as u64 * FLOW_BYTES as u64 + events as u64 * EVENTS_BYTES
}

/// A table with 2^20 entries takes at most 315 MB.
const _: () = assert!(FLOW_BYTES <= 300);

/// Programs that a port's two may tail-call, in the order of `enum uc_callee`.
const TAIL_CALLS: [&str; 5] = [
    "uc_share_port",
    "uc_open_port",
    NOTE,
    "uc_join_port",
    "uc_marked_port",
];

/// The program that records events; not loaded if no flow's events are recorded.
const NOTE: &str = "uc_note_port";

/// The two programs and their maps, held by file descriptor. They live while any descriptor, pin or
/// link of them does.
#[derive(Debug)]
pub struct Programs {
    pub(crate) code: Code,
    pub(crate) maps: Maps,
}

/// One version of the port programs, as they are loaded.
#[derive(Debug)]
pub(crate) struct Code {
    from_guest: OwnedFd,
    to_guest: OwnedFd,
    /// Program that removes stale flows when user space runs it; attached to no port.
    collect: OwnedFd,
    /// Map of the programs that a port's two may tail-call. The kernel empties it when nobody holds it, neither a
    /// process nor a pin.
    pub(crate) tail_calls: MapHandle,
    /// Map with the description of the object's laws from outside the tree; `None` if it has none.
    laws: Option<MapHandle>,
}

impl Programs {
    /// Loads the programs with a flow table of this capacity. Events are recorded for flows in the first [`RINGS_MAX`]
    /// entries. Takes about a second (the verifier).
    pub fn load(flows_max: u32) -> Result<Programs, PortError> {
        Self::load_with(flows_max, RINGS_MAX)
    }

    /// Loads the programs with a flow table of this capacity. Events are recorded for flows in the first `rings_max`
    /// entries; 0: for no flow.
    pub fn load_with(flows_max: u32, rings_max: u32) -> Result<Programs, PortError> {
        Self::load_object(&ProgramObject::default(), flows_max, rings_max)
    }

    /// Loads the programs of an object like [`Programs::load_with`].
    pub fn load_object(
        file: &ProgramObject,
        flows_max: u32,
        rings_max: u32,
    ) -> Result<Programs, PortError> {
        // before, since the kernel frees the memory of a failed attempt some time later
        let limit = MemoryLimit::tightest();
        let rings = rings_max.min(flows_max);
        let object = Loaded::load(LOAD, file.bytes(), |map| {
            if PER_FLOW.map(OsStr::new).contains(&map.name()) {
                map.set_max_entries(flows_max.max(1))?;
            }
            if map.name() == OsStr::new("buckets") {
                map.set_max_entries(2 * hash::pairs(flows_max))?;
            }
            if map.name() == OsStr::new("turns") {
                map.set_max_entries((flows_max / UC_HALF_OPEN_PART).max(1))?;
            }
            if map.name() == OsStr::new("members") {
                map.set_max_entries((flows_max / MEMBERS_PART).max(1))?;
            }
            if map.name() == OsStr::new("asked") {
                map.set_max_entries((flows_max / ASKED_PART).max(ASKED_LEAST))?;
            }
            if map.name() == OsStr::new("events") {
                map.set_max_entries(rings.max(1))?;
            }
            Ok(())
        })
        .map_err(|error| match error {
            PortError::Kernel(KernelError { action, source })
                if source.kind() == io::ErrorKind::OutOfMemory =>
            {
                PortError::NoMemory {
                    action,
                    asked_mb: tables_bytes(flows_max, rings).div_ceil(1 << 20),
                    limit,
                }
            }
            error => error,
        })?;
        let programs = Programs {
            maps: Maps::from_each(|name| object.map(name))?,
            code: Code::of(&object, file, rings_max > 0)?,
        };
        programs.set_up(flows_max.max(1))?;
        Ok(programs)
    }

    /// Loads the programs of an object for existing maps.
    pub(crate) fn load_for(file: &ProgramObject, maps: Maps) -> Result<Programs, PortError> {
        let object = Loaded::load(LOAD, file.bytes(), |map| maps.lend(map))?;
        let code = Code::of(&object, file, maps.events.max_entries() > 1)?;
        Ok(Programs { code, maps })
    }

    /// Writes the capacity of the flow table, the layout of the maps and a new secret into the maps.
    fn set_up(&self, places: u32) -> Result<(), PortError> {
        let cursor = uc_cursor {
            places,
            layout: LAYOUT,
            ..uc_cursor::default()
        };
        let failed = |error| PortError::from_libbpf(SET_UP, &error);
        let secret = hash::draw(places)?;
        for (map, value) in [
            (&self.maps.cursors, cursor.as_bytes()),
            (&self.maps.secrets, secret.as_bytes()),
        ] {
            map.update(&0u32.to_ne_bytes(), value, MapFlags::ANY)
                .map_err(failed)?;
        }
        self.begin_plans()
    }

    /// Returns the program that sees packets of this direction.
    pub fn program(&self, direction: Direction) -> BorrowedFd<'_> {
        self.code.program(direction)
    }

    /// Returns the programs' laws from outside the tree.
    pub fn laws(&self) -> Vec<LawRow> {
        self.code.laws.as_ref().map(laws_in).unwrap_or_default()
    }

    /// Returns the capacity of the flow table.
    pub fn flows_max(&self) -> u32 {
        self.maps.flows.max_entries()
    }

    /// Returns the kernel's memory for all maps, in bytes, as the kernel accounts for it. The flow
    /// table's memory is allocated when it is created, not as flows arrive.
    ///
    /// # Errors
    /// If /proc does not show it.
    pub fn memory_bytes(&self) -> Result<u64, PortError> {
        let each = self.maps.each().into_iter().map(|(_, map)| map);
        each.chain([&self.code.tail_calls]).map(memory_of).sum()
    }

    /// Deletes flows that have been idle so long that they are over, in the whole table; each new
    /// flow does so for a few entries.
    pub fn collect_idle(&self) -> Result<(), PortError> {
        self.run_collect(self.code.collect(), self.flows_max())
    }
}

impl Code {
    fn of(object: &Loaded, file: &ProgramObject, notes: bool) -> Result<Code, PortError> {
        let tail_calls = object.map("tail_calls")?;
        for (index, name) in (0u32..).zip(TAIL_CALLS) {
            if name == NOTE && !notes {
                continue;
            }
            let program = object.program(name)?;
            let number = program.as_raw_fd().to_ne_bytes();
            tail_calls
                .update(&index.to_ne_bytes(), &number, MapFlags::ANY)
                .map_err(|error| PortError::from_libbpf(LOAD, &error))?;
        }
        Ok(Code {
            from_guest: object.program("uc_from_guest_port")?,
            to_guest: object.program("uc_to_guest_port")?,
            collect: object.program("uc_collect_idle")?,
            tail_calls,
            laws: keep_laws(file.about())?,
        })
    }

    /// Assembles a version from programs opened by other means (pins), under the names of
    /// [`Code::each`].
    pub(crate) fn from_parts(
        mut program: impl FnMut(&str) -> Result<OwnedFd, PortError>,
        tail_calls: MapHandle,
        laws: Option<MapHandle>,
    ) -> Result<Code, PortError> {
        Ok(Code {
            from_guest: program(Direction::FromGuest.label())?,
            to_guest: program(Direction::ToGuest.label())?,
            collect: program("collect")?,
            tail_calls,
            laws,
        })
    }

    fn program(&self, direction: Direction) -> BorrowedFd<'_> {
        match direction {
            Direction::FromGuest => self.from_guest.as_fd(),
            Direction::ToGuest => self.to_guest.as_fd(),
        }
    }

    /// Returns the program that removes stale flows, which is attached to no port.
    pub(crate) fn collect(&self) -> BorrowedFd<'_> {
        self.collect.as_fd()
    }

    /// Returns the parts to pin, with their names.
    pub(crate) fn each(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        let laws = self.laws.iter().map(|laws| (LAWS, laws.as_fd()));
        let parts = [
            ("tail_calls", self.tail_calls.as_fd()),
            ("collect", self.collect.as_fd()),
            (Direction::FromGuest.label(), self.from_guest.as_fd()),
            (Direction::ToGuest.label(), self.to_guest.as_fd()),
        ];
        laws.chain(parts).collect()
    }
}

/// Makes a map with the description of an object's laws from outside the tree; `None` if it has none. The programs do
/// not read the map: it is pinned with them, so that later processes find the laws' names.
fn keep_laws(about: &[u8]) -> Result<Option<MapHandle>, PortError> {
    if about.is_empty() {
        return Ok(None);
    }
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let bytes = about.len() as u32;
    let made = MapHandle::create(MapType::Array, Some("uc_laws"), 4, bytes, 1, &options);
    let kept = made.and_then(|map| {
        map.update(&0u32.to_ne_bytes(), about, MapFlags::ANY)?;
        Ok(Some(map))
    });
    kept.map_err(|error| PortError::from_libbpf(LOAD, &error))
}

/// Returns the laws that a map made by [`keep_laws`] describes.
pub(crate) fn laws_in(map: &MapHandle) -> Vec<LawRow> {
    let about = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
    about
        .ok()
        .flatten()
        .map_or_else(Vec::new, |about| laws_of(&about))
}

/// Name of the pin of [`keep_laws`]'s map.
pub(crate) const LAWS: &str = "laws";

const LOAD: &str = "load the port programs";

/// Returns whether maps have the layout of this build; `cursor` is their map `cursors`, which has the layout's number.
pub(crate) fn is_own_layout(cursor: &MapHandle) -> bool {
    let cursor = value_at::<uc_cursor>(cursor, 0).ok().flatten();
    cursor.is_some_and(|cursor| cursor.layout == LAYOUT)
}

/// Returns a map's memory in bytes, from /proc.
fn memory_of(map: &MapHandle) -> Result<u64, PortError> {
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(&path)
        .map_err(|error| PortError::from_kernel(format!("read {path}"), error))?;
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    bytes.ok_or_else(|| {
        let error =
            std::io::Error::other("the kernel's description of a map has no line 'memlock'");
        PortError::from_kernel(format!("read {path}"), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with room for one reason, though the programs count all.
    #[test]
    fn live_a_rejected_program_is_named_with_its_kernel_and_not_as_a_lack_of_permission() {
        if uc_live::or_skip(Programs::load(1)).is_none() {
            return;
        }
        let refused = Loaded::load(LOAD, ProgramObject::default().bytes(), |map| {
            match map.name() == OsStr::new("counts") {
                true => map.set_value_size(8),
                false => Ok(()),
            }
        });
        let error = refused
            .map(drop)
            .expect_err("the verifier must reject a write beyond the value");
        let text = error.to_string();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        for part in [
            release.trim(),
            "verifier rejected program 'uc_",
            "permissions suffice",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("root"), "{text}");
    }
}
