//! The shadow of profile `rfc` against a sender written from the RFCs alone. Fed with the same ACKs,
//! marks, losses and timeouts, both must have the same window after every step.

use crate::flows::for_all;
use crate::guest::Guest;
use crate::sender::{Sender, moves, play};
use proptest::collection::vec;
use proptest::prop_assert_eq;
use uc_core::consts;

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
