//! Guests with SACK, and receivers that do as hosts do: windows that grow in duplicate ACKs, duplicate
//! ACKs that carry data, ACKs of several segments. The port's shadow must tell a fast retransmission
//! from a timeout, keep the reduction of a real loss, and undo that of a spurious timeout. `UC_CASES`
//! gives another number of flows.

mod flows;
mod judge;
mod undo;

use std::env;

use uc_core::consts;
use uc_verify::Law;

use flows::{Receivers, SEED, flow};
use judge::Findings;

/// Flows for each law, profile and kind of receivers.
const FLOWS: u64 = 250;
/// Faults of a kind that a failure prints.
const PRINTED_MOST: usize = 8;
/// Losses of which one may leave a larger window: where all reports of what lies behind a hole are lost,
/// the ACK that fills it grows the window by all of it (Linux's `tcp_cong_avoid_ai()` does, too).
const KEPT_SELDOM: u64 = 500;

/// Judges the flows of a kind of receivers under each law and profile; returns the results and the
/// faults.
fn judge(receivers: Receivers) -> (Findings, Vec<String>) {
    let flows = env::var("UC_CASES").map_or(FLOWS, |text| text.parse().expect("a number"));
    let (mut all, mut faults) = (Findings::default(), Vec::new());
    for law in Law::ALL {
        for profile in [consts::PROFILE_RFC, consts::PROFILE_LINUX] {
            let mut found = Findings::default();
            for number in 0..flows {
                found.add(flow(number, law, profile, receivers));
            }
            println!("seed {SEED}, {receivers:?}, {law:?}, profile {profile}: {found}");
            faults.extend(found.mistaken.iter().take(PRINTED_MOST).cloned());
            if found.kept.len() as u64 * KEPT_SELDOM > found.judged {
                faults.extend(found.kept.iter().take(PRINTED_MOST).cloned());
            }
            all.add(found);
        }
    }
    assert!(all.judged > flows && 2 * all.followed > all.undone, "{all}");
    (all, faults)
}

#[test]
fn losses_are_told_from_timeouts_by_sack_alone() {
    let (_, faults) = judge(Receivers::Plain);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn losses_are_told_from_timeouts_while_windows_grow_in_duplicate_acks() {
    let (all, faults) = judge(Receivers::Autotuning);
    assert!(8 * all.with_window > all.duplicates, "{all}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn losses_are_told_from_timeouts_where_acks_are_merged() {
    let (all, faults) = judge(Receivers::Merging);
    assert!(all.duplicates < 8 * all.fast, "{all}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn losses_are_told_from_timeouts_where_duplicate_acks_carry_data() {
    let (all, faults) = judge(Receivers::BothWays);
    assert!(3 * all.with_data > all.duplicates, "{all}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn losses_are_told_from_timeouts_whatever_receivers_do() {
    let (all, faults) = judge(Receivers::All);
    assert!(all.with_data > 0 && all.with_window > 0, "{all}");
    assert!(faults.is_empty(), "{faults:#?}");
}
