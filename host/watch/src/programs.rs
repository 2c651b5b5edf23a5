//! The watch programs and their maps in the kernel.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::time::ClockId;
use uc_core::rule::Prefix;
use uc_files::claim_port;
use uc_law::StartSettings;
use uc_port::{AttachVia, Direction, Link, Loaded, Order, PortError, attach_program, draw_mark};
use zerocopy::{FromBytes, IntoBytes};

use crate::clock::{clock_ns, now_ns};
use crate::error::WatchError;
use crate::key::ProbeKeys;
use crate::layout::{
    uc_held, uc_key, uc_watch_allowance, uc_watch_control, uc_watch_port, uc_watch_prefix,
};
use crate::names::{name_if_there, name_of};
use crate::settings::bits;

/// The object that clang made of `bpf/watch/watch.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// The maps, by their names in the object.
#[derive(Debug)]
pub(crate) struct Maps {
    pub watched: MapHandle,
    pub allowances: MapHandle,
    pub control: MapHandle,
    pub peers: MapHandle,
    pub held: MapHandle,
    pub notices: MapHandle,
    pub starts: MapHandle,
    pub paths: MapHandle,
    pub events: MapHandle,
}

/// The programs and maps, held by file descriptor. They live while any descriptor or link of them
/// does.
#[derive(Debug)]
pub struct Programs {
    from_guest: OwnedFd,
    to_guest: OwnedFd,
    pub(crate) maps: Maps,
    /// Mark (`skb->mark`) of frames that user space sends; never 0.
    pub(crate) mark: u32,
    pub(crate) keys: ProbeKeys,
    /// Whether a granter answers: then each first window waits for its answer.
    pub(crate) granted: AtomicBool,
}

/// A port with both programs attached. Dropping it detaches them.
#[derive(Debug)]
pub struct Watched {
    ifindex: u32,
    _claim: File,
    _from_guest: Link,
    _to_guest: Link,
}

impl Watched {
    /// Returns whether the interface is gone; another one of the same name is not watched.
    pub fn is_gone(&self) -> bool {
        name_if_there(self.ifindex).is_none()
    }
}

impl Programs {
    /// Loads both programs. Nothing is probed or changed before a port is watched, and nothing is
    /// held before a holder runs.
    ///
    /// # Errors
    /// The kernel's refusal; [`uc_port::PortError`] has the usual reasons.
    pub fn load(keys: impl Into<ProbeKeys>) -> Result<Programs, WatchError> {
        let object = Loaded::load("load the watch programs", OBJECT, |_| Ok(()))?;
        let map = |name| object.map(name);
        let programs = Programs {
            from_guest: object.program("uc_watch_from_guest_port")?,
            to_guest: object.program("uc_watch_to_guest_port")?,
            maps: Maps {
                watched: map("watched")?,
                allowances: map("allowances")?,
                control: map("control")?,
                peers: map("peers")?,
                held: map("held")?,
                notices: map("notices")?,
                starts: map("starts")?,
                paths: map("paths")?,
                events: map("watch_events")?,
            },
            mark: draw_mark()?,
            keys: keys.into(),
            granted: AtomicBool::new(false),
        };
        programs.be_alive(0)?;
        Ok(programs)
    }

    /// Adds addresses of guests whose hosts watch too: only handshakes with such addresses are
    /// watched.
    ///
    /// # Errors
    /// [`WatchError::Kernel`]: the kernel has room for 1,024 prefixes.
    pub fn add_peer(&self, prefix: Prefix) -> Result<(), WatchError> {
        let (address, bits) = prefix.mapped();
        let key = uc_watch_prefix {
            bits: bits.into(),
            address: address.octets(),
        };
        self.maps
            .peers
            .update(key.as_bytes(), &[1], MapFlags::ANY)
            .map_err(|error| WatchError::libbpf("add a prefix of peers", &error))
    }

    /// Watches the interface with this index in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`WatchError::AlreadyWatched`] if another process watches the port; the kernel's refusal.
    pub fn watch(
        &self,
        ifindex: u32,
        settings: &StartSettings,
        via: AttachVia,
    ) -> Result<Watched, WatchError> {
        let claim = claim_port("watch", ifindex).map_err(PortError::from)?;
        let claim = claim.ok_or_else(|| WatchError::AlreadyWatched {
            name: name_of(ifindex),
        })?;
        let allowance = uc_watch_allowance {
            tokens: settings.burst,
            ..uc_watch_allowance::default()
        };
        let added = self.maps.allowances.update(
            &ifindex.to_ne_bytes(),
            allowance.as_bytes(),
            MapFlags::ANY,
        );
        added.map_err(|error| set_up(ifindex, &error))?;
        self.set(ifindex, settings)?;
        let attach = |program: &OwnedFd, direction| {
            let order = Order::BeforePort;
            attach_program(program.as_fd(), ifindex, direction, via, order)
        };
        Ok(Watched {
            ifindex,
            _claim: claim,
            _to_guest: attach(&self.to_guest, Direction::ToGuest)?,
            _from_guest: attach(&self.from_guest, Direction::FromGuest)?,
        })
    }

    /// Changes the settings of a watched port, for flows that start from now on.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set(&self, ifindex: u32, settings: &StartSettings) -> Result<(), WatchError> {
        let port = uc_watch_port {
            policy: settings.policy,
            per_second: settings.per_second,
            burst: settings.burst,
            sends: bits(settings.sends),
            receives: bits(settings.receives),
            pad: [0; 6],
        };
        let (key, watched) = (ifindex.to_ne_bytes(), &self.maps.watched);
        let set = watched.update(&key, port.as_bytes(), MapFlags::ANY);
        set.map_err(|error| set_up(ifindex, &error))
    }

    /// Makes handshakes of a port pass from now on, and removes its settings.
    pub fn forget(&self, ifindex: u32) {
        for map in [&self.maps.watched, &self.maps.allowances] {
            let _gone_already = map.delete(&ifindex.to_ne_bytes());
        }
    }

    /// Tells the programs once that a holder is alive for `for_ns`, and the wall-clock time;
    /// [`crate::Holder`] repeats this. 0: no handshake is held from now on. The time is written all
    /// the same, since other hosts' probes arrive with or without a holder.
    ///
    /// # Errors
    /// [`WatchError::Kernel`] with the kernel's error.
    pub fn be_alive(&self, for_ns: u64) -> Result<(), WatchError> {
        let now_ns = now_ns();
        let wall_ns = clock_ns(ClockId::CLOCK_REALTIME);
        let control = uc_watch_control {
            alive_until_ns: if for_ns == 0 { 0 } else { now_ns + for_ns },
            wall_offset_ns: wall_ns.wrapping_sub(now_ns),
            key: self.keys.own.0,
            also: self.keys.also.map_or_else(Default::default, |key| key.0),
            mark: self.mark,
            granted: self.granted.load(Ordering::Relaxed).into(),
            pad: [0; 3],
        };
        self.maps
            .control
            .update(&0u32.to_ne_bytes(), control.as_bytes(), MapFlags::ANY)
            .map_err(|error| {
                WatchError::libbpf("write the control map of the watch programs", &error)
            })
    }

    /// Returns the time until which a holder was last reported alive, in ns of `CLOCK_MONOTONIC`; 0: no holder is
    /// alive.
    pub(crate) fn alive_until_ns(&self) -> u64 {
        let control = self
            .maps
            .control
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .ok()
            .flatten();
        // The first field of the struct.
        control
            .and_then(|bytes| bytes.get(..8)?.try_into().ok())
            .map_or(0, u64::from_ne_bytes)
    }

    /// Reads the handshake that waits under this key; `None` if none waits.
    pub(crate) fn held(&self, key: &[u8]) -> Option<uc_held> {
        let bytes = self.maps.held.lookup(key, MapFlags::ANY).ok().flatten()?;
        uc_held::read_from_bytes(&bytes).ok()
    }

    /// Removes the handshake that waits under this key.
    pub(crate) fn forget_held(&self, key: &[u8]) {
        // Another process may have removed it first.
        let _gone_already = self.maps.held.delete(key);
    }

    /// Returns the keys of the flows that are starting.
    pub fn starts(&self) -> Vec<Vec<u8>> {
        self.maps.starts.keys().collect()
    }

    /// Returns the keys of the paths that have records.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        self.maps.paths.keys().collect()
    }

    /// Returns the maximum number of flows that can be starting at one time.
    pub fn starts_max(&self) -> u32 {
        self.maps.starts.max_entries()
    }

    /// Returns the program for one direction.
    pub fn program(&self, direction: Direction) -> BorrowedFd<'_> {
        match direction {
            Direction::FromGuest => self.from_guest.as_fd(),
            Direction::ToGuest => self.to_guest.as_fd(),
        }
    }
}

fn set_up(ifindex: u32, error: &libbpf_rs::Error) -> WatchError {
    WatchError::libbpf(format!("set up the watch on {}", name_of(ifindex)), error)
}

/// Returns the interface index of the port in a key of the table of waiting handshakes.
pub(crate) fn port_of(key: &[u8]) -> u32 {
    let at = std::mem::offset_of!(uc_key, ifindex);
    key.get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}
