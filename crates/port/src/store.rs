//! What is pinned in bpffs: programs, maps and links. A pinned port stays attached when the process
//! that attached it is gone, and the next process finds everything again.
//!
//! ```text
//! /sys/fs/bpf/undercurrent/
//!   flows policies reasons places hand    the maps, and those of law `coupled`
//!   from_guest to_guest                   the programs
//!   port-<ifindex>-from_guest, …-to_guest the TCX links (a clsact filter needs no pin)
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use libbpf_rs::{MapCore, MapHandle, Program};
use nix::fcntl::{Flock, FlockArg};

use crate::attach::{AttachVia, Direction, Link};
use crate::coupling::PortPolicy;
use crate::error::PortError;
use crate::interfaces::{interface_index, interfaces};
use crate::programs::{MAPS, Programs, silence_libbpf};

/// The folder of one installation's pins.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) folder: PathBuf,
}

/// A port that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Interface index.
    pub ifindex: u32,
    /// Interface name, if the interface still exists here.
    pub name: Option<String>,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            folder: PathBuf::from("/sys/fs/bpf/undercurrent"),
        }
    }
}

impl Store {
    /// A store elsewhere (tests; several installations on one host). Must be in a bpffs.
    pub fn at(folder: impl Into<PathBuf>) -> Store {
        Store {
            folder: folder.into(),
        }
    }

    /// Waits until no other process attaches or detaches; hold the answer from [`Store::open`] on
    /// while doing either. Two that pin at once would take each other's pins for their own.
    pub fn lock(&self) -> Result<Flock<File>, PortError> {
        let parent = self.parent()?;
        let opened = File::open(parent).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.no_bpffs(),
            _ => PortError::from_kernel(format!("open {}", parent.display()), error),
        })?;
        Flock::lock(opened, FlockArg::LockExclusive).map_err(|(_, errno)| {
            PortError::from_kernel(format!("lock {}", parent.display()), errno.into())
        })
    }

    /// Reopens what is pinned; `None` if nothing is.
    pub fn open(&self) -> Result<Option<Programs>, PortError> {
        let last = self.program_path(Direction::ToGuest);
        match last.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // The file system, or the folder, may be closed to everybody but root.
            Err(error) => return Err(PortError::from_kernel(self.action("look into"), error)),
        }
        silence_libbpf();
        let failed = |error| PortError::from_libbpf(self.action("reopen the pins in"), &error);
        let program = |direction: Direction| {
            Program::fd_from_pinned_path(self.program_path(direction)).map_err(failed)
        };
        let map = |name: &str| MapHandle::from_pinned_path(self.folder.join(name)).map_err(failed);
        let maps: Vec<MapHandle> = MAPS.into_iter().map(map).collect::<Result<_, _>>()?;
        let maps = maps.try_into().map_err(|_| self.no_bpffs())?;
        Ok(Some(Programs::from_parts(
            program(Direction::FromGuest)?,
            program(Direction::ToGuest)?,
            maps,
        )))
    }

    /// Reopens what is pinned and of use to a port, or loads and pins it. Under [`Store::lock`].
    pub fn open_or_load(&self, flows_max: u32) -> Result<Programs, PortError> {
        self.check_bpffs()?;
        if let Some(programs) = self.open_tidy()? {
            return Ok(programs);
        }
        let mut programs = Programs::load(flows_max)?;
        // What an attach pinned that was killed before it was whole.
        self.remove_shared();
        fs::create_dir_all(&self.folder)
            .map_err(|error| PortError::from_kernel(self.action("make"), error))?;
        let pinned = self.pin_all(&mut programs);
        if pinned.is_err() {
            self.remove_shared();
        }
        pinned.map(|()| programs)
    }

    fn pin_all(&self, programs: &mut Programs) -> Result<(), PortError> {
        for (name, map) in MAPS.into_iter().zip(programs.maps_mut()) {
            map.pin(self.folder.join(name))
                .map_err(|error| PortError::from_libbpf(self.action("pin maps in"), &error))?;
        }
        // The program that open() looks for comes last: a store is whole or not there.
        for direction in Direction::BOTH {
            self.pin(programs.program(direction), &self.program_path(direction))?;
        }
        Ok(())
    }

    /// Attaches these ports for good, with the programs that are pinned or fresh ones. All or
    /// none.
    pub fn attach_all(
        &self,
        names: &[String],
        policy: &PortPolicy,
        via: AttachVia,
        flows_max: u32,
    ) -> Result<(), PortError> {
        for name in names {
            interface_index(name)?;
        }
        self.check_bpffs()?;
        let _turn = self.lock()?;
        let programs = self.open_or_load(flows_max)?;
        for (done, name) in names.iter().enumerate() {
            if let Err(error) = self.attach(&programs, name, policy, via) {
                self.detach_all(&programs, &names[..done])?;
                if self.attached(&programs)?.is_empty() {
                    self.remove_shared();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Attaches a port for good. All or nothing.
    pub fn attach(
        &self,
        programs: &Programs,
        name: &str,
        policy: &PortPolicy,
        via: AttachVia,
    ) -> Result<u32, PortError> {
        let ifindex = interface_index(name)?;
        if self.is_attached(programs, ifindex) {
            return Err(PortError::AlreadyAttached {
                name: name.to_owned(),
            });
        }
        programs.set_port(ifindex, policy)?;
        let links = programs.attach(ifindex, via).and_then(|mut links| {
            for (direction, link) in [
                (Direction::FromGuest, &mut links.from_guest),
                (Direction::ToGuest, &mut links.to_guest),
            ] {
                if let Link::Tcx(fd) = link {
                    self.pin(fd.as_fd(), &self.link_path(ifindex, direction))?;
                }
            }
            Ok(links)
        });
        match links {
            Ok(mut links) => {
                for link in [&mut links.from_guest, &mut links.to_guest] {
                    if let Link::Clsact(filter) = link {
                        filter.keep();
                    }
                }
                Ok(ifindex)
            }
            Err(error) => {
                self.remove_links(ifindex);
                programs.clear_policy(ifindex)?;
                Err(error)
            }
        }
    }

    /// Detaches these ports, or none if one of them is not attached. When they were the last, the
    /// maps and programs go too.
    pub fn detach_all(&self, programs: &Programs, names: &[String]) -> Result<(), PortError> {
        let attached_index = |name: &String| {
            let ifindex = interface_index(name)?;
            if self.is_attached(programs, ifindex) {
                Ok(ifindex)
            } else {
                Err(PortError::NotAttached { name: name.clone() })
            }
        };
        let indices: Vec<u32> = names.iter().map(attached_index).collect::<Result<_, _>>()?;
        indices
            .into_iter()
            .try_for_each(|ifindex| self.detach_index(programs, ifindex))
    }

    /// Detaches one port by index, for interfaces that no longer exist.
    pub fn detach_index(&self, programs: &Programs, ifindex: u32) -> Result<(), PortError> {
        self.remove_links(ifindex);
        programs.detach_clsact(ifindex);
        programs.clear_policy(ifindex)?;
        programs.forget_flows(ifindex)?;
        if self.attached(programs)?.is_empty() {
            self.remove_shared();
        }
        Ok(())
    }

    /// The ports that are attached.
    pub fn attached(&self, programs: &Programs) -> Result<Vec<Attached>, PortError> {
        let names = interfaces();
        let mut ports: Vec<Attached> = programs
            .policies
            .keys()
            .filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?)))
            .filter(|ifindex| self.is_attached(programs, *ifindex))
            .map(|ifindex| Attached {
                ifindex,
                name: names.get(&ifindex).cloned(),
            })
            .collect();
        ports.sort_by_key(|port| port.ifindex);
        Ok(ports)
    }

    fn is_attached(&self, programs: &Programs, ifindex: u32) -> bool {
        self.link_path(ifindex, Direction::FromGuest).exists() || programs.has_clsact(ifindex)
    }

    pub(crate) fn program_path(&self, direction: Direction) -> PathBuf {
        self.folder.join(direction.label())
    }

    pub(crate) fn link_path(&self, ifindex: u32, direction: Direction) -> PathBuf {
        self.folder
            .join(format!("port-{ifindex}-{}", direction.label()))
    }

    pub(crate) fn action(&self, verb: &str) -> String {
        format!("{verb} {}", self.folder.display())
    }
}
