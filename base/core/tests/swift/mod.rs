//! Swift as its paper has it (SIGCOMM 2020, algorithm 1 and §3.5), in floating point and with
//! sequence numbers that never wrap: what a step may make of the window.
#![allow(missing_docs, reason = "a test program's own part")]

use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use uc_core::consts;

use crate::guest::{Guest, MSS};

const BETA: f64 = 0.8;
const MAX_MDF: f64 = 0.5;
const RESET: u8 = 5;
const TIMED: usize = 4;

#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub base_us: u32,
    pub range_us: u32,
}

impl Target {
    /// §3.5, with fs_min_cwnd = 1 and fs_max_cwnd = 100.
    fn of(self, cwnd: f64) -> f64 {
        let range = f64::from(self.range_us);
        let alpha = range / (1.0 - 0.1);
        let beta = -alpha * 0.1;
        let scaled = alpha / (cwnd / f64::from(MSS)).sqrt() + beta;
        f64::from(self.base_us) + scaled.clamp(0.0, range)
    }

    /// Between which two core's target lies, which is made of whole numbers. Of ρ = 65536/√w it
    /// takes r = ⌊ρ⌋ = ρ − f, and of fs_max_cwnd's M = 6553.6 it takes 6553. The share of the range
    /// is x = (ρ − M)/D with D = 65536 − M; core's is off by
    ///
    /// (r − 6553)/(D + 0.6) − x = (0.6·(1 − x) − f)/(D + 0.6), where 0 ≤ f < 1,
    ///
    /// and loses what is left of a microsecond. Without a range nothing is rounded.
    pub fn bounds(self, cwnd: f64) -> (f64, f64) {
        let (target, range) = (self.of(cwnd), f64::from(self.range_us));
        if self.range_us == 0 {
            return (target, target);
        }
        let share = (target - f64::from(self.base_us)) / range;
        let high = target + 0.6 * (1.0 - share) * range / 58_983.0;
        (high - range / 58_983.0 - 1.0, high)
    }
}

pub fn targets() -> impl Strategy<Value = Target> {
    let range = prop_oneof![Just(0u32), 1u32..2_000, Just(60_000_000u32)];
    (prop_oneof![10u32..3_000, 1u32..60_000_000], range)
        .prop_map(|(base_us, range_us)| Target { base_us, range_us })
}

/// What a step may make of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Hold,
    /// To this, exactly.
    To(u32),
    /// To this, as exactly as 16 bits of fraction, whole bytes and a rounded target can say it: the
    /// window and the bound of the error.
    Near(f64, f64),
    /// The delay is between the bounds of the target, which is rounded: the first, grown to the second,
    /// or cut by next to nothing, at most the third.
    Either(u32, u32, f64),
}

impl Verdict {
    pub fn allows(self, before: u32, after: u32) -> bool {
        let near = |wanted: f64, error: f64| (f64::from(after) - wanted).abs() <= error;
        match self {
            Verdict::Hold => after == before,
            Verdict::To(cwnd) => after == cwnd,
            Verdict::Near(cwnd, error) => near(cwnd, error),
            Verdict::Either(held, up, cut) => {
                after == held || after == up || near(f64::from(held), cut)
            }
        }
    }
}

#[derive(Debug)]
pub struct Swift {
    target: Target,
    pub una: i64,
    pub nxt: i64,
    edge: i64,
    throttled: bool,
    /// Ends and times of the segments that are timed.
    timed: Vec<(i64, u64)>,
    samples: Vec<f64>,
    reduced: i64,
    recover: Option<i64>,
    filled_until: Option<i64>,
    counted: u32,
    timeouts: u8,
    /// Duplicate ACKs since the last ACK of new data.
    duplicates: u32,
    doubt: Option<Doubt>,
}

/// A timeout that may prove spurious (RFC 5682 without SACK): the window and threshold before it,
/// and the end of what was retransmitted since.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    cwnd: u32,
    ssthresh: u32,
    end: i64,
}

/// What the guests of these tests begin with.
const INITIAL_SEGMENTS: u32 = 10;

#[derive(Clone, Debug)]
pub enum Move {
    Send(u32),
    Wait(u64),
    Ack(u32),
    Duplicates(u32),
    Retransmit,
}

pub fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (1u32..12).prop_map(Move::Send),
        6 => prop_oneof![1u64..3_000, 1u64..60_000_000].prop_map(Move::Wait),
        10 => (1u32..8).prop_map(Move::Ack),
        1 => (1u32..5).prop_map(Move::Duplicates),
        1 => Just(Move::Retransmit),
    ]
}

impl Swift {
    pub fn new(target: Target, guest: &Guest) -> Swift {
        Swift {
            target,
            una: 0,
            nxt: 0,
            edge: i64::from(guest.flow.edge.wrapping_sub(guest.una)),
            throttled: guest.flow.given_window < guest.flow.peer_window,
            timed: Vec::new(),
            samples: Vec::new(),
            reduced: -1,
            recover: None,
            filled_until: None,
            counted: 0,
            timeouts: 0,
            duplicates: 0,
            doubt: None,
        }
    }

    /// Counts a timeout as a loss: the samples from before it are void.
    fn believe(&mut self) {
        if self.doubt.take().is_some() {
            self.forget();
        }
    }

    /// Returns the window and threshold after an ACK of `bytes` was judged: those from before a timeout, if
    /// it covers nothing that was retransmitted since.
    fn judge(&mut self, bytes: i64, cwnd: u32, ssthresh: u32) -> (u32, u32) {
        let Some(doubt) = self.doubt else {
            return (cwnd, ssthresh);
        };
        if self.una - bytes < doubt.end {
            if self.recover.is_some_and(|recover| self.una >= recover) {
                self.believe();
            }
            return (cwnd, ssthresh);
        }
        self.doubt = None;
        self.recover = None;
        self.reduced = self.una - 1;
        (cwnd.max(doubt.cwnd), ssthresh.max(doubt.ssthresh))
    }

    /// The last two samples; 0 for none.
    pub fn known(&self) -> (u32, u32) {
        let back = |index| self.samples.iter().rev().nth(index).copied();
        let whole = |sample: Option<f64>| sample.unwrap_or(0.0) as u32;
        (whole(back(1)), whole(back(0)))
    }

    fn forget(&mut self) {
        self.timed.clear();
        self.samples.clear();
    }

    fn validate(&mut self, cwnd: u32) {
        let mss = i64::from(MSS);
        let full = self.nxt - self.una + mss > i64::from(cwnd);
        if full || (self.throttled && self.edge < self.nxt + mss) {
            self.filled_until = Some(self.nxt);
        }
    }

    fn sent(&mut self, cwnd: u32, now_us: u64) {
        self.nxt += i64::from(MSS);
        let spacing = i64::from(cwnd / TIMED as u32);
        let apart = self
            .timed
            .last()
            .is_none_or(|(end, _)| self.nxt - end >= spacing);
        if apart && self.timed.len() < TIMED {
            self.timed.push((self.nxt, now_us));
        }
        self.validate(cwnd);
    }

    fn sample(&mut self, segments: u32, now_us: u64) -> Option<f64> {
        let covered = self
            .timed
            .iter()
            .take_while(|(end, _)| *end <= self.una)
            .count();
        let last = self.timed.drain(..covered).next_back();
        let delayed = segments < 2 && self.una == self.nxt;
        let (_, at_us) = last.filter(|_| !delayed)?;
        Some((now_us - at_us).clamp(1, 60_000_000) as f64)
    }

    /// "On receiving ACK".
    fn acked(&mut self, segments: u32, cwnd: u32, ssthresh: u32, now_us: u64) -> Verdict {
        let bytes = i64::from(segments * MSS);
        self.una += bytes;
        let sample = self.sample(segments, now_us);
        let (cwnd, ssthresh) = self.judge(bytes, cwnd, ssthresh);
        self.samples.extend(sample);
        match self.respond(segments, cwnd, ssthresh) {
            Verdict::Hold => Verdict::To(cwnd),
            verdict => verdict,
        }
    }

    fn respond(&mut self, segments: u32, cwnd: u32, ssthresh: u32) -> Verdict {
        if self.recover.is_some_and(|recover| self.una >= recover) {
            self.recover = None;
        }
        if self.filled_until.is_some_and(|end| self.una > end) {
            self.filled_until = None;
        }
        if self.recover.is_some() {
            return Verdict::Hold;
        }
        let Some(&last) = self.samples.last() else {
            let alone = segments < 2 && self.una == self.nxt;
            return match self.filled_until {
                Some(_) if alone => Verdict::To(self.increase(segments, cwnd, ssthresh)),
                _ => Verdict::Hold,
            };
        };
        let least = match self.samples.as_slice() {
            [.., before, last] => before.min(*last),
            _ => 0.0,
        };
        let (low, high) = self.target.bounds(f64::from(cwnd));
        let may_grow = last < high && self.filled_until.is_some();
        let may_cut = least >= low && self.una > self.reduced;
        if last < low {
            return match may_grow {
                true => Verdict::To(self.increase(segments, cwnd, ssthresh)),
                false => Verdict::Hold,
            };
        }
        if may_cut && least >= high {
            return self.cut(cwnd, least);
        }
        if !may_grow && !may_cut {
            return Verdict::Hold;
        }
        // too near to say which; what was done is told from the outside, see [`play`]
        let counted = self.counted;
        let up = match may_grow {
            true => self.increase(segments, cwnd, ssthresh),
            false => cwnd,
        };
        self.counted = counted;
        let cut = match may_cut {
            true => self.error(cwnd, least),
            false => 0.0,
        };
        Verdict::Either(cwnd, up, cut)
    }

    fn cut(&mut self, cwnd: u32, delay_us: f64) -> Verdict {
        self.decreased();
        let excess = (delay_us - self.target.of(f64::from(cwnd))) / delay_us;
        let factor = (1.0 - BETA * excess).max(1.0 - MAX_MDF);
        let left = (f64::from(cwnd) * factor).max(f64::from(2 * MSS));
        Verdict::Near(left, self.error(cwnd, delay_us))
    }

    /// Returns the largest difference of a decrease to the formula: windows are whole bytes, β and
    /// the excess have 16 bits, and the target lies between its bounds.
    fn error(&self, cwnd: u32, delay_us: f64) -> f64 {
        let (low, high) = self.target.bounds(f64::from(cwnd));
        1.0 + f64::from(cwnd) * (1.0 / 65_536.0 + BETA * (high - low) / delay_us)
    }

    fn increase(&mut self, segments: u32, cwnd: u32, ssthresh: u32) -> u32 {
        let bytes = segments * MSS;
        if cwnd < ssthresh {
            return cwnd + bytes.min(2 * MSS);
        }
        self.counted += bytes.min(cwnd);
        if self.counted < cwnd {
            return cwnd;
        }
        self.counted -= cwnd;
        cwnd + MSS
    }

    /// RFC 5681 §4.1: nothing in flight, and nothing sent for a retransmission timeout of RFC 6298
    /// (2.3), with Linux's minimum against the variation.
    fn restarts(&self, guest: &Guest) -> bool {
        let (srtt, rttvar) = (guest.flow.srtt_us / 8, guest.flow.rttvar_us.max(200_000));
        // ticks of 1,024 ns
        let ticks = ((guest.now_ns + 10_000) >> 10) as u32 - guest.flow.sent_tick;
        let now_us = u64::from(ticks) * 1_024 / 1_000;
        self.nxt == self.una && self.nxt > 0 && now_us > u64::from(srtt + rttvar)
    }

    fn decreased(&mut self) {
        self.reduced = self.nxt;
        self.counted = 0;
        if self.doubt.is_none() {
            self.forget();
        }
    }

    /// "On retransmit timeout" and "on fast recovery".
    fn lost(&mut self, timeout: bool, cwnd: u32, ssthresh: u32) -> Verdict {
        let end = self.una + i64::from(MSS).min(self.nxt - self.una);
        let first = self.recover.is_none() && self.duplicates == 0;
        if timeout && first && self.una > self.reduced {
            self.doubt = Some(Doubt {
                cwnd,
                ssthresh,
                end,
            });
        }
        self.recover = Some(self.nxt);
        self.timeouts += u8::from(timeout);
        if self.timeouts >= RESET {
            self.decreased();
            return Verdict::To(2 * MSS);
        }
        if self.una <= self.reduced {
            return Verdict::Hold;
        }
        self.decreased();
        let left = (f64::from(cwnd) * (1.0 - MAX_MDF)).max(f64::from(2 * MSS));
        Verdict::Near(left, 1.0)
    }
}

/// Plays one move in both. Which retransmissions are timeouts is taken from track.h, and so is on
/// which side of the target a delay lies that equals it.
pub fn play(step: &Move, swift: &mut Swift, guest: &mut Guest) -> Verdict {
    let (cwnd, ssthresh) = (guest.flow.reno.cwnd, guest.flow.reno.ssthresh);
    match *step {
        Move::Send(segments) => {
            let restarts = swift.restarts(guest);
            if restarts {
                swift.samples.clear();
            }
            for _ in 0..segments {
                guest.send(1);
                swift.sent(guest.flow.reno.cwnd, guest.now_ns / 1_000);
            }
            return if restarts {
                Verdict::To(cwnd.min(INITIAL_SEGMENTS * MSS))
            } else {
                Verdict::Hold
            };
        }
        Move::Wait(us) if guest.flight() > 0 => guest.now_ns += us * 1_000,
        Move::Ack(segments) if guest.flight() > 0 => {
            let segments = segments.min(guest.flight());
            let cuts = guest.cuts();
            let edit = guest.ack(segments);
            swift.duplicates = 0;
            let verdict = swift.acked(segments, cwnd, ssthresh, guest.now_ns / 1_000);
            swift.edge = swift.una + i64::from(edit.window);
            swift.throttled = edit.window < 65535;
            swift.timeouts = guest.flow.backoffs;
            if let Verdict::Either(..) = verdict {
                swift.counted = guest.flow.reno.acked;
                if guest.cuts() > cuts {
                    swift.decreased();
                }
            }
            return verdict;
        }
        Move::Duplicates(times) if guest.flight() > 0 => {
            guest.duplicate(times);
            swift.duplicates += times;
            swift.believe();
        }
        Move::Retransmit if guest.flight() > 0 => {
            let losses = guest.losses();
            guest.retransmit();
            swift.timed.clear();
            if let Some(doubt) = &mut swift.doubt {
                doubt.end = doubt.end.max(swift.una + i64::from(MSS));
            }
            let verdict = if guest.losses() == losses {
                Verdict::Hold
            } else {
                let timeout = u32::from(guest.flow.ca) == consts::CA_LOSS;
                swift.lost(timeout, cwnd, ssthresh)
            };
            swift.validate(guest.flow.reno.cwnd);
            return verdict;
        }
        _ => {}
    }
    Verdict::Hold
}
