//! Law `dctcp`: its estimate of congestion, how deep it cuts and how often.

use std::cell::Cell;

use crate::ends::{self, FROM_GUEST, IRS, ISS, Port, TO_GUEST, with};
use crate::flows::for_all;
use crate::flows::law::Law;
use crate::guest::{Guest, MSS};
use crate::sender::{Dctcp, Move, Sender, moves, play};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Policy, Segment, consts};

const ONE_Q30: u32 = 1 << 30;

/// The law's parameters.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    gain_shift: u8,
    alpha_q7: u8,
    beta_q7: u8,
    minimum: u8,
}

/// RFC 8257's own, with a cut of the whole α.
const PLAIN: Parameters = Parameters {
    gain_shift: 4,
    alpha_q7: 128,
    beta_q7: 128,
    minimum: 2,
};

impl Parameters {
    fn policy(self, linux: bool, initial_window_segments: u8) -> Policy {
        let law = Law::Dctcp {
            gain_shift: self.gain_shift,
            initial_alpha_q7: self.alpha_q7,
            beta_q7: self.beta_q7,
            minimum_window_segments: self.minimum,
            classic: false,
        };
        Policy {
            initial_window_segments,
            ..law.policy(linux)
        }
    }

    fn guest(self, linux: bool, initial_window_segments: u8) -> Guest {
        Guest::under(self.policy(linux, initial_window_segments), false)
    }
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (1u8..=10, 0u8..=128, 0u8..=128, 1u8..5).prop_map(|(gain_shift, alpha_q7, beta_q7, minimum)| {
        Parameters {
            gain_shift,
            alpha_q7,
            beta_q7,
            minimum,
        }
    })
}

/// RFC 8257 §3.3 in floating point.
struct Estimate {
    alpha: f64,
    gain: f64,
    acked: f64,
    marked: f64,
    window_end: i64,
}

impl Estimate {
    fn new(parameters: Parameters) -> Estimate {
        Estimate {
            alpha: f64::from(parameters.alpha_q7) / 128.0,
            gain: f64::from(parameters.gain_shift).exp2().recip(),
            acked: 0.0,
            marked: 0.0,
            window_end: 1,
        }
    }

    fn observe(&mut self, bytes: i64, ece: bool, una: i64, nxt: i64) -> bool {
        self.acked += bytes as f64;
        self.marked += if ece { bytes as f64 } else { 0.0 };
        if una <= self.window_end {
            return false;
        }
        self.alpha = (1.0 - self.gain) * self.alpha + self.gain * self.marked / self.acked;
        self.window_end = nxt;
        (self.acked, self.marked) = (0.0, 0.0);
        true
    }
}

/// Each update rounds twice by less than a unit and forgets a share g of what came before, so the
/// whole error is less than (1 + g)/g units of 2⁻³⁰.
#[test]
fn alpha_differs_from_the_formula_by_less_than_the_sum_of_its_roundings() {
    let (updates, worst) = (Cell::new(0u32), Cell::new(0.0f64));
    let strategy = (parameters(), any::<bool>(), vec(moves(), 0..400));
    for_all(4000, &strategy, |(parameters, linux, moves)| {
        let mut sender = Sender::new(10);
        let mut guest = parameters.guest(linux, 10);
        let mut estimate = Estimate::new(parameters);
        let bound = f64::from((1u32 << parameters.gain_shift) + 1) / f64::from(ONE_Q30);
        for step in &moves {
            let before = sender.una;
            play(step, &mut sender, &mut guest);
            let ece = matches!(step, Move::Ack { ece: true, .. });
            let bytes = sender.una - before;
            if bytes > 0 && estimate.observe(bytes, ece, sender.una, sender.nxt) {
                updates.set(updates.get() + 1);
            }
            let alpha = f64::from(guest.flow.dctcp.alpha_q30) / f64::from(ONE_Q30);
            let error = (alpha - estimate.alpha).abs();
            worst.set(worst.get().max(error));
            prop_assert!(error <= bound, "{} against {}", alpha, estimate.alpha);
        }
        Ok(())
    });
    println!("{} updates, worst error {:.1e}", updates.get(), worst.get());
    assert!(updates.get() > 50_000, "only {} updates", updates.get());
}

#[test]
fn the_rfc_shadow_has_the_reference_dctcp_senders_window_after_every_step() {
    let strategy = (parameters(), 1u8..40, vec(moves(), 0..120));
    let (cuts, losses) = (Cell::new(0u32), Cell::new(0u32));
    for_all(6000, &strategy, |(parameters, initial_window, moves)| {
        let Parameters {
            gain_shift,
            alpha_q7,
            beta_q7,
            minimum,
        } = parameters;
        let mut sender = Sender::new(initial_window);
        sender.dctcp = Some(Dctcp::new(alpha_q7, beta_q7, gain_shift, minimum));
        let mut guest = parameters.guest(false, initial_window);
        for (index, step) in moves.iter().enumerate() {
            play(step, &mut sender, &mut guest);
            let alpha_q30 = sender.dctcp.as_ref().map(|dctcp| dctcp.alpha_q30);
            let ours = u128::from(guest.flow.dctcp.alpha_q30);
            prop_assert_eq!(Some(ours), alpha_q30, "α, move {} of {:?}", index, &moves);
            let window = i64::from(guest.window());
            prop_assert_eq!(window, sender.cwnd, "move {} of {:?}", index, &moves);
            let ssthresh = sender.ssthresh.min(0x7fff_ffff);
            prop_assert_eq!(i64::from(guest.ssthresh()), ssthresh, "move {}", index);
        }
        cuts.set(cuts.get() + guest.cuts());
        losses.set(losses.get() + guest.losses());
        Ok(())
    });
    println!("{} cuts, {} losses", cuts.get(), losses.get());
    assert!(cuts.get() > 6000 && losses.get() > 6000, "too few to tell");
}

#[test]
fn no_window_is_cut_twice() {
    let strategy = (parameters(), any::<bool>(), vec(moves(), 0..120));
    for_all(4000, &strategy, |(parameters, linux, moves)| {
        let mut sender = Sender::new(10);
        let mut guest = parameters.guest(linux, 10);
        let mut window_end = None;
        for step in &moves {
            let before = guest.cuts();
            play(step, &mut sender, &mut guest);
            prop_assert!(guest.cuts() - before <= 1);
            if guest.cuts() > before {
                // Linux leaves a recovery when all of its window is acknowledged, the RFC with the
                // first byte behind it
                let past = i64::from(!linux);
                let passed = window_end.is_none_or(|end| sender.una >= end + past);
                prop_assert!(passed, "una {}, cut until {:?}", sender.una, window_end);
                window_end = Some(sender.nxt);
            }
        }
        Ok(())
    });
}

/// The window that one mark leaves of 100 segments, once the reduction is over.
fn remains_of_100(linux: bool, parameters: Parameters) -> u32 {
    let mut guest = parameters.guest(linux, 100);
    guest.send(100);
    guest.ack_ece(1);
    if linux {
        // all but the last: with it the reduction would be over and growth begin
        guest.ack(98);
        return guest.ssthresh() * MSS;
    }
    guest.window()
}

#[test]
fn a_cut_is_alpha_less_half_of_alpha_times_beta() {
    // AC/DC's equation 1, α = 1: β = 1 is DCTCP and halves, β = 0 takes everything but the minimum
    for (beta_q7, of_100) in [(128, 50), (64, 25), (32, 12), (0, 2)] {
        let parameters = Parameters { beta_q7, ..PLAIN };
        let bytes = 100 * MSS - 1000 * u32::from(256 - u16::from(beta_q7)) * 100 / 256;
        let rfc = remains_of_100(false, parameters);
        assert_eq!(rfc, bytes.max(2 * MSS), "β = {beta_q7}/128, rfc");
        // whole segments, the cut rounded down
        let linux = remains_of_100(true, parameters);
        assert_eq!(
            linux,
            (bytes.div_ceil(MSS) * MSS).max(2 * MSS),
            "β = {beta_q7}/128, linux"
        );
        assert_eq!(rfc / MSS, of_100, "β = {beta_q7}/128");
    }
}

#[test]
fn the_first_mark_counts_in_the_estimate_that_its_cut_uses() {
    // α = 0 before; the first ACK ends a window that is wholly marked: α = g = 1/16, cut by 1/32
    let parameters = Parameters {
        alpha_q7: 0,
        ..PLAIN
    };
    assert_eq!(
        remains_of_100(false, parameters),
        100 * MSS - 100 * MSS / 32
    );
    assert_eq!(remains_of_100(true, parameters), 97 * MSS);
}

#[test]
fn a_loss_halves_whatever_alpha_is() {
    let calm = Parameters {
        alpha_q7: 0,
        ..PLAIN
    };
    for linux in [false, true] {
        let mut guest = calm.guest(linux, 40);
        guest.send(40);
        guest.duplicate(3);
        guest.retransmit();
        let ssthresh = guest.ssthresh() * if linux { MSS } else { 1 };
        assert_eq!(ssthresh, 20 * MSS, "linux: {linux}");
        let mut guest = calm.guest(linux, 40);
        guest.send(40);
        guest.wait_ms(1500);
        guest.retransmit();
        let ssthresh = guest.ssthresh() * if linux { MSS } else { 1 };
        assert_eq!(ssthresh, 20 * MSS, "timeout, linux: {linux}");
    }
}

#[test]
fn a_loss_after_a_shallow_cut_in_the_same_window_still_halves() {
    let calm = Parameters {
        alpha_q7: 0,
        ..PLAIN
    };
    for linux in [false, true] {
        let mut guest = calm.guest(linux, 100);
        guest.send(100);
        guest.ack_ece(1);
        let after_mark = guest.ssthresh();
        guest.duplicate(3);
        guest.retransmit();
        let after_loss = guest.ssthresh();
        assert!(
            10 * after_loss <= 6 * after_mark,
            "linux: {linux}: {after_mark}, then {after_loss}"
        );
    }
}

#[test]
fn the_minimum_window_is_policys_in_both_profiles() {
    for linux in [false, true] {
        for minimum in [1, 2, 4] {
            let parameters = Parameters { minimum, ..PLAIN };
            let mut guest = parameters.guest(linux, 8);
            for _ in 0..20 {
                // keep the window filled and every ACK marked
                let window = guest.window() / MSS;
                guest.send(window.saturating_sub(guest.flight()));
                guest.wait_ms(1); // in a queue
                guest.ack_ece(guest.flight().max(1).min(window));
            }
            let least = u32::from(minimum) * MSS;
            let window = guest.window();
            // each round ends a reduction and begins another; it grows by no more than one segment
            assert!(
                (least..=least + MSS).contains(&window),
                "linux: {linux}, minimum {minimum}: {window}"
            );
        }
    }
}

#[test]
fn without_marks_alpha_decays_to_less_than_a_millionth_and_cuts_nothing() {
    let mut guest = PLAIN.guest(false, 4);
    for _ in 0..400 {
        guest.send(4);
        guest.ack(4);
    }
    assert!(
        guest.flow.dctcp.alpha_q30 < 16,
        "{}",
        guest.flow.dctcp.alpha_q30
    );
    let strategy = (Just(()), 0u8..=128);
    for_all(50, &strategy, |((), alpha_q7)| {
        // marked all the time, α goes to 1 from anywhere
        let start = Parameters { alpha_q7, ..PLAIN };
        let mut guest = start.guest(false, 4);
        for _ in 0..400 {
            guest.send(2);
            guest.ack_ece(2);
        }
        prop_assert!(ONE_Q30 - guest.flow.dctcp.alpha_q30 <= 17);
        Ok(())
    });
}

#[test]
fn toward_a_classic_receiver_every_new_segment_carries_cwr_and_no_retransmission() {
    let cwr = consts::CWR as u8;
    for (classic, expected) in [(true, cwr), (false, 0)] {
        let law = Law::Dctcp {
            gain_shift: 4,
            initial_alpha_q7: 128,
            beta_q7: 128,
            minimum_window_segments: 2,
            classic,
        };
        let mut guest = Guest::under(law.policy(true), false);
        for _ in 0..10 {
            assert_eq!(guest.send(1).flags & cwr, expected);
        }
        guest.ack(1); // what is ECT arrives
        guest.duplicate(3);
        let again = guest.retransmit();
        assert_eq!(again.flags & cwr, 0);
        assert_eq!(u32::from(again.ecn), consts::ECT0, "RFC 8257 §3.6");
    }
}

/// The port misses so much that the end of the observation window seems to lie ahead again; then
/// the sum of acknowledged bytes would be 2^32, which is 0, when the window ends.
#[test]
fn sums_stay_within_a_window_when_missed_data_exceed_half_of_the_sequence_numbers() {
    let policy = Policy {
        modes: consts::MODE_OBSERVE as u8,
        ..Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX)
    };
    let scaled = |syn| Segment {
        wscale: 14,
        ..with(syn, consts::OPT_WSCALE)
    };
    let mut port = Port::new(policy);
    port.pass(&scaled(ends::syn(FROM_GUEST, ISS)));
    port.pass(&scaled(ends::answer(TO_GUEST, IRS, ISS)));
    // the guest sends the last segment of `bytes`, and each of `acked` is acknowledged in turn
    let mut una = ISS + 1;
    let mut send = |bytes: u32, acked: &[u32]| {
        if bytes > 0 {
            port.pass(&ends::data(una.wrapping_add(bytes - ends::MSS)));
        }
        for acked in acked {
            una = una.wrapping_add(*acked);
            port.pass(&ends::ack(una));
            let dctcp = &port.flow().expect("the flow stays").dctcp;
            assert!(dctcp.alpha_q30 <= ONE_Q30 && dctcp.acked_bytes < 1 << 30);
        }
    };
    send(ends::MSS, &[]);
    send(
        (1 << 31) - ends::MSS,
        &[ends::MSS, 1 << 30, (1 << 30) - 2 * ends::MSS],
    );
    let window_bytes = 60_000 << 14;
    send(0, &[window_bytes; 3]);
    send(1_345_000_000, &[1_000_000_000, 345_000_000]);
    send(802_485_648, &[802_485_648]);
}
