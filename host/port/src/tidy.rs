//! What no port needs any more. An interface that is deleted takes its clsact filters along and
//! tells nobody; a process that is killed leaves half of what it meant to do; a pin can be removed
//! by hand. What they leave is found and removed by the next that attaches or detaches.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use crate::attach::{clsact_filters, detach_clsact};
use crate::direction::Direction;
use crate::error::PortError;
use crate::expedite::Expedited;
use crate::interfaces::interfaces;
use crate::links::{PinnedLink, Whereabouts};
use crate::programs::Programs;
use crate::store::{Attached, Store};

impl Store {
    /// Reopens what is pinned after removing what no port needs; `None` if nothing is left. Only
    /// under [`Store::lock`]: a port that is just being attached looks like one that has gone.
    ///
    /// A clsact port is seen from its own network namespace only. From another it looks like one
    /// that has gone, so one store's clsact ports must all be in one network namespace.
    pub fn open_tidy(&self) -> Result<Option<Programs>, PortError> {
        let Some(programs) = self.open()? else {
            // Links whose programs' pins were lost: nobody could list or tend them.
            let linked = self.linked()?;
            linked
                .into_iter()
                .for_each(|ifindex| self.remove_links(ifindex));
            self.keep_version(None)?;
            return Ok(None);
        };
        if self.tidy(&programs)? {
            return Ok(Some(programs));
        }
        self.keep_version(None)?;
        Ok(None)
    }

    /// Removes what no port needs of a store that is open, under [`Store::lock`], and answers
    /// whether any port is left.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn tidy(&self, programs: &Programs) -> Result<bool, PortError> {
        let attached: BTreeSet<u32> = self
            .attached(programs)?
            .iter()
            .map(|port| port.ifindex)
            .collect();
        let mut known = self.linked()?;
        known.extend(programs.ports_of_flows());
        known.extend(programs.port_states()?.into_keys());
        let gone: BTreeSet<u32> = known.difference(&attached).copied().collect();
        self.let_go(programs, &gone)?;
        Ok(!attached.is_empty())
    }

    /// Takes the programs off every port and removes all that is pinned, whichever version has left
    /// it: no map is read for that. Clsact filters are those of this network namespace. Answers
    /// which ports there were. Under [`Store::lock`].
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn remove_all(&self) -> Result<Vec<Attached>, PortError> {
        if self.folders()?.is_empty() {
            return Ok(Vec::new());
        }
        let names = interfaces();
        let mut known = self.linked()?;
        let has_filters = |ifindex: &u32| clsact_filters(*ifindex) > 0;
        known.extend(names.keys().copied().filter(has_filters));
        let port = |ifindex: &u32| self.port(*ifindex, &names);
        let ports = known.iter().filter_map(port).collect();
        let _short = Expedited::for_ports(known.len());
        for ifindex in known {
            self.remove_links(ifindex);
            detach_clsact(ifindex);
        }
        self.keep_version(None)?;
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PortError::from_kernel(self.action("remove"), error))
            }
            _ => Ok(ports),
        }
    }

    /// Takes all that is known of these ports away, and the programs off them.
    pub(crate) fn let_go(
        &self,
        programs: &Programs,
        ports: &BTreeSet<u32>,
    ) -> Result<(), PortError> {
        let _short = Expedited::for_ports(ports.len());
        for &ifindex in ports {
            self.remove_links(ifindex);
            detach_clsact(ifindex);
            programs.clear_plan(ifindex)?;
        }
        if ports.is_empty() {
            return Ok(());
        }
        programs.forget_flows_of(ports)
    }

    /// Indices of the interfaces with a link that is pinned.
    pub(crate) fn linked(&self) -> Result<BTreeSet<u32>, PortError> {
        let names = self.folders()?;
        let index = |name: &String| {
            let (ifindex, _) = name.strip_prefix("port-")?.split_once('-')?;
            ifindex.parse().ok()
        };
        Ok(names.iter().filter_map(index).collect())
    }

    /// Returns where the interface is whose two links are pinned under this index; a port has both.
    pub(crate) fn whereabouts(&self, ifindex: u32) -> Whereabouts {
        let mut both = Direction::BOTH.map(|direction| {
            PinnedLink::open(&self.link_path(ifindex, direction))
                .map_or(Whereabouts::Gone, |link| {
                    link.whereabouts(ifindex, direction)
                })
        });
        both.sort_by_key(|whereabouts| *whereabouts != Whereabouts::Gone);
        both[0]
    }

    pub(crate) fn remove_links(&self, ifindex: u32) {
        for direction in Direction::BOTH {
            let path = self.link_path(ifindex, direction);
            if let Some(link) = PinnedLink::open(&path) {
                link.detach();
            }
            let _gone_already = fs::remove_file(path);
        }
    }
}
