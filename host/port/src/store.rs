//! What is pinned in bpffs: programs, maps and links. A pinned port stays attached when the process
//! that attached it is gone, and the next process finds everything again.
//!
//! ```text
//! /sys/fs/bpf/undercurrent/
//!   maps-<layout>/                        the maps: what is known of ports and flows
//!   programs-<number>-<layout>-<build>/   the programs that work on them, one version
//!   port-<ifindex>-from_guest, …-to_guest the TCX links (a clsact filter needs no pin)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::Flock;
use uc_files::wait_for_lock;

use crate::attach::{AttachVia, Link, clsact_filters, detach_clsact};
use crate::carried::Upgrade;
use crate::direction::Direction;
use crate::error::PortError;
use crate::interfaces::{interface_index, interfaces};
use crate::links::Whereabouts;
use crate::object::{ProgramObject, check_plan_laws};
use crate::order::Order;
use crate::plans::check_plan;
use crate::ports::PORTS_MAX;
use crate::programs::Programs;
use crate::rcu::Expedited;
use uc_core::LawRow;
use uc_law::PortPlan;

/// Longest wait for the lock, less than the agent's watchdog allows between two of its beats. Attaching
/// a thousand ports takes seconds.
const LOCK_MOST: Duration = Duration::from_secs(10);

/// The folder in which one installation pins its programs and maps.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) folder: PathBuf,
    /// The object that programs are loaded from.
    pub(crate) object: ProgramObject,
}

/// A port whose programs are pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Interface index of the port.
    pub ifindex: u32,
    /// Interface name; `None` if the interface is in another network namespace.
    pub name: Option<String>,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            folder: PathBuf::from("/sys/fs/bpf/undercurrent"),
            object: ProgramObject::default(),
        }
    }
}

impl Store {
    /// Returns the path of the folder of pins.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates a store in another folder, which must be in a BPF file system: for tests, and for several installations
    /// on one host.
    pub fn at(folder: impl Into<PathBuf>) -> Store {
        Store {
            folder: folder.into(),
            ..Store::default()
        }
    }

    /// Returns the store with another object to load programs from, in place of this build's own.
    pub fn with_object(self, object: ProgramObject) -> Store {
        Store { object, ..self }
    }

    /// Returns the laws from outside the tree that the pinned programs have; none if nothing is pinned.
    ///
    /// # Errors
    /// The kernel's refusal to list the pins.
    pub fn laws(&self) -> Result<Vec<LawRow>, PortError> {
        let version = self.version()?;
        version.map_or_else(|| Ok(Vec::new()), |version| self.laws_of(&version))
    }

    /// Takes the lock of the processes that attach and detach; waits up to 10 s for it. Take it before
    /// [`Store::open`], and keep it until you have attached or detached: two processes that pin at once would take
    /// each other's pins for their own.
    ///
    /// # Errors
    /// [`PortError::File`] if another process holds the lock all that time; the system's.
    pub fn lock(&self) -> Result<Flock<File>, PortError> {
        let name = format!("pins-{:x}.lock", self.device()?);
        Ok(wait_for_lock(&name, LOCK_MOST)?)
    }

    /// Returns the number of the file system that the store is in.
    pub(crate) fn device(&self) -> Result<u64, PortError> {
        let parent = self.parent()?;
        let found = parent.metadata().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.no_bpffs(),
            _ => PortError::from_kernel(format!("look at {}", parent.display()), error),
        })?;
        Ok(found.dev())
    }

    /// Reopens the pinned programs and maps; `None` if nothing is pinned.
    ///
    /// # Errors
    /// If the pins are of a version whose maps this build can't read; the kernel's refusal.
    pub fn open(&self) -> Result<Option<Programs>, PortError> {
        match self.version()? {
            None => Ok(None),
            Some(version) if version.is_own_layout() => self.open_version(&version).map(Some),
            Some(_) => Err(self.other_version()),
        }
    }

    /// Reopens the pinned programs after removing what no port needs, or loads and pins new ones. If this build can't
    /// read the pinned maps, or the store's object has laws from outside the tree and the pinned programs come from
    /// another file, all ports get the programs of the store's object ([`Store::upgrade`]). The caller must hold
    /// [`Store::lock`].
    pub fn open_or_load(&self, flows_max: u32) -> Result<(Programs, Upgrade), PortError> {
        self.check_bpffs()?;
        let has_laws = !self.object.laws().is_empty();
        let is_other = self.version()?.is_some_and(|version| {
            !version.is_own_layout() || has_laws && !version.is_of(&self.object)
        });
        if !is_other && let Some(programs) = self.open_tidy()? {
            return Ok((programs, Upgrade::Current));
        }
        self.upgrade(&BTreeMap::new(), flows_max, false)
    }

    /// Attaches these ports, all with one plan, to the pinned programs or to new ones, and pins their links: the ports
    /// stay attached when the process ends. Attaches all of them or none. Waits for [`Store::lock`]. Returns what
    /// happened to the programs that were pinned before.
    pub fn attach_all(
        &self,
        names: &[String],
        plan: &PortPlan,
        via: AttachVia,
        flows_max: u32,
    ) -> Result<Upgrade, PortError> {
        for name in names {
            interface_index(name)?;
        }
        self.check_bpffs()?;
        let _turn = self.lock()?;
        // before the ports of others are given other programs
        for name in names.iter().filter(|_| !self.object.laws().is_empty()) {
            if self.is_attached(interface_index(name)?)? {
                return Err(PortError::AlreadyAttached { name: name.clone() });
            }
        }
        let (programs, upgrade) = self.open_or_load(flows_max)?;
        match self.attach_each(&programs, names, plan, via) {
            Err(error) if self.attached(&programs)?.is_empty() => {
                self.keep_version(None)?;
                Err(error)
            }
            Err(error) => Err(error.after(&upgrade)),
            Ok(()) => Ok(upgrade),
        }
    }

    /// Attaches all of these ports, or none.
    fn attach_each(
        &self,
        programs: &Programs,
        names: &[String],
        plan: &PortPlan,
        via: AttachVia,
    ) -> Result<(), PortError> {
        check_plan_laws(plan, &programs.laws())?;
        for (done, name) in names.iter().enumerate() {
            if let Err(error) = self.attach(programs, name, plan, via) {
                self.detach_all(programs, &names[..done])?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Attaches a port and pins its links, so that it stays attached when the process ends. Returns the index of its
    /// interface. After an error nothing of the port is attached, unless it was before. The caller must hold
    /// [`Store::lock`].
    pub fn attach(
        &self,
        programs: &Programs,
        name: &str,
        plan: &PortPlan,
        via: AttachVia,
    ) -> Result<u32, PortError> {
        let ifindex = interface_index(name)?;
        let leaves = programs.leaving()?.contains(&ifindex);
        if self.is_attached(ifindex)? && !leaves {
            return Err(PortError::AlreadyAttached {
                name: name.to_owned(),
            });
        }
        let plans = BTreeMap::from([(ifindex, plan.clone())]);
        match self.attach_indices(programs, &plans, via)?.pop_first() {
            None => Ok(ifindex),
            Some((_, error)) => Err(error),
        }
    }

    /// Attaches many ports, by the indices of their interfaces. Returns the ports that could not be attached, each
    /// with the reason; nothing of them stays attached. A port whose plan is too long, or for which there is no room,
    /// does not affect the others. If a port of another network namespace has the same index, that port keeps its
    /// programs. If a port is attached already, only its plan is set. The caller must hold [`Store::lock`].
    ///
    /// # Errors
    /// What keeps all of them from being attached.
    pub fn attach_indices(
        &self,
        programs: &Programs,
        plans: &BTreeMap<u32, PortPlan>,
        via: AttachVia,
    ) -> Result<BTreeMap<u32, PortError>, PortError> {
        let mut plans = plans.clone();
        let mut failed = BTreeMap::new();
        for (&ifindex, plan) in &plans {
            // The programs know ports by index alone, and would take both for one.
            let is_taken = self.whereabouts(ifindex)? == Whereabouts::Elsewhere;
            let refusal = match is_taken {
                true => Err(PortError::IndexTaken {
                    ifindex,
                    folder: self.folder.clone(),
                }),
                false => check_plan(ifindex, plan),
            };
            failed.extend(refusal.err().map(|error| (ifindex, error)));
        }
        plans.retain(|ifindex, _| !failed.contains_key(ifindex));
        let mut missing = BTreeSet::new();
        for &ifindex in plans.keys() {
            if !self.is_attached(ifindex)? {
                missing.insert(ifindex);
            }
        }
        // Of an older port of the same index, which was deleted.
        self.let_go(programs, &missing)?;
        let room = PORTS_MAX.saturating_sub(programs.port_states()?.len());
        if let Some(&first) = missing.iter().nth(room) {
            for ifindex in missing.split_off(&first) {
                plans.remove(&ifindex);
                failed.insert(ifindex, PortError::TooManyPorts);
            }
        }
        programs.add_plans(&plans)?;
        let _short = Expedited::for_ports(missing.len());
        for ifindex in missing {
            if let Err(error) = self.link(programs, ifindex, via, order_of(&plans[&ifindex])) {
                failed.insert(ifindex, error);
            }
        }
        let of_here = |error: &PortError| !matches!(error, PortError::IndexTaken { .. });
        let left = failed.iter().filter(|(_, error)| of_here(error));
        self.let_go(programs, &left.map(|(ifindex, _)| *ifindex).collect())?;
        Ok(failed)
    }

    /// Puts a port's programs before or after those of others, as its plan says. Flows stay; packets that pass
    /// meanwhile are not translated. The caller must hold [`Store::lock`].
    ///
    /// # Errors
    /// The kernel's refusal; the port is detached then.
    pub fn replace(
        &self,
        programs: &Programs,
        ifindex: u32,
        plan: &PortPlan,
    ) -> Result<(), PortError> {
        let via = match self.linked()?.contains(&ifindex) {
            true => AttachVia::Tcx,
            false => AttachVia::Clsact,
        };
        self.remove_links(ifindex)?;
        detach_clsact(ifindex)?;
        self.link(programs, ifindex, via, order_of(plan))
    }

    /// Resets the record of a port's hooks ([`Programs::reset_hooks`]). A hook at which others' programs run before
    /// ours, or for which the kernel does not tell, is not trusted.
    pub(crate) fn begin_hooks(&self, programs: &Programs, ifindex: u32) -> Result<(), PortError> {
        programs.reset_hooks(ifindex, |direction| {
            let ahead = self.ahead(ifindex, direction);
            ahead.is_ok_and(|ahead| ahead.is_empty())
        })
    }

    fn link(
        &self,
        programs: &Programs,
        ifindex: u32,
        via: AttachVia,
        order: Order,
    ) -> Result<(), PortError> {
        programs.reset_hooks(ifindex, |_| false)?;
        let mut links = programs.attach_in(ifindex, via, order)?;
        for (direction, link) in [
            (Direction::FromGuest, &links.from_guest),
            (Direction::ToGuest, &links.to_guest),
        ] {
            if let Link::Tcx(fd) = link {
                self.pin(fd.as_fd(), &self.link_path(ifindex, direction))?;
            }
        }
        for link in [&mut links.from_guest, &mut links.to_guest] {
            if let Link::Clsact(filter) = link {
                filter.keep();
            }
        }
        self.begin_hooks(programs, ifindex)
    }

    /// Detaches these ports, or none if one of them is not attached. If no port is left, removes the maps and
    /// programs, too.
    pub fn detach_all(&self, programs: &Programs, names: &[String]) -> Result<(), PortError> {
        self.detach_indices(programs, &self.indices(names)?)
    }

    /// Returns the indices of these ports.
    ///
    /// # Errors
    /// [`PortError::NotAttached`] names the first that is not attached.
    pub(crate) fn indices(&self, names: &[String]) -> Result<BTreeSet<u32>, PortError> {
        let attached_index = |name: &String| {
            let ifindex = interface_index(name)?;
            if self.is_attached(ifindex)? {
                Ok(ifindex)
            } else {
                Err(PortError::NotAttached { name: name.clone() })
            }
        };
        names.iter().map(attached_index).collect()
    }

    /// Detaches ports by index, also those whose interfaces no longer exist. If no port is left, removes the maps and
    /// programs, too.
    pub fn detach_indices(
        &self,
        programs: &Programs,
        ports: &BTreeSet<u32>,
    ) -> Result<(), PortError> {
        self.let_go(programs, ports)?;
        if self.attached(programs)?.is_empty() {
            self.keep_version(None)?;
        }
        Ok(())
    }

    /// Returns the ports that are attached to these programs.
    pub fn attached(&self, programs: &Programs) -> Result<Vec<Attached>, PortError> {
        let names = interfaces()?;
        let mut known = self.linked()?;
        known.extend(programs.port_states()?.into_keys());
        self.ports_of(&known, &names)
    }

    /// Returns the interface as an attached port; `None` if it is not attached.
    pub(crate) fn port(
        &self,
        ifindex: u32,
        names: &BTreeMap<u32, String>,
    ) -> Result<Option<Attached>, PortError> {
        let is_here = match self.whereabouts(ifindex)? {
            Whereabouts::Here => true,
            Whereabouts::Elsewhere => false,
            Whereabouts::Gone if clsact_filters(ifindex)? == 2 => true,
            Whereabouts::Gone => return Ok(None),
        };
        Ok(Some(Attached {
            ifindex,
            name: names.get(&ifindex).filter(|_| is_here).cloned(),
        }))
    }

    /// Returns whether the interface with this index, in this network namespace, is attached.
    fn is_attached(&self, ifindex: u32) -> Result<bool, PortError> {
        Ok(self.whereabouts(ifindex)? == Whereabouts::Here || clsact_filters(ifindex)? == 2)
    }

    pub(crate) fn link_path(&self, ifindex: u32, direction: Direction) -> PathBuf {
        self.folder
            .join(format!("port-{ifindex}-{}", direction.label()))
    }

    pub(crate) fn action(&self, verb: &str) -> String {
        format!("{verb} {}", self.folder.display())
    }
}

fn order_of(plan: &PortPlan) -> Order {
    match plan.after_others {
        true => Order::PortLast,
        false => Order::Port,
    }
}
