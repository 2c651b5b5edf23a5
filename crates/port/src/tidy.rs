//! What no port needs any more. An interface that is deleted takes its clsact filters along and
//! tells nobody; a process that is killed leaves half of what it meant to do; a pin can be removed
//! by hand. What they leave is found and removed by the next that attaches or detaches.

use std::collections::BTreeSet;
use std::fs;

use libbpf_rs::MapCore;

use crate::attach::Direction;
use crate::error::PortError;
use crate::programs::{MAPS, Programs};
use crate::store::Store;

impl Store {
    /// Reopens what is pinned after removing what no port needs; `None` if nothing is left. Only
    /// under [`Store::lock`]: a port that is just being attached looks like one that has gone.
    ///
    /// A clsact port is seen from its own network namespace only. From another it looks like one
    /// that has gone, so one store's clsact ports must all be in one network namespace.
    pub fn open_tidy(&self) -> Result<Option<Programs>, PortError> {
        let Some(programs) = self.open()? else {
            // Links whose programs' pins were lost: nobody could list or tend them.
            self.linked()
                .into_iter()
                .for_each(|ifindex| self.remove_links(ifindex));
            self.remove_shared();
            return Ok(None);
        };
        let attached: BTreeSet<u32> = self
            .attached(&programs)?
            .iter()
            .map(|port| port.ifindex)
            .collect();
        for ifindex in self.known(&programs)?.difference(&attached) {
            self.remove_links(*ifindex);
            programs.clear_policy(*ifindex)?;
            programs.forget_flows(*ifindex)?;
        }
        if attached.is_empty() {
            self.remove_shared();
            return Ok(None);
        }
        Ok(Some(programs))
    }

    /// Indices of all interfaces that have anything here: a policy, flows or links.
    fn known(&self, programs: &Programs) -> Result<BTreeSet<u32>, PortError> {
        let mut known = self.linked();
        known.extend(programs.flows()?.iter().map(|flow| flow.ifindex));
        let policies = programs.policies.keys();
        known.extend(policies.filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?))));
        Ok(known)
    }

    /// Indices of the interfaces with a link that is pinned.
    fn linked(&self) -> BTreeSet<u32> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return BTreeSet::new();
        };
        entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let (ifindex, _) = name.to_str()?.strip_prefix("port-")?.split_once('-')?;
                ifindex.parse().ok()
            })
            .collect()
    }

    pub(crate) fn remove_links(&self, ifindex: u32) {
        for direction in Direction::BOTH {
            let _gone_already = fs::remove_file(self.link_path(ifindex, direction));
        }
    }

    pub(crate) fn remove_shared(&self) {
        for direction in Direction::BOTH {
            let _gone_already = fs::remove_file(self.program_path(direction));
        }
        for name in MAPS {
            let _gone_already = fs::remove_file(self.folder.join(name));
        }
        let _not_empty = fs::remove_dir(&self.folder);
    }
}
