//! Validation of a guest's reports.
//!
//! Nothing in a report can be checked against the guest's packets, so a report is accepted only as
//! far as it can't do more than an honest one could: a window is what the host has given, growth is
//! what RFC 5681 allows for the bytes that such a window can have had acknowledged, a loss is no
//! older than the time since the report before. A report that no TCP can make closes the channel.

use uc_core::coupling::{Group, Report, consts};

use crate::coupling::wire::GroupReport;

/// First window of a flow (RFC 6928), in segments, which a guest may have used beyond what it was
/// given.
pub(crate) const BURST_SEGMENTS: u64 = 10;
/// Maximum window that the first member of a group brings, in segments. Beyond it the group is in
/// slow start again, up to its previous window.
const BROUGHT_SEGMENTS: u64 = 100;
/// Maximum number of loss events in one report, at a hundred reports per second.
const CUTS_MAX: u32 = 1 << 16;
/// The smallest MSS that the core divides by.
const MSS_MIN_BYTES: u16 = uc_core::consts::MSS_MIN_BYTES as u16;

/// A report that no guest can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The guest's clock ran backwards.
    #[error("its clock ran backwards")]
    Clock,
    /// A counter ran backwards.
    #[error("a counter ran backwards")]
    Counter,
    /// The report contains a group twice.
    #[error("a group was reported twice")]
    Twice,
    /// A window, a flight or a number of losses is too large.
    #[error("a window of more than 1 GiB, or more losses than reports can have")]
    Size,
}

/// The changes of a group between two of its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Report for the controller, without a loss.
    pub report: Report,
    /// Report of the loss, if there was one.
    pub lost: Option<Report>,
}

/// Checks a single report.
///
/// # Errors
/// [`Impossible::Size`].
pub fn check(said: &GroupReport) -> Result<(), Impossible> {
    let sizes = [said.window_bytes, said.flight_bytes, said.used_bytes];
    if sizes.iter().any(|&size| size > consts::WINDOW_MAX_BYTES) {
        return Err(Impossible::Size);
    }
    Ok(())
}

/// Converts the first report of a group. Only the first member of an empty group brings a window,
/// at most what RFC 7661 would leave it: twice the window used, or a first burst.
pub fn first(said: &GroupReport) -> Report {
    let mss = said.mss_bytes.max(MSS_MIN_BYTES);
    let used = said.used_bytes.max(said.flight_bytes);
    let tried = 2 * u64::from(used) + BURST_SEGMENTS * u64::from(mss);
    let tried = tried.min(said.window_bytes.into()) as u32;
    let cwnd = tried.min((BROUGHT_SEGMENTS * u64::from(mss)) as u32);
    Report {
        cwnd_bytes: cwnd,
        ssthresh_bytes: said.ssthresh_bytes.max(tried),
        flight_bytes: said.flight_bytes.min(cwnd),
        used_bytes: used.min(cwnd),
        srtt_us: said.srtt_us,
        mss_bytes: mss,
        state: state_of(said),
        limited: said.limited.into(),
        ..Report::default()
    }
}

/// Returns the loss of a group that is reported for the first time, or again after a silence, if it
/// occurred since its guest's last report, `elapsed_us` ago: otherwise a flow that waits for its
/// timers in silence would never report a loss.
pub fn first_loss(said: &GroupReport, given_bytes: u32, elapsed_us: u64) -> Option<Report> {
    let is_new = said.cuts > 0 && u64::from(said.cut_age_us) < elapsed_us;
    is_new.then(|| loss(said, &first(said), given_bytes, elapsed_us))
}

/// Returns whether a group's window may grow: at most a quarter beyond what its members use (twice
/// that in slow start), plus a first burst for each of them. A member that claims growth doesn't
/// raise the others' use.
pub fn may_grow(group: &Group, mss_bytes: u16) -> bool {
    let all = &group.guests.counted;
    let window = u64::from(group.window_bytes());
    let used = if group.window_bytes() < group.ssthresh_bytes {
        2 * all.used_bytes
    } else {
        all.used_bytes + all.used_bytes / 4
    };
    window <= used + u64::from(all.flows) * BURST_SEGMENTS * u64::from(mss_bytes)
}

/// Returns what `said` adds to the report before it, `was`, of a group that was last given `given`
/// (window and ssthresh, in bytes) `elapsed_us` ago. `follows`: the guest had that answer when it
/// made the report.
pub fn next(
    was: &GroupReport,
    said: &GroupReport,
    given: (u32, u32),
    follows: bool,
    elapsed_us: u64,
) -> Result<Heard, Impossible> {
    let (given_bytes, given_ssthresh_bytes) = given;
    let backwards = said.acked_bytes < was.acked_bytes || said.grown_bytes < was.grown_bytes;
    let cuts = said.cuts.wrapping_sub(was.cuts);
    if backwards || cuts >= CUTS_MAX {
        return Err(Impossible::Counter);
    }
    let acked = acked_bytes(was, said, given_bytes, elapsed_us);
    let grown = (said.grown_bytes - was.grown_bytes).min(acked);
    let mut report = first(said);
    report.ssthresh_bytes = said.ssthresh_bytes;
    report.cwnd_bytes = given_bytes.saturating_add(grown as u32);
    report.acked_bytes = acked as u32;
    // More in flight than was given is data sent before a reduction, or a lie. Either way it takes
    // no room from others.
    report.flight_bytes = said.flight_bytes.min(given_bytes);
    report.used_bytes = said.used_bytes.min(given_bytes);
    // The guest can choose another ssthresh (HyStart, RFC 9406) only if it knows the host's.
    if !follows {
        report.ssthresh_bytes = given_ssthresh_bytes;
    }
    let lost = if cuts > 0 {
        Some(loss(said, &report, given_bytes, elapsed_us))
    } else if said.stalled && !was.stalled {
        // The rest has timed out too, as part of the loss event reported before.
        Some(loss(said, &report, given_bytes, u64::MAX))
    } else {
        None
    };
    Ok(Heard { report, lost })
}

/// Returns the bytes that can have been acknowledged: a window in each round trip, and what may
/// have waited for its ACK before.
fn acked_bytes(was: &GroupReport, said: &GroupReport, given_bytes: u32, elapsed_us: u64) -> u64 {
    let mss = u64::from(said.mss_bytes.max(MSS_MIN_BYTES));
    let window = u64::from(given_bytes) + BURST_SEGMENTS * mss;
    let round_us = u64::from(said.srtt_us >> 3).max(1);
    let rounds = elapsed_us.min(1 << 20) / round_us + 1;
    let acked = said.acked_bytes - was.acked_bytes;
    acked
        .min(window.saturating_mul(rounds))
        .min(consts::WINDOW_MAX_BYTES.into())
}

/// Returns a loss for the controller. The lost data was sent a round trip, and a quarter for the
/// queue, before the guest reduced its window, and the reduction was after the report before,
/// `elapsed_us` ago. A repeated timeout concerns retransmitted data (the controller knows whether
/// the timer had fired before).
fn loss(said: &GroupReport, report: &Report, given_bytes: u32, elapsed_us: u64) -> Report {
    let cut_age_us = u64::from(said.cut_age_us).min(elapsed_us);
    let round_us = u64::from(said.srtt_us.min(1 << 23));
    // 0, not measured: the controller takes the group's longest
    let known = u64::from(round_us > 0);
    let age_us = (cut_age_us + (round_us >> 3) + (round_us >> 5)).max(1) * known;
    let from = u64::from(said.cut_from_bytes.max(1));
    let kept = u64::from(given_bytes) * u64::from(said.cut_to_bytes) / from;
    Report {
        cwnd_bytes: given_bytes,
        ssthresh_bytes: kept.min(given_bytes.into()) as u32,
        acked_bytes: 0,
        lost_age_us: age_us.min(u32::MAX.into()) as u32,
        state: (if said.stalled {
            consts::BACKOFF
        } else {
            consts::RECOVERY
        }) as u8,
        ..*report
    }
}

fn state_of(said: &GroupReport) -> u8 {
    if said.stalled {
        return consts::LOSS as u8;
    }
    let slow = said.window_bytes < said.ssthresh_bytes;
    (if slow {
        consts::SLOW_START
    } else {
        consts::AVOIDANCE
    }) as u8
}
