//! The guest's end of a channel, without a clock or a socket: when to report, and how much of an answer to accept.
//!
//! Reports are sent four times in a round trip, but at least every 10 ms and at most every 2 ms. A group's window
//! changes by a segment in a round trip, or by half after a loss. Other guests should learn this well before they have
//! sent another window. A report for every ACK would be thousands of messages per second.

use uc_core::coupling::across::Told;

use crate::coupling::frames::Frames;
use crate::coupling::wire::{
    Frame, GROUPS_MAX, GroupAnswer, GroupName, GroupReport, Parts, WireError,
};

/// Range of the time between two reports, in nanoseconds.
pub const INTERVAL_NS: std::ops::RangeInclusive<u64> = 2_000_000..=10_000_000;
/// Number of consecutive unanswered reports after which the host counts as dead.
const UNANSWERED_MAX: u32 = 8;
/// Time between two reports to a dead host, in nanoseconds: Linux's minimum RTO, 200 ms.
const SILENT_INTERVAL_NS: u64 = 200_000_000;
/// First window of a connection, in segments (RFC 6928).
const BURST_SEGMENTS: u64 = 10;

/// The state of the guest's end of a channel to the host.
#[derive(Debug, Default)]
pub struct GuestEnd {
    frames: Frames,
    /// The groups' reports in the frame that was last sent to the host.
    said: Vec<GroupReport>,
    sent_ns: u64,
    answered_ns: u64,
    unanswered: u32,
}

impl GuestEnd {
    /// Returns when the next report is due, on the clock of `now_ns`.
    pub fn due_ns(&self) -> u64 {
        let silent = self.unanswered >= UNANSWERED_MAX;
        let interval_ns = if silent {
            SILENT_INTERVAL_NS
        } else {
            self.interval_ns()
        };
        self.sent_ns + interval_ns
    }

    /// Returns whether the host has ever answered.
    pub fn is_answered(&self) -> bool {
        self.answered_ns > 0
    }

    fn interval_ns(&self) -> u64 {
        let measured = self.said.iter().filter(|report| report.srtt_us > 0);
        // `srtt_us` is in units of 1/8 µs, so 1/32 of it is a quarter of a round trip in µs.
        let quarters = measured.map(|report| u64::from(report.srtt_us) * 1000 / 32);
        let shortest = quarters.min().unwrap_or(*INTERVAL_NS.end());
        shortest.clamp(*INTERVAL_NS.start(), *INTERVAL_NS.end())
    }

    /// Returns an encoded report of these groups; of more than [`GROUPS_MAX`], those with the largest windows.
    pub fn report(&mut self, mut groups: Vec<GroupReport>, now_ns: u64) -> Vec<u8> {
        groups.sort_by_key(|group| std::cmp::Reverse(group.window_bytes));
        groups.truncate(GROUPS_MAX);
        // Answers are matched by this time, so no two reports may have the same.
        self.sent_ns = now_ns.max(self.sent_ns + 1);
        self.unanswered = self.unanswered.saturating_add(1);
        self.said = groups;
        let frame = Frame {
            at_ns: self.sent_ns,
            parts: Parts::Report(self.said.clone()),
        };
        frame.encode()
    }

    /// Decodes the host's bytes, and returns the accepted answer for each group. Of several answers in the bytes only
    /// the last one counts.
    ///
    /// # Errors
    /// [`WireError`]: the caller must close the channel.
    pub fn hear(&mut self, bytes: &[u8], now_ns: u64) -> Result<Vec<(GroupName, Told)>, WireError> {
        self.frames.push(bytes);
        let mut told = Vec::new();
        while let Some(frame) = self.frames.take()? {
            let Parts::Answer(answers) = frame.parts else {
                return Err(WireError::Garbage);
            };
            // An answer to no report, or to one before the last that was answered.
            if frame.at_ns > self.sent_ns || frame.at_ns <= self.answered_ns {
                continue;
            }
            self.answered_ns = frame.at_ns;
            self.unanswered = 0;
            let taken = answers.iter().filter_map(|answer| {
                let told = self.believe(answer, frame.at_ns, now_ns)?;
                Some((answer.name, told))
            });
            told = taken.collect();
        }
        Ok(told)
    }

    /// Validates the host's answer for a group; `None` if it is for no reported group. The host may be wrong, or
    /// another guest may have misled it, so the window is limited to twice the bytes that the group used, plus a first
    /// burst of 10 segments. Slow start opens a window at this pace, and RFC 7661 counts this much as validated.
    fn believe(&self, answer: &GroupAnswer, at_ns: u64, now_ns: u64) -> Option<Told> {
        let said = self.said.iter().find(|said| said.name == answer.name)?;
        if said.opened_ns != answer.opened_ns {
            return None;
        }
        let mss = u64::from(said.mss_bytes.max(1));
        let used = u64::from(said.used_bytes.max(said.flight_bytes));
        let most = 2 * used + BURST_SEGMENTS * mss;
        let window = u64::from(answer.window_bytes).min(most).max(mss);
        let cut_ns = match answer.cut_age_us {
            u32::MAX => 0,
            age_us => now_ns.saturating_sub(u64::from(age_us) * 1000),
        };
        Some(Told {
            at_ns,
            cut_ns,
            window_bytes: window as u32,
            ssthresh_bytes: answer.ssthresh_bytes.max(mss as u32),
            cuts: answer.cuts,
            ..Told::default()
        })
    }
}
