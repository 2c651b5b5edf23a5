//! Who shares a window with whom: the coupled groups of a case.

use std::collections::BTreeMap;

use uc_core::coupling::GroupPolicy;
use uc_experiment::{Coupling, Guests};
use uc_law::{CouplingRules, group_policy};

/// A group before anybody has spoken.
#[derive(Clone, Debug)]
pub struct CoupledGroup {
    /// How it behaves.
    pub policy: GroupPolicy,
    /// Its guests' weights.
    pub weights: Vec<u8>,
}

/// A flow's place in the coupled groups of its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group's number.
    pub group: usize,
    /// The guest's number in it.
    pub guest: usize,
    /// Among its guest's flows.
    pub priority: u8,
    /// Not the guest's TCP is in the group but its port's shadow.
    pub by_port: bool,
}

/// The groups of a case while its guests are gone through.
#[derive(Debug)]
pub struct Memberships<'a> {
    rules: &'a CouplingRules,
    groups: Vec<CoupledGroup>,
    by_name: BTreeMap<&'a str, usize>,
    /// Guests that go by a name, by their group's number and that.
    named: BTreeMap<(usize, &'a str), usize>,
}

impl<'a> Memberships<'a> {
    /// No groups, which will all have these rules.
    pub fn new(rules: &'a CouplingRules) -> Memberships<'a> {
        Memberships {
            rules,
            groups: Vec::new(),
            by_name: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    /// One more guest of these, or one of whom a part is there already; none if they share nothing.
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

    /// All of them.
    pub fn into_groups(self) -> Vec<CoupledGroup> {
        self.groups
    }
}
