//! An observer that judges how the port of a guest with SACK follows it through one flow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uc_core::consts;
use uc_net::Nanos;
use uc_tcp::{Segment, flags};
use uc_verify::element::Shadow;
use uc_verify::plan::Plan;
use uc_verify::world::{Cause, Observer, State};

/// Maximum window after the repair of a real loss, as a part of the one before, in percent.
const KEPT_MOST_PERCENT: u64 = 75;
/// Windows below this many segments are not judged: a reduction leaves two segments at least.
const JUDGED_LEAST_SEGMENTS: u32 = 8;

/// A repair that the guest has begun.
#[derive(Clone, Copy, Debug)]
struct Repair {
    at: Nanos,
    /// Largest window of the shadow since the first unacknowledged segment was sent.
    before_bytes: u32,
    /// Whether that segment was lost, and an ACK showed that later ones arrived.
    is_real: bool,
    by_timer: bool,
    /// Whether the guest has taken the reduction back.
    undone: bool,
    guest_ended: bool,
}

/// The results of flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) fast: u64,
    pub(crate) timeouts: u64,
    /// Duplicate ACKs and, of these, those that carry data, and those whose window has grown.
    pub(crate) duplicates: u64,
    pub(crate) with_data: u64,
    pub(crate) with_window: u64,
    /// Retransmissions without a timeout that the shadow took for one.
    pub(crate) mistaken: Vec<String>,
    /// Real losses whose repair was judged, and those after which the window was too large.
    pub(crate) judged: u64,
    pub(crate) kept: Vec<String>,
    /// Timeouts that the guest has taken back, and how many of them the shadow has, too.
    pub(crate) undone: u64,
    pub(crate) followed: u64,
}

impl Findings {
    /// Adds the results of another flow.
    pub(crate) fn add(&mut self, mut other: Findings) {
        self.fast += other.fast;
        self.timeouts += other.timeouts;
        self.duplicates += other.duplicates;
        self.with_data += other.with_data;
        self.with_window += other.with_window;
        self.judged += other.judged;
        self.undone += other.undone;
        self.followed += other.followed;
        self.mistaken.append(&mut other.mistaken);
        self.kept.append(&mut other.kept);
    }
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} duplicate ACKs, {} with data, {} with larger windows; {} fast retransmits, {} \
             timeouts; {} taken for a timeout; {} losses judged, after {} of them too large a \
             window; {} timeouts undone, {} by the shadow too",
            self.duplicates,
            self.with_data,
            self.with_window,
            self.fast,
            self.timeouts,
            self.mistaken.len(),
            self.judged,
            self.kept.len(),
            self.undone,
            self.followed,
        )
    }
}

/// An observer that judges the shadow of one flow.
pub(crate) struct Judge {
    label: String,
    mss_bytes: u32,
    iss: u32,
    pub(crate) findings: Findings,
    /// End of what was sent, from the initial sequence number.
    end: u32,
    /// Starts and ends of segments whose last transmission was lost.
    lost: BTreeMap<u32, u32>,
    /// Window of the shadow outside of repairs, by the end of what was sent then.
    windows: VecDeque<(u32, u32)>,
    /// First retransmission of this act: whether its segment was lost.
    first_again: Option<bool>,
    /// Starts of the segments that this repair has retransmitted.
    again: BTreeSet<u32>,
    /// Whether this act retransmits one of `again` once more: rule (4) of RFC 6675 does, and looks
    /// like a timer then.
    repeats: bool,
    duplicates: u64,
    window: u16,
    repair: Option<Repair>,
}

impl Judge {
    pub(crate) fn new(label: String, plan: &Plan) -> Judge {
        Judge {
            label,
            mss_bytes: plan.mss_bytes.into(),
            iss: plan.iss,
            findings: Findings::default(),
            end: 1,
            lost: BTreeMap::new(),
            windows: VecDeque::new(),
            first_again: None,
            again: BTreeSet::new(),
            repeats: false,
            duplicates: 0,
            window: 0,
            repair: None,
        }
    }

    fn place(&self, segment: &Segment) -> (u32, u32) {
        let from = segment.seq.wrapping_sub(self.iss);
        (from, from + u32::from(segment.payload_bytes))
    }

    /// Keeps the windows since the first unacknowledged byte was sent.
    fn remember(&mut self, acknowledged: u32, shadow: Shadow) {
        while self.windows.len() > 1 && self.windows[1].0 <= acknowledged {
            self.windows.pop_front();
        }
        if !shadow.repairs() {
            self.windows.push_back((self.end, shadow.window_bytes));
        }
    }

    fn begin(&mut self, now: Nanos, by_timer: bool, duplicates: bool) {
        let before = self.windows.iter().map(|&(_, bytes)| bytes).max();
        let repair = Repair {
            at: now,
            before_bytes: before.unwrap_or(0),
            is_real: self.first_again == Some(true) && duplicates,
            by_timer,
            undone: false,
            guest_ended: false,
        };
        self.repair.get_or_insert(repair);
    }

    /// Judges a repair that both the guest and its shadow have ended.
    fn judge(&mut self, now: Nanos, shadow: Shadow) {
        let Some(repair) = self.repair.filter(|repair| repair.guest_ended) else {
            return;
        };
        if shadow.phase != consts::CA_OPEN {
            return;
        }
        self.repair = None;
        let least = JUDGED_LEAST_SEGMENTS * self.mss_bytes;
        if !repair.is_real || repair.undone || repair.before_bytes < least {
            return;
        }
        self.findings.judged += 1;
        let (before, after) = (repair.before_bytes, shadow.window_bytes);
        if u64::from(after) * 100 > u64::from(before) * KEPT_MOST_PERCENT {
            self.findings.kept.push(format!(
                "{}: {} → {} segments, {:?} to {now:?}, timer {}",
                self.label,
                before / self.mss_bytes,
                after / self.mss_bytes,
                repair.at,
                repair.by_timer,
            ));
        }
    }
}

impl Observer for Judge {
    fn sent(&mut self, _: Nanos, segment: &Segment) -> bool {
        if segment.payload_bytes == 0 || segment.has(flags::SYN) {
            return true;
        }
        let (from, to) = self.place(segment);
        if from < self.end {
            let lost = self.lost.contains_key(&from);
            self.first_again.get_or_insert(lost);
            self.repeats |= !self.again.insert(from);
            self.lost.retain(|&start, _| start < from || start >= to);
        }
        self.end = self.end.max(to);
        true
    }

    fn lost(&mut self, segment: &Segment) {
        if segment.payload_bytes > 0 {
            let (from, to) = self.place(segment);
            self.lost.insert(from, to);
        }
    }

    fn acted(&mut self, now: Nanos, cause: &Cause, before: &State, after: &State) -> bool {
        let (Some(old), Some(new)) = (before.shadow, after.shadow) else {
            return true;
        };
        let counted = |of: fn(&State) -> u64| of(after) - of(before);
        let fast = counted(|state| state.totals.fast_recoveries) > 0;
        let timer = counted(|state| state.totals.timeouts) > 0;
        let undone = counted(|state| state.totals.spurious_timeouts) > 0;
        let acked = counted(|state| state.totals.acknowledged_bytes) > 0;
        let duplicates = counted(|state| state.totals.duplicate_acks);
        self.duplicates += duplicates;
        self.findings.duplicates += duplicates;
        if let Cause::Arrival(segment) = cause {
            let has_data = u64::from(segment.payload_bytes > 0);
            let has_window = u64::from(segment.window > self.window);
            self.findings.with_data += duplicates * has_data;
            self.findings.with_window += duplicates * has_window;
            self.window = segment.window;
        }
        self.findings.fast += u64::from(fast);
        self.findings.timeouts += u64::from(timer);
        let by_timer = timer || self.repeats || before.info.in_loss || after.info.in_loss;
        if new.losses > old.losses && new.phase == consts::CA_LOSS && !by_timer {
            let text = format!("{}: at {now:?}, {old:?} → {new:?}", self.label);
            self.findings.mistaken.push(text);
        }
        if undone {
            self.findings.undone += 1;
            self.findings.followed += u64::from(new.phase != consts::CA_LOSS);
            if let Some(repair) = &mut self.repair {
                repair.undone = true;
            }
        }
        if fast || timer {
            self.begin(now, timer, self.duplicates > 0);
        }
        if let Some(repair) = &mut self.repair {
            repair.guest_ended = !after.info.in_recovery && !after.info.in_loss;
        }
        self.judge(now, new);
        if acked {
            self.duplicates = 0;
        }
        self.first_again = None;
        self.repeats = false;
        if !after.info.in_recovery && !after.info.in_loss {
            self.again.clear();
        }
        self.remember(after.totals.acknowledged_bytes as u32 + 1, new);
        true
    }
}
