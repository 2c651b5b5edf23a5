//! The coupled groups of a case: which flows share a window.

use std::collections::BTreeMap;

use uc_core::coupling::GroupPolicy;
use uc_experiment::{Coupling, Guests};
use uc_law::{CouplingRules, group_policy};

/// A coupled group at the start of a run.
#[derive(Clone, Debug)]
pub struct CoupledGroup {
    /// Policy of the group's controller.
    pub policy: GroupPolicy,
    /// Weights of the group's guests, each 1 to 255.
    pub weights: Vec<u8>,
}

/// A flow's position in the coupled groups of its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Number of the group that the flow belongs to.
    pub group: usize,
    /// Number of the guest in its group.
    pub guest: usize,
    /// Weight of the flow among the flows of its guest.
    pub priority: u8,
    /// Whether the shadow at the guest's port is in the group, not the guest's TCP.
    pub by_port: bool,
}

/// A builder of the groups of a case.
#[derive(Debug)]
pub struct Memberships<'a> {
    rules: &'a CouplingRules,
    groups: Vec<CoupledGroup>,
    by_name: BTreeMap<&'a str, usize>,
    /// Guests with a name, by group number and name.
    named: BTreeMap<(usize, &'a str), usize>,
}

impl<'a> Memberships<'a> {
    /// Creates a builder without groups; all groups will have these rules.
    pub fn new(rules: &'a CouplingRules) -> Memberships<'a> {
        Memberships {
            rules,
            groups: Vec::new(),
            by_name: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    /// Adds a guest of `guests` to its group, or finds the named guest that is there already;
    /// `None` if the guests share no window.
    pub fn join(&mut self, guests: &'a Guests) -> Option<Membership> {
        let coupling = guests.group()?;
        let by_port = guests.is_coupled_by_port();
        Some(self.join_group(coupling, by_port, guests.share.is_some()))
    }

    fn join_group(&mut self, coupling: &'a Coupling, by_port: bool, is_sum: bool) -> Membership {
        let rules = self.rules;
        let group = *self.by_name.entry(&coupling.group).or_insert_with(|| {
            self.groups.push(CoupledGroup {
                policy: group_policy(rules, is_sum),
                weights: Vec::new(),
            });
            self.groups.len() - 1
        });
        let weights = &mut self.groups[group].weights;
        let mut enter = || {
            weights.push(coupling.weight);
            weights.len() - 1
        };
        let guest = match coupling.guest.as_deref() {
            Some(name) => *self.named.entry((group, name)).or_insert_with(enter),
            None => enter(),
        };
        Membership {
            group,
            guest,
            priority: coupling.priority,
            by_port,
        }
    }

    /// Returns the groups, once all flows have joined.
    pub fn into_groups(self) -> Vec<CoupledGroup> {
        self.groups
    }
}
