//! The hold's programs and maps in the kernel. They are gone when this process ends, however it ends: no
//! link is pinned.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use uc_port::{
    AttachVia, Direction, KernelError, Link, Loaded, Order, PortError, attach_program, behind,
    now_ns,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::HoldError;
use crate::layout::{uc_hold_control, uc_hold_passed, uc_hold_port};
use crate::table::Table;
use crate::wire::Own;

/// The object that clang made of `bpf/hold/hold.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hold.bpf.o"));

/// Divisor of a port's memory that gives the size of its ring, before rounding down to a power of two. The
/// ring must have room for the packets that arrive until the process runs: some milliseconds on a busy
/// machine.
const RING_PART: usize = 4;
/// Smallest and largest size of a ring: room for a few super-segments, and for more than arrives while a
/// process waits for its CPU.
const RING_BYTES_MIN: usize = 1 << 20;
const RING_BYTES_MAX: usize = 64 << 20;

/// Counters of what passed without being held: packets whose flow was held or could have been, and SYNs beyond the
/// number that a port hands over in an interval.
pub type Passed = uc_hold_passed;

/// The programs and maps, held by file descriptor.
#[derive(Debug)]
pub struct Programs {
    gate: OwnedFd,
    to_guest: OwnedFd,
    from_guest: OwnedFd,
    control: MapHandle,
    rings: MapHandle,
    tables: MapHandle,
    ports: MapHandle,
    passed: MapHandle,
}

/// The maps that the programs of one port use.
#[derive(Debug)]
pub struct PortMaps {
    /// The ring in which packets are handed over.
    pub ring: MapHandle,
    /// The flows whose packets are handed over.
    pub table: Table,
}

/// The programs at one port. Dropping it detaches them.
#[derive(Debug)]
pub struct Attached {
    _from_guest: Link,
    _to_guest: Link,
    _gate: Link,
}

impl Programs {
    /// Loads the programs. Nothing is handed over before a port has a ring and [`Programs::be_alive`] was
    /// called.
    ///
    /// # Errors
    /// The kernel's refusal; [`PortError`] has the usual reasons.
    pub fn load() -> Result<Self, HoldError> {
        let object = Loaded::load("load the programs of uc hold", OBJECT, |_| Ok(()))?;
        Ok(Self {
            gate: object.program("uc_hold_gate")?,
            to_guest: object.program("uc_hold_to_guest")?,
            from_guest: object.program("uc_hold_from_guest")?,
            control: object.map("control")?,
            rings: object.map("rings")?,
            tables: object.map("held_flows")?,
            ports: object.map("ports")?,
            passed: object.map("passed")?,
        })
    }

    /// Creates the maps of a port. `port_bytes`: the port's memory; `flows_max`: its maximum number of flows; `own`
    /// identifies the process's sockets at the port. The port's packets are handed over once the programs are
    /// attached.
    pub fn add_port(
        &self,
        ifindex: u32,
        port_bytes: usize,
        flows_max: usize,
        own: &Own,
    ) -> Result<PortMaps, HoldError> {
        let failed = |error| HoldError::libbpf("create the maps of a port", &error);
        let maps = PortMaps {
            ring: create_ring(port_bytes).map_err(failed)?,
            table: Table::create(flows_max)?,
        };
        let key = ifindex.to_ne_bytes();
        let add = |map: &MapHandle, value: &[u8]| map.update(&key, value, MapFlags::ANY);
        add(&self.rings, &number_of(&maps.ring)).map_err(failed)?;
        add(&self.tables, &number_of(maps.table.map())).map_err(failed)?;
        let port = uc_hold_port {
            to_guest_cookie: own.to_guest_cookie,
            to_network_cookie: own.to_network_cookie,
            to_network_mark: own.to_network_mark,
            ..Default::default()
        };
        add(&self.ports, port.as_bytes()).map_err(failed)?;
        Ok(maps)
    }

    /// Makes packets of a port pass. When this returns, no program runs that could still hand one over.
    pub fn pass_at(&self, ifindex: u32) {
        // The kernel waits for programs that have found the ring.
        let _gone_already = self.rings.delete(&ifindex.to_ne_bytes());
    }

    /// Removes a port from the programs' maps. From then on the programs do not recognize the process's own frames at
    /// the port.
    pub fn forget_port(&self, ifindex: u32) {
        for map in [&self.rings, &self.tables, &self.ports] {
            let _gone_already = map.delete(&ifindex.to_ne_bytes());
        }
    }

    /// Attaches the programs to the interface with this index in the calling thread's network namespace.
    ///
    /// # Errors
    /// A kernel without TCX; [`HoldError::Behind`] if something would not see the packets; the kernel's
    /// refusal. Then nothing is attached.
    pub fn attach(&self, ifindex: u32, name: &str) -> Result<Attached, HoldError> {
        let attach = |program: &OwnedFd, direction, order| {
            attach_program(program.as_fd(), ifindex, direction, AttachVia::Tcx, order).map_err(
                |error| match error {
                    PortError::Kernel(KernelError { source, .. })
                        if source.raw_os_error() == Some(libc::EINVAL) =>
                    {
                        HoldError::Refused(format!(
                            "port {name}: this kernel has no TCX, by which the kernel itself takes \
                             a process's programs off when it ends; `uc hold` needs Linux 6.6 or newer"
                        ))
                    }
                    error => error.into(),
                },
            )
        };
        // Packets that are handed over come back through the gate. So the gate is attached first and
        // detached last.
        let attached = Attached {
            _gate: attach(&self.gate, Direction::ToGuest, Order::Gate)?,
            _to_guest: attach(&self.to_guest, Direction::ToGuest, Order::Hold)?,
            _from_guest: attach(&self.from_guest, Direction::FromGuest, Order::Hold)?,
        };
        self.check_last(ifindex, name)?;
        Ok(attached)
    }

    /// Checks that no program runs behind the one that takes packets off the port towards the guest. Such a program
    /// would not see these packets.
    ///
    /// # Errors
    /// [`HoldError::Behind`]; the kernel's refusal.
    pub fn check_last(&self, ifindex: u32, name: &str) -> Result<(), HoldError> {
        match behind(ifindex, Direction::ToGuest, self.to_guest.as_fd())? {
            None => Ok(()),
            Some(other) => Err(HoldError::Behind {
                name: name.into(),
                other: other.to_string(),
            }),
        }
    }

    /// Makes the programs hand packets over for `for_ns` from now on; 0: makes packets pass at once.
    ///
    /// # Errors
    /// [`HoldError::Kernel`] with the kernel's error.
    pub fn be_alive(&self, for_ns: u64) -> Result<(), HoldError> {
        let control = uc_hold_control {
            alive_until_ns: if for_ns == 0 { 0 } else { now_ns() + for_ns },
        };
        self.control
            .update(&0u32.to_ne_bytes(), control.as_bytes(), MapFlags::ANY)
            .map_err(|error| HoldError::libbpf("write the control map of uc hold", &error))
    }

    /// Returns the counters of packets that passed though their flow was held or could have been: the sums of all
    /// CPUs.
    ///
    /// # Errors
    /// [`HoldError::Kernel`] with the kernel's error.
    pub fn passed(&self) -> Result<Passed, HoldError> {
        let of_cpus = self
            .passed
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| HoldError::libbpf("read a counter of uc hold", &error))?;
        let mut all = Passed::default();
        for bytes in of_cpus.iter().flatten() {
            if let Ok((passed, _)) = uc_hold_passed::read_from_prefix(bytes) {
                all.packets += passed.packets;
                all.syns += passed.syns;
            }
        }
        Ok(all)
    }
}

fn create_ring(port_bytes: usize) -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let bytes = ring_bytes(port_bytes) as u32;
    MapHandle::create(MapType::RingBuf, Some("hold_ring"), 0, 0, bytes, &options)
}

/// Returns the descriptor of a map, as a map of maps takes it.
fn number_of(map: &MapHandle) -> [u8; 4] {
    map.as_fd().as_raw_fd().to_ne_bytes()
}

fn ring_bytes(port_bytes: usize) -> usize {
    let part = (port_bytes / RING_PART).clamp(RING_BYTES_MIN, RING_BYTES_MAX);
    1 << part.ilog2()
}

#[cfg(test)]
mod kernel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_a_quarter_of_the_ports_memory_within_its_bounds_and_a_power_of_two() {
        for (port_bytes, bytes) in [
            (0, 1 << 20),
            (64 << 20, 16 << 20),
            (100_000_000, 16 << 20),
            (usize::MAX, 64 << 20),
        ] {
            assert_eq!(ring_bytes(port_bytes), bytes);
        }
    }
}
