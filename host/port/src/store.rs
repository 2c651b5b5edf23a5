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

/// The folder of one installation's pins.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) folder: PathBuf,
    /// The object that programs are loaded from.
    pub(crate) object: ProgramObject,
}

/// A port that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The port's interface index.
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
    /// Returns the store's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A store elsewhere (tests; several installations on one host). Must be in a bpffs.
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

    /// Waits until no other process attaches or detaches, for 10 s at most; hold the answer from
    /// [`Store::open`] on while doing either. Two that pin at once would take each other's pins for
    /// their own.
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

    /// Reopens what is pinned; `None` if nothing is.
    pub fn open(&self) -> Result<Option<Programs>, PortError> {
        match self.version()? {
            None => Ok(None),
            Some(version) if version.is_own_layout() => self.open_version(&version).map(Some),
            Some(_) => Err(self.other_version()),
        }
    }

    /// Reopens what is pinned and of use to a port, or loads and pins it. Ports of a version whose
    /// maps can't be read are taken over, and all ports if the store's object has laws from outside
    /// that come from another file. Under [`Store::lock`].
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

    /// Attaches these ports for good, all by one plan, with the programs that are pinned or fresh
    /// ones. All or none. Returns what became of the pinned ones.
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

    /// Attaches a port for good. All or nothing.
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

    /// Attaches many ports, by the indices of their interfaces, under [`Store::lock`]. Answers
    /// which could not be, and why; of those nothing is left. One whose index a port of another network
    /// namespace has is refused, and the other keeps its programs. Of one that is attached already the
    /// plan is set and no more. One whose plan is too long, and those that there is no room for,
    /// are in the way of no other.
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

    /// Puts a port's programs before or after those of others, as its plan says. Flows stay; packets
    /// that pass meanwhile are not translated. Under [`Store::lock`].
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

    /// Writes which hooks of a port are in doubt: those at which others' programs run before ours,
    /// or where the kernel does not tell.
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

    /// Detaches these ports, or none if one of them is not attached. When they were the last, the
    /// maps and programs go too.
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

    /// Detaches ports by index, also those whose interfaces no longer exist.
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

    /// The ports that are attached.
    pub fn attached(&self, programs: &Programs) -> Result<Vec<Attached>, PortError> {
        let names = interfaces()?;
        let mut known = self.linked()?;
        known.extend(programs.port_states()?.into_keys());
        self.ports_of(&known, &names)
    }

    /// The interface as a port, if it is one.
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

    /// Is the interface of this index, in this network namespace, a port?
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
