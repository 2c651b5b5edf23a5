//! Replaces the programs of all ports by those of a new version.

use std::collections::{BTreeMap, BTreeSet};

use crate::attach::clsact_filters;
use crate::carried::{Carried, Upgrade};
use crate::carry::Carry;
use crate::direction::Direction;
use crate::error::PortError;
use crate::interfaces::interfaces;
use crate::links::{PinnedLink, Whereabouts};
use crate::object::check_laws;
use crate::programs::Programs;
use crate::store::Store;
use crate::versions::Version;
use uc_core::Law;
use uc_law::{PortPlan, RINGS_MAX};

impl Store {
    /// Gives every port of the store the programs of the store's object, and returns them with what the upgrade did.
    /// Each packet passes the old or the new version. `force`: loads the object even if its programs are in force.
    /// `plans` are set only if the plans in force can't be taken over, and only for ports that have programs.
    /// `flows_max`: capacity of a new flow table. The caller must hold [`Store::lock`].
    ///
    /// # Errors
    /// If the object lacks a law from outside the tree that the programs in force have; nothing has changed then. The
    /// kernel's refusal; then ports have the old version, or some the new one, and flows go on under both.
    pub fn upgrade(
        &self,
        plans: &BTreeMap<u32, PortPlan>,
        flows_max: u32,
        force: bool,
    ) -> Result<(Programs, Upgrade), PortError> {
        self.upgrade_with(plans, (flows_max, RINGS_MAX), force)
    }

    /// Upgrades like [`Store::upgrade`]. New maps have room for `flows_max` flows, and for the events of `rings_max`
    /// flows.
    ///
    /// # Errors
    /// As [`Store::upgrade`].
    pub fn upgrade_with(
        &self,
        plans: &BTreeMap<u32, PortPlan>,
        (flows_max, rings_max): (u32, u32),
        force: bool,
    ) -> Result<(Programs, Upgrade), PortError> {
        self.check_bpffs()?;
        if !self.laws()?.is_empty() && !self.has_port()? {
            // no port runs the laws from outside any more
            self.keep_version(None)?;
            self.open_tidy()?;
        }
        let Some(old) = self.version()? else {
            // Maps without programs, of one who was killed, are not those of the programs to come.
            self.keep_version(None)?;
            let programs = Programs::load_object(&self.object, flows_max, rings_max)?;
            return self.take_over(programs, plans, Upgrade::Fresh);
        };
        check_laws(&self.laws_of(&old)?, &self.object)?;
        if !old.is_own_layout() {
            let programs = Programs::load_object(&self.object, flows_max, rings_max)?;
            return self.carry_over(&old, programs, plans);
        }
        let programs = self.open_version(&old)?;
        if old.is_of(&self.object) && !force {
            // somebody may have been killed before every port had them
            self.swap_all(&programs)?;
            self.keep_version(Some(&old))?;
            return Ok((programs, Upgrade::Current));
        }
        let programs = Programs::load_for(&self.object, programs.maps)?;
        self.take_over(programs, plans, Upgrade::Swapped)
    }

    fn carry_over(
        &self,
        old: &Version,
        programs: Programs,
        plans: &BTreeMap<u32, PortPlan>,
    ) -> Result<(Programs, Upgrade), PortError> {
        let carry = match Carry::begin(self, old, &programs)? {
            Ok(carry) => carry,
            Err(why) => return self.take_over(programs, plans, Upgrade::Replaced { why }),
        };
        let carried = self.put_in_force(&programs, true, Some(carry))?;
        Ok((programs, Upgrade::Carried(carried.unwrap_or_default())))
    }

    fn take_over(
        &self,
        programs: Programs,
        plans: &BTreeMap<u32, PortPlan>,
        what: Upgrade,
    ) -> Result<(Programs, Upgrade), PortError> {
        let has_new_maps = what != Upgrade::Swapped;
        if has_new_maps {
            let ports = self.ports_by_hook()?;
            let mut plans = plans.clone();
            plans.retain(|ifindex, _| ports.iter().any(|ports| ports.contains(ifindex)));
            programs.set_plans(&plans)?;
        }
        self.put_in_force(&programs, has_new_maps, None)?;
        Ok((programs, what))
    }

    /// Pins programs that have their plans, and gives them to every port in place of the version before. `carry`
    /// copies the flows of that version.
    fn put_in_force(
        &self,
        programs: &Programs,
        has_new_maps: bool,
        mut carry: Option<Carry<'_>>,
    ) -> Result<Option<Carried>, PortError> {
        Law::tell_outside(&programs.laws());
        if let Some(carry) = &mut carry {
            carry.copy()?;
        }
        let ports: Vec<u32> = match has_new_maps {
            true => programs.port_states()?.into_keys().collect(),
            false => Vec::new(),
        };
        // no flow asks for ECN while a port has the new programs at one hook only
        let mut each = ports.iter();
        each.try_for_each(|&ifindex| programs.reset_hooks(ifindex, |_| false))?;
        let version = self.pin_version(programs)?;
        if let Some(carry) = &mut carry {
            carry.copy()?;
        }
        self.swap_all(programs)?;
        let carried = carry.map(Carry::finish).transpose()?;
        let mut each = ports.into_iter();
        each.try_for_each(|ifindex| self.begin_hooks(programs, ifindex))?;
        self.keep_version(Some(&version))?;
        Ok(carried)
    }

    /// Replaces the programs of an older version by these at every port.
    fn swap_all(&self, programs: &Programs) -> Result<(), PortError> {
        let [linked, by_clsact] = self.ports_by_hook()?;
        for ifindex in linked {
            for direction in Direction::BOTH {
                // a pin without its link, or its interface, is tidied away later
                if let Some(link) = PinnedLink::open(&self.link_path(ifindex, direction))? {
                    link.swap(programs.program(direction))?;
                }
            }
        }
        // Nothing is pinned of these: only by its entry is one found again.
        programs.enter_ports(by_clsact.iter().copied())?;
        by_clsact
            .into_iter()
            .try_for_each(|ifindex| programs.swap_clsact(ifindex))
    }

    /// Returns the indices of the interfaces that have programs of ours, of any version: those with pinned links, then
    /// those with clsact filters.
    fn ports_by_hook(&self) -> Result<[BTreeSet<u32>; 2], PortError> {
        let linked = self.linked()?;
        let mut by_clsact = BTreeSet::new();
        for ifindex in interfaces()?.into_keys() {
            if !linked.contains(&ifindex) && clsact_filters(ifindex)? > 0 {
                by_clsact.insert(ifindex);
            }
        }
        Ok([linked, by_clsact])
    }

    /// Returns whether an interface that still exists has programs of ours.
    fn has_port(&self) -> Result<bool, PortError> {
        let [linked, by_clsact] = self.ports_by_hook()?;
        for ifindex in linked {
            if self.whereabouts(ifindex)? != Whereabouts::Gone {
                return Ok(true);
            }
        }
        Ok(!by_clsact.is_empty())
    }
}
