//! Removes state that no port needs any more. A deleted interface takes its clsact filters with it
//! without notice; a killed process leaves half of its work; a pin can be removed by hand. The next
//! process that attaches or detaches finds and removes what they left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use crate::attach::{clsact_filters, detach_clsact};
use crate::direction::Direction;
use crate::error::PortError;
use crate::interfaces::interfaces;
use crate::links::{PinnedLink, Whereabouts};
use crate::programs::Programs;
use crate::rcu::Expedited;
use crate::store::{Attached, Store};

impl Store {
    /// Reopens the pins after removing what no port needs; `None` if nothing is left. Only under
    /// [`Store::lock`]: a port that is being attached looks like a deleted one.
    ///
    /// A clsact port is visible from its own network namespace only. From another it looks like a
    /// deleted one, so one store's clsact ports must all be in one network namespace.
    pub fn open_tidy(&self) -> Result<Option<Programs>, PortError> {
        let Some(programs) = self.open()? else {
            // Links without their programs' pins: no process could list or update them.
            for ifindex in self.linked()? {
                self.remove_links(ifindex)?;
            }
            self.keep_version(None)?;
            return Ok(None);
        };
        if self.tidy(&programs)? {
            return Ok(Some(programs));
        }
        self.keep_version(None)?;
        Ok(None)
    }

    /// Removes the state that no port needs from an open store. A port that has drained needs none. Returns whether
    /// any port is left. The caller must hold [`Store::lock`].
    pub fn tidy(&self, programs: &Programs) -> Result<bool, PortError> {
        self.finish(programs)?;
        let attached: BTreeSet<u32> = self
            .attached(programs)?
            .iter()
            .map(|port| port.ifindex)
            .collect();
        let mut known = self.linked()?;
        known.extend(programs.ports_of_flows()?);
        known.extend(programs.port_states()?.into_keys());
        let gone: BTreeSet<u32> = known.difference(&attached).copied().collect();
        self.let_go(programs, &gone)?;
        Ok(!attached.is_empty())
    }

    /// Detaches the programs of every port and removes all pins, of any version: it reads no map. Removes clsact
    /// filters in this network namespace only. Returns the former ports. The caller must hold [`Store::lock`].
    pub fn remove_all(&self) -> Result<Vec<Attached>, PortError> {
        if self.folders()?.is_empty() {
            return self.remove_empty().map(|()| Vec::new());
        }
        let names = interfaces()?;
        let known = self.hooked(&names)?;
        let ports = self.ports_of(&known, &names)?;
        let _short = Expedited::for_ports(known.len());
        for ifindex in known {
            self.remove_links(ifindex)?;
            detach_clsact(ifindex)?;
        }
        self.keep_version(None)?;
        self.remove_empty()?;
        Ok(ports)
    }

    /// Removes the store's own folder, which is empty.
    fn remove_empty(&self) -> Result<(), PortError> {
        unless_missing(fs::remove_dir(&self.folder))
            .map_err(|error| PortError::from_kernel(self.action("remove"), error))
    }

    /// Returns the ports that have programs of ours, of whichever version.
    pub fn ports(&self) -> Result<Vec<Attached>, PortError> {
        if self.folders()?.is_empty() {
            return Ok(Vec::new());
        }
        let names = interfaces()?;
        self.ports_of(&self.hooked(&names)?, &names)
    }

    /// Returns the indices of interfaces that have a pinned link, and of those among `names` that have a
    /// clsact filter of ours.
    fn hooked(&self, names: &BTreeMap<u32, String>) -> Result<BTreeSet<u32>, PortError> {
        let mut hooked = self.linked()?;
        for &ifindex in names.keys() {
            if clsact_filters(ifindex)? > 0 {
                hooked.insert(ifindex);
            }
        }
        Ok(hooked)
    }

    /// Returns the attached ports among these interfaces.
    pub(crate) fn ports_of(
        &self,
        interfaces: &BTreeSet<u32>,
        names: &BTreeMap<u32, String>,
    ) -> Result<Vec<Attached>, PortError> {
        let ports = interfaces.iter().map(|&ifindex| self.port(ifindex, names));
        ports.filter_map(Result::transpose).collect()
    }

    /// Detaches the programs of these ports and deletes all state of the ports.
    pub(crate) fn let_go(
        &self,
        programs: &Programs,
        ports: &BTreeSet<u32>,
    ) -> Result<(), PortError> {
        let _short = Expedited::for_ports(ports.len());
        for &ifindex in ports {
            self.remove_links(ifindex)?;
            detach_clsact(ifindex)?;
        }
        if !ports.is_empty() {
            programs.forget_flows_of(ports)?;
        }
        // last the entries of the ports, by which another attempt finds what is left
        ports
            .iter()
            .try_for_each(|&ifindex| programs.clear_plan(ifindex))
    }

    /// Returns the indices of interfaces with a pinned link.
    pub(crate) fn linked(&self) -> Result<BTreeSet<u32>, PortError> {
        let names = self.folders()?;
        let index = |name: &String| {
            let (ifindex, _) = name.strip_prefix("port-")?.split_once('-')?;
            ifindex.parse().ok()
        };
        Ok(names.iter().filter_map(index).collect())
    }

    /// Returns where the interface is whose two links are pinned under this index: [`Whereabouts::Gone`] if one link
    /// is missing, or its interface does not exist under this index.
    ///
    /// # Errors
    /// The kernel's refusal to open the links, or to list the programs on the interface.
    pub(crate) fn whereabouts(&self, ifindex: u32) -> Result<Whereabouts, PortError> {
        let mut found = Whereabouts::Gone;
        for direction in Direction::BOTH {
            let link = PinnedLink::open(&self.link_path(ifindex, direction))?;
            found = match link {
                Some(link) => link.whereabouts(ifindex, direction)?,
                None => Whereabouts::Gone,
            };
            if found == Whereabouts::Gone {
                break;
            }
        }
        Ok(found)
    }

    /// Detaches a port's pinned links and removes their pins.
    ///
    /// # Errors
    /// The kernel's refusal; what is left can be removed again.
    pub(crate) fn remove_links(&self, ifindex: u32) -> Result<(), PortError> {
        for direction in Direction::BOTH {
            let path = self.link_path(ifindex, direction);
            if let Some(link) = PinnedLink::open(&path)? {
                link.detach();
            }
            unless_missing(fs::remove_file(&path)).map_err(|error| {
                PortError::from_kernel(format!("remove {}", path.display()), error)
            })?;
        }
        Ok(())
    }
}

/// Passes on the result of a removal; an entry that does not exist is removed, too.
pub(crate) fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
