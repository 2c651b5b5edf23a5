//! Validation of a guest's reports.
//!
//! Nothing in a report can be checked against the guest's packets. So a report is accepted only as far as it has no
//! more effect than an honest one could: the window is the one that the host has given, growth is what RFC 5681 allows
//! for the bytes that such a window can have had acknowledged, and a loss is no older than the guest's last report. A
//! report that no TCP can make closes the channel.

use uc_core::coupling::{Group, Report, consts};

use crate::coupling::wire::GroupReport;

/// First window of a flow in segments (RFC 6928). A guest may use this much more than the host gave it.
pub(crate) const BURST_SEGMENTS: u64 = 10;
/// Maximum window that the first member of a group brings into it, in segments. Beyond this window the group is in slow
/// start again, up to its previous window.
const BROUGHT_SEGMENTS: u64 = 100;
/// Number of loss events between two reports from which the counter counts as having run backwards.
const CUTS_MAX: u32 = 1 << 16;
/// The smallest MSS that the core divides by.
const MSS_MIN_BYTES: u16 = uc_core::consts::MSS_MIN_BYTES as u16;

/// A report that no guest can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The guest's clock ran backwards.
    #[error("the report's time lies before that of the guest's last report")]
    Clock,
    /// A counter is lower than in the last report, or the number of losses has risen by `CUTS_MAX` (65,536) or more.
    #[error("a counter of a group in the report is less than in the guest's last report")]
    Counter,
    /// The report contains a group twice.
    #[error("the report contains a group twice")]
    Twice,
    /// A window or flight is too large, or the report has too many groups.
    #[error("the report has a window or flight of more than 1 GiB, or more than 16 groups")]
    Size,
}

/// The changes of a group between two of its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Report for the controller, without a loss.
    pub report: Report,
    /// Report of the loss for the controller; `None` if there was no loss.
    pub lost: Option<Report>,
}

/// Checks the sizes in a report.
///
/// # Errors
/// [`Impossible::Size`]: a window or flight is larger than 1 GiB.
pub fn check(said: &GroupReport) -> Result<(), Impossible> {
    let sizes = [said.window_bytes, said.flight_bytes, said.used_bytes];
    if sizes.iter().any(|&size| size > consts::WINDOW_MAX_BYTES) {
        return Err(Impossible::Size);
    }
    Ok(())
}

/// Converts the first report of a group for the controller. The controller uses its window only for the first member of
/// an empty group. The window is at most what RFC 7661 would leave: twice the bytes used, plus a first burst.
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

/// Returns the loss of a group that is reported for the first time, or again after a silence; `None` if it occurred
/// more than `elapsed_us` ago, before the guest's last report. Otherwise a flow that waits silently for its timers
/// would never report a loss.
pub fn first_loss(said: &GroupReport, given_bytes: u32, elapsed_us: u64) -> Option<Report> {
    let is_new = said.cuts > 0 && u64::from(said.cut_age_us) < elapsed_us;
    is_new.then(|| loss(said, &first(said), given_bytes, elapsed_us))
}

/// Returns whether a group's window may grow: it is at most a quarter larger than the bytes that its members use (in
/// slow start twice as large), plus a first burst for each member. A member that falsely reports growth does not
/// increase the others' use.
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

/// Returns the changes between `was`, a group's last report, and `said`. The host last gave the group `given` (window
/// and ssthresh, in bytes), `elapsed_us` ago. `follows`: the guest had that answer when it made the report.
///
/// # Errors
/// [`Impossible::Counter`].
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

/// Returns the bytes that can have been acknowledged in `elapsed_us`, at most as many as reported: a window for each
/// round trip, and one window whose ACKs were already on their way.
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

/// Returns a report of a loss for the controller. The lost data was sent 1.25 round trips (a quarter for the queue)
/// before the guest reduced its window; the reduction was less than `elapsed_us` ago, after the guest's last report. A
/// repeated timeout is about retransmitted data; the controller knows whether the timer had expired before.
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
