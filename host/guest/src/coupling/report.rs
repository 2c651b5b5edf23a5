//! What a guest reports to the host about one group of connections.

use uc_core::coupling::across::Link;
use uc_core::coupling::{Group, consts};

use crate::coupling::wire::{GroupName, GroupReport};

/// Returns a report of the group at the time `now_ns`; `None` if none of its connections has sent recently.
pub fn report_of(name: GroupName, group: &Group, link: &Link, now_ns: u64) -> Option<GroupReport> {
    // Nobody advances the epochs of a silent group, so its sums are read as they would be after the
    // time passed.
    let past_ns = now_ns.saturating_sub(group.began_ns);
    let all = match past_ns / group.epoch_ns().max(1) {
        0 => group.guests.counted,
        1 => group.guests.heard,
        _ => return None,
    };
    if all.flows == 0 {
        return None;
    }
    let window = |bytes: u64| bytes.min(consts::WINDOW_MAX_BYTES.into()) as u32;
    let cut_age_us = now_ns.saturating_sub(link.cut_ns) / 1000;
    Some(GroupReport {
        name,
        opened_ns: link.opened_ns,
        grown_bytes: link.grown_q16 >> 16,
        acked_bytes: link.acked_bytes,
        taken_ns: link.taken_ns,
        window_bytes: group.window_bytes(),
        ssthresh_bytes: group.ssthresh_bytes,
        flight_bytes: window(all.flight_bytes),
        used_bytes: window(all.used_bytes.max(all.flight_bytes)),
        srtt_us: group.srtt_max_us.max(group.srtt_was_us),
        cuts: group.cuts,
        cut_age_us: u32::try_from(cut_age_us).unwrap_or(u32::MAX),
        cut_from_bytes: link.cut_from_bytes,
        cut_to_bytes: link.cut_to_bytes,
        mss_bytes: u16::try_from(link.mss_bytes).unwrap_or(u16::MAX),
        limited: all.hungry == 0,
        stalled: all.stalled >= all.flows,
    })
}
