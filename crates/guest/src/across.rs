//! The guest's groups as a host that couples guests is to know them: what is reported, and where
//! its answers go.

use ::uc_ccc::wire::{GroupName, GroupReport};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::time::{ClockId, clock_gettime};
use uc_core::coupling::across::Told;

use crate::error::GuestError;
use crate::groups::{Groups, bytes_of, plain_from};
use crate::layout::{uc_ccc, uc_ccc_amounts, uc_ccc_told, uc_ctrl_group, uc_ctrl_group_key};

/// The groups of a machine, or of one network namespace of it, as far as a host couples them.
#[derive(Debug)]
pub struct Across<'a> {
    groups: &'a MapHandle,
    told: &'a MapHandle,
    netns: Option<u64>,
}

impl<'a> Across<'a> {
    /// All groups, or those that one namespace has to itself (`apart`).
    pub fn new(groups: &'a Groups, netns: Option<u64>) -> Self {
        Self {
            groups: &groups.groups,
            told: &groups.told,
            netns,
        }
    }

    /// What is to be reported now: the groups that anybody sends in.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reports(&self) -> Result<Vec<GroupReport>, GuestError> {
        let failed = |error| GuestError::from_libbpf("read the groups", &error);
        let mut reports = Vec::new();
        for bytes in self.groups.keys() {
            let Some(key) = plain_from::<uc_ctrl_group_key>(&bytes) else {
                continue;
            };
            if self.netns.is_some_and(|netns| netns != key.netns) {
                continue;
            }
            let found = self.groups.lookup(&bytes, MapFlags::LOCK).map_err(failed)?;
            let group = found.and_then(|value| plain_from::<uc_ctrl_group>(&value));
            // it may have gone meanwhile
            reports.extend(group.and_then(|group| report_of(&key, &group, now_ns())));
        }
        Ok(reports)
    }

    /// Writes what the host has told. Until then, and without a newer one after an RTO, the group is
    /// its own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn tell(&self, name: &GroupName, told: &Told) -> Result<(), GuestError> {
        let raw = uc_ccc_told {
            at_ns: told.at_ns,
            cut_ns: told.cut_ns,
            window_bytes: told.window_bytes,
            ssthresh_bytes: told.ssthresh_bytes,
            cuts: told.cuts,
            pad: 0,
        };
        let key = key_of(name);
        let written = self
            .told
            .update(bytes_of(&key), bytes_of(&raw), MapFlags::ANY);
        written.map_err(|error| GuestError::from_libbpf("write the host's answer", &error))
    }

    /// Removes what was told to a group that has ended.
    pub fn forget(&self, name: &GroupName) {
        let _nothing_was_told = self.told.delete(bytes_of(&key_of(name)));
    }
}

/// The clock that the programs read.
pub(crate) fn now_ns() -> u64 {
    // The call fails for clocks that there aren't; there is always this one.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    time.map_or(0, |time| {
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    })
}

fn key_of(name: &GroupName) -> uc_ctrl_group_key {
    uc_ctrl_group_key {
        remote: name.remote,
        netns: name.space,
    }
}

/// Nobody advances the epochs of a group that is silent: its sums are read as they would be now.
fn counted(ccc: &uc_ccc, now_ns: u64) -> Option<uc_ccc_amounts> {
    let srtt_us = u64::from(ccc.srtt_max_us.max(ccc.srtt_was_us)) / 8;
    let epoch_ns = u64::from(ccc.policy.silence_us).max(2 * srtt_us) * 1000;
    match now_ns.saturating_sub(ccc.began_ns) / epoch_ns.max(1) {
        0 => Some(ccc.guests.counted),
        1 => Some(ccc.guests.heard),
        _ => None,
    }
}

fn report_of(key: &uc_ctrl_group_key, group: &uc_ctrl_group, now_ns: u64) -> Option<GroupReport> {
    let (ccc, link) = (&group.ccc, &group.host);
    let all = counted(ccc, now_ns).filter(|all| all.flows > 0)?;
    let bytes = |bytes: u64| bytes.min(uc_core::coupling::consts::WINDOW_MAX_BYTES.into()) as u32;
    Some(GroupReport {
        name: GroupName {
            remote: key.remote,
            space: key.netns,
        },
        opened_ns: link.opened_ns,
        grown_bytes: link.grown_q16 >> 16,
        acked_bytes: link.acked_bytes,
        taken_ns: link.taken_ns,
        window_bytes: bytes(ccc.window_q16 >> 16),
        ssthresh_bytes: ccc.ssthresh_bytes,
        flight_bytes: bytes(all.flight_bytes),
        used_bytes: bytes(all.used_bytes.max(all.flight_bytes)),
        srtt_us: ccc.srtt_max_us.max(ccc.srtt_was_us),
        cuts: ccc.cuts,
        cut_age_us: u32::try_from(now_ns.saturating_sub(link.cut_ns) / 1000).unwrap_or(u32::MAX),
        cut_from_bytes: link.cut_from_bytes,
        cut_to_bytes: link.cut_to_bytes,
        mss_bytes: u16::try_from(link.mss_bytes).unwrap_or(u16::MAX),
        limited: all.hungry == 0,
        stalled: all.stalled >= all.flows,
    })
}
