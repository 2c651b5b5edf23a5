//! The guest's groups as the channel to a host that couples guests sees them: reports of the groups, and the map into
//! which the host's answers are written.

use crate::coupling::report::report_of;
use crate::coupling::wire::{GroupName, GroupReport};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use uc_core::coupling::across::Told;
use zerocopy::IntoBytes;

use crate::clock::now_ns;
use crate::error::GuestError;
use crate::groups::{Groups, from_bytes};
use crate::layout::{uc_ctrl_group, uc_ctrl_group_key};

/// The groups that a host couples: all of a machine, or those of one of its network namespaces.
#[derive(Debug)]
pub struct Across<'a> {
    groups: &'a MapHandle,
    told: &'a MapHandle,
    netns: Option<u64>,
}

impl<'a> Across<'a> {
    /// Opens the groups: all, or with `netns` those that belong only to the network namespace with this cookie
    /// ([`CouplingPolicy::apart`](crate::CouplingPolicy::apart)).
    pub fn new(groups: &'a Groups, netns: Option<u64>) -> Self {
        Self {
            groups: &groups.groups,
            told: &groups.told,
            netns,
        }
    }

    /// Returns a report of each group in which flows send now.
    pub fn reports(&self) -> Result<Vec<GroupReport>, GuestError> {
        let failed = |error| GuestError::from_libbpf("read the groups", &error);
        let mut reports = Vec::new();
        for bytes in self.groups.keys() {
            let Some(key) = from_bytes::<uc_ctrl_group_key>(&bytes) else {
                continue;
            };
            if self.netns.is_some_and(|netns| netns != key.netns) {
                continue;
            }
            let found = self.groups.lookup(&bytes, MapFlags::LOCK).map_err(failed)?;
            let group = found.and_then(|value| from_bytes::<uc_ctrl_group>(&value));
            // it may have gone meanwhile
            reports.extend(
                group.and_then(|group| report_of(name_of(&key), &group.ccc, &group.host, now_ns())),
            );
        }
        Ok(reports)
    }

    /// Writes the host's answer for a group. The group follows an answer for one RTO; without a current answer it is
    /// uncoupled.
    pub fn tell(&self, name: &GroupName, told: &Told) -> Result<(), GuestError> {
        let key = key_of(name);
        let written = self
            .told
            .update(key.as_bytes(), told.as_bytes(), MapFlags::ANY);
        written.map_err(|error| GuestError::from_libbpf("write the host's answer", &error))
    }

    /// Removes the host's answer for a group that has ended; does nothing if there is none.
    pub fn forget(&self, name: &GroupName) {
        let _nothing_was_told = self.told.delete(key_of(name).as_bytes());
    }
}

fn name_of(key: &uc_ctrl_group_key) -> GroupName {
    GroupName {
        remote: key.remote,
        space: key.netns,
    }
}

fn key_of(name: &GroupName) -> uc_ctrl_group_key {
    uc_ctrl_group_key {
        remote: name.remote,
        netns: name.space,
    }
}
