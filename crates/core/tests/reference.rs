//! The shadow of profile `rfc` against a sender written from the RFCs alone: RFC 5681, RFC 6582 and
//! RFC 3168 in bytes, sequence numbers that don't wrap, no packets. Fed with the same ACKs, marks,
//! losses and timeouts, both must have the same window after every step.

mod flows;
mod guest;

use flows::for_all;
use guest::{Guest, MSS};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::{prop_assert_eq, prop_oneof};
use uc_core::consts;

const SMSS: i64 = MSS as i64;

/// RFC 5681's sender, its names in the RFCs' words.
#[derive(Debug)]
struct Sender {
    cwnd: i64,
    ssthresh: i64,
    /// First unacknowledged byte and next new one; the first byte of data is 1.
    una: i64,
    nxt: i64,
    duplicates: u32,
    /// RFC 6582: the highest byte sent when the last recovery or timeout began.
    recover: i64,
    fast_recovery: bool,
    /// RFC 5681 §3.1: bytes acknowledged towards the next segment of congestion avoidance.
    bytes_acked: i64,
    timer_resent_una: bool,
    /// Since the timer fired, all before it was sent again (RFC 5681 §3.1, in order).
    resent_end: i64,
    /// RFC 3168: no second reduction before a byte beyond this one is acknowledged.
    window_end: i64,
}

impl Sender {
    fn new(initial_window_segments: u8) -> Sender {
        Sender {
            cwnd: i64::from(initial_window_segments) * SMSS,
            ssthresh: i64::MAX,
            una: 1,
            nxt: 1,
            duplicates: 0,
            recover: -1,
            fast_recovery: false,
            bytes_acked: 0,
            timer_resent_una: false,
            resent_end: 0,
            window_end: 0,
        }
    }

    fn flight_size(&self) -> i64 {
        self.nxt - self.una
    }

    /// Whether an ACK or the timer sends the first unacknowledged segment again: RFC 6582 §3.2
    /// step 5 with every partial ACK, after a timeout once.
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

    /// RFC 3168 §6.1.2. Was there a reduction?
    fn heed_mark(&mut self, ece: bool) -> bool {
        if !ece || self.una <= self.window_end {
            return false;
        }
        self.ssthresh = (self.cwnd / 2).max(2 * SMSS);
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
        self.cwnd = SMSS;
        self.recover = self.nxt - 1;
        self.fast_recovery = false;
        self.remember_reduction();
    }
}

#[derive(Clone, Debug)]
enum Move {
    Send { segments: u32 },
    Ack { bytes: u32, ece: bool },
    Duplicate { ece: bool },
    Timeout,
}

fn moves() -> impl Strategy<Value = Move> {
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

/// One move of the network, and what a sender does in answer (RFC 5681 §3.2, RFC 6582 §3.2).
fn play(step: &Move, sender: &mut Sender, guest: &mut Guest) {
    let flight = sender.flight_size() as u32;
    match *step {
        Move::Send { segments } => {
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

#[test]
fn the_rfc_shadow_has_the_reference_senders_window_after_every_step() {
    let strategy = (1u8..12, vec(moves(), 0..120));
    for_all(8000, &strategy, |(initial_window, moves)| {
        let mut sender = Sender::new(initial_window);
        let mut guest = Guest::connected(consts::PROFILE_RFC as u8, initial_window, false);
        for (index, step) in moves.iter().enumerate() {
            play(step, &mut sender, &mut guest);
            let window = i64::from(guest.window());
            prop_assert_eq!(window, sender.cwnd, "move {} of {:?}", index, &moves);
            let ssthresh = sender.ssthresh.min(0x7fff_ffff);
            prop_assert_eq!(i64::from(guest.ssthresh()), ssthresh, "move {}", index);
        }
        Ok(())
    });
}
