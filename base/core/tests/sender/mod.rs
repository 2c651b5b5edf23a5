//! A sender written from the RFCs alone: RFC 5681, RFC 6582, RFC 3168 and RFC 8257 in bytes,
//! sequence numbers that don't wrap, no packets. And what may happen to it, which is played to it
//! and to a guest under translation alike.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;

use super::guest::{Guest, MSS};

/// RFC 8257's sender, beside the window: names in the RFC's words.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// α and the share of it that a cut takes, in 1/2³⁰ and 1/256.
    pub alpha_q30: u128,
    pub beta_q8: u128,
    pub gain_shift: u32,
    pub minimum_bytes: i64,
    bytes_acked: u128,
    bytes_marked: u128,
    window_end: i64,
}

impl Dctcp {
    pub fn new(alpha_q7: u8, beta_q7: u8, gain_shift: u8, minimum_window_segments: u8) -> Dctcp {
        Dctcp {
            alpha_q30: u128::from(alpha_q7) << 23,
            // what is left of α: 1 − β/2
            beta_q8: 256 - u128::from(beta_q7),
            gain_shift: gain_shift.into(),
            minimum_bytes: i64::from(minimum_window_segments) * SMSS,
            bytes_acked: 0,
            bytes_marked: 0,
            window_end: 1,
        }
    }

    /// §3.3 steps 1 to 8, each quotient rounded down.
    fn observe(&mut self, bytes: i64, ece: bool, una: i64, nxt: i64) {
        self.bytes_acked += bytes as u128;
        self.bytes_marked += if ece { bytes as u128 } else { 0 };
        if una <= self.window_end {
            return;
        }
        let fraction_q30 = (self.bytes_marked << 30) / self.bytes_acked;
        self.alpha_q30 -= self.alpha_q30 >> self.gain_shift;
        self.alpha_q30 += fraction_q30 >> self.gain_shift;
        self.window_end = nxt;
        (self.bytes_acked, self.bytes_marked) = (0, 0);
    }

    /// §3.3 step 9 with AC/DC's priority.
    fn remains(&self, cwnd: i64) -> i64 {
        // α(1 − β/2), in 1/2³¹
        let cut_q31 = (self.alpha_q30 * self.beta_q8) >> 7;
        let cut = (cwnd as u128 * cut_q31) >> 31;
        (cwnd - cut as i64).max(self.minimum_bytes)
    }
}

const SMSS: i64 = MSS as i64;

/// RFC 5681's sender, its names in the RFCs' words.
#[derive(Debug)]
pub struct Sender {
    pub cwnd: i64,
    pub ssthresh: i64,
    /// Law `dctcp`; RFC 3168's halving where there is none.
    pub dctcp: Option<Dctcp>,
    /// First unacknowledged byte and next new one; the first byte of data is 1.
    pub una: i64,
    pub nxt: i64,
    duplicates: u32,
    /// RFC 6582: the highest byte sent when the last recovery or timeout began.
    recover: i64,
    fast_recovery: bool,
    /// RFC 5681 §3.1: bytes acknowledged towards the next segment of congestion avoidance.
    bytes_acked: i64,
    timer_resent_una: bool,
    /// Everything before this was retransmitted since the timer fired (RFC 5681 §3.1, in order).
    resent_end: i64,
    /// The end of what the timer itself retransmitted.
    loss_end: i64,
    /// RFC 3168: no second reduction before a byte beyond this one is acknowledged.
    window_end: i64,
}

impl Sender {
    pub fn new(initial_window_segments: u8) -> Sender {
        Sender {
            cwnd: i64::from(initial_window_segments) * SMSS,
            ssthresh: i64::MAX,
            dctcp: None,
            una: 1,
            nxt: 1,
            duplicates: 0,
            recover: -1,
            fast_recovery: false,
            bytes_acked: 0,
            timer_resent_una: false,
            resent_end: 0,
            loss_end: 0,
            window_end: 0,
        }
    }

    pub fn flight_size(&self) -> i64 {
        self.nxt - self.una
    }

    /// Returns whether the first unacknowledged segment is retransmitted: with each partial ACK
    /// (RFC 6582 §3.2 step 5), after a timeout once.
    fn resends(&mut self) -> bool {
        let repairing = self.una <= self.recover && self.una >= self.resent_end;
        if !self.fast_recovery && repairing {
            self.resent_end = self.una + self.flight_size().min(SMSS);
        }
        self.flight_size() > 0 && (self.fast_recovery || repairing)
    }

    fn remember_reduction(&mut self) {
        self.bytes_acked = 0;
        self.window_end = self.nxt;
    }

    fn acknowledge(&mut self, bytes: i64, ece: bool) {
        // RFC 3168 §6.1.2: no growth with ECE; a timeout has answered the marks before it
        let grows = !ece || (!self.fast_recovery && self.una <= self.recover);
        self.una += bytes;
        self.duplicates = 0;
        self.timer_resent_una = false;
        if let Some(dctcp) = &mut self.dctcp {
            dctcp.observe(bytes, ece, self.una, self.nxt);
        }
        if self.fast_recovery && self.una > self.recover {
            let kept = self.flight_size().max(SMSS) + SMSS;
            self.cwnd = self.ssthresh.min(kept);
            self.fast_recovery = false;
        } else if self.fast_recovery {
            self.cwnd = (self.cwnd - bytes).max(0) + if bytes >= SMSS { SMSS } else { 0 };
            self.cwnd = self.cwnd.max(SMSS);
        } else if !self.heed_mark(ece) && grows {
            self.grow(bytes);
        }
    }

    fn grow(&mut self, bytes: i64) {
        if self.cwnd < self.ssthresh {
            self.cwnd += bytes.min(SMSS);
            return;
        }
        self.bytes_acked += bytes;
        if self.bytes_acked >= self.cwnd {
            self.bytes_acked -= self.cwnd;
            self.cwnd += SMSS;
        }
    }

    /// RFC 3168 §6.1.2, or RFC 8257 §3.3 step 9. Was there a reduction?
    fn heed_mark(&mut self, ece: bool) -> bool {
        if !ece || self.una <= self.window_end {
            return false;
        }
        self.ssthresh = match &self.dctcp {
            Some(dctcp) => dctcp.remains(self.cwnd),
            None => (self.cwnd / 2).max(2 * SMSS),
        };
        // the answer to a mark never is a larger window
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.remember_reduction();
        true
    }

    fn duplicate(&mut self, ece: bool) {
        self.duplicates += 1;
        if self.fast_recovery {
            self.cwnd += SMSS;
        } else if self.duplicates == 3 && self.una - 1 > self.recover {
            self.ssthresh = (self.flight_size() / 2).max(2 * SMSS);
            self.recover = self.nxt - 1;
            self.cwnd = self.ssthresh + 3 * SMSS;
            self.fast_recovery = true;
            self.remember_reduction();
        } else {
            self.heed_mark(ece);
        }
    }

    fn timeout(&mut self) {
        if !self.timer_resent_una {
            self.ssthresh = (self.flight_size() / 2).max(2 * SMSS);
        }
        self.timer_resent_una = true;
        self.resent_end = self.una;
        self.loss_end = self.una + self.flight_size().min(SMSS);
        self.cwnd = SMSS;
        self.recover = self.nxt - 1;
        self.fast_recovery = false;
        self.remember_reduction();
    }
}

#[derive(Clone, Debug)]
pub enum Move {
    Send { segments: u32 },
    Ack { bytes: u32, ece: bool },
    Duplicate { ece: bool },
    Timeout,
}

pub fn moves() -> impl Strategy<Value = Move> {
    let bytes = prop_oneof![
        6 => (1u32..8).prop_map(|segments| segments * MSS),
        2 => Just(u32::MAX),
        1 => 1u32..4000,
    ];
    prop_oneof![
        10 => (1u32..8).prop_map(|segments| Move::Send { segments }),
        12 => (bytes, proptest::bool::weighted(0.15))
            .prop_map(|(bytes, ece)| Move::Ack { bytes, ece }),
        8 => proptest::bool::weighted(0.15).prop_map(|ece| Move::Duplicate { ece }),
        1 => Just(Move::Timeout),
    ]
}

/// Plays one move of the network, and the sender's reaction (RFC 5681 §3.2, RFC 6582 §3.2).
pub fn play(step: &Move, sender: &mut Sender, guest: &mut Guest) {
    let flight = sender.flight_size() as u32;
    match *step {
        // the loss window holds what the timer retransmitted (RFC 5681 §3.1)
        Move::Send { segments } if sender.una >= sender.loss_end => {
            guest.send(segments);
            sender.nxt += i64::from(segments) * SMSS;
        }
        Move::Ack { bytes, ece } if flight > 0 => {
            let bytes = bytes.min(flight);
            sender.acknowledge(i64::from(bytes), ece);
            if ece {
                guest.ack_bytes_ece(bytes);
            } else {
                guest.ack_bytes(bytes);
            }
            if sender.resends() {
                guest.retransmit();
            }
        }
        Move::Duplicate { ece } if flight > 0 => {
            let before = sender.fast_recovery;
            sender.duplicate(ece);
            if ece {
                guest.duplicate_ece(1);
            } else {
                guest.duplicate(1);
            }
            if sender.fast_recovery && !before {
                guest.retransmit();
            }
        }
        Move::Timeout if flight > 0 => {
            sender.timeout();
            sender.resends();
            guest.retransmit();
        }
        _ => {}
    }
}
