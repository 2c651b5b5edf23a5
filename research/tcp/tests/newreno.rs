//! NewReno's window against RFC 5681.

use uc_net::Nanos;
use uc_tcp::congestion::{Acked, Control, NewReno, Window};

const SMSS: u32 = 1000;

fn ack(bytes: u32) -> Acked {
    Acked {
        now: Nanos::ZERO,
        bytes,
        srtt: None,
    }
}

fn window(cwnd_bytes: u32, ssthresh_bytes: u32) -> Window {
    Window {
        cwnd_bytes,
        ssthresh_bytes,
        smss_bytes: SMSS,
    }
}

#[test]
fn slow_start_adds_the_bytes_acknowledged_but_at_most_a_segment_per_ack() {
    let (mut law, mut window) = (NewReno::default(), window(2 * SMSS, u32::MAX));
    law.acked(&mut window, &ack(300));
    law.acked(&mut window, &ack(2 * SMSS));
    assert_eq!(window.cwnd_bytes, 3300);
}

#[test]
fn avoidance_adds_a_segment_per_window_of_bytes_however_they_are_acknowledged() {
    let (mut law, mut window) = (NewReno::default(), window(4 * SMSS, 2 * SMSS));
    for bytes in [500, 1500, 1999] {
        law.acked(&mut window, &ack(bytes));
        assert_eq!(window.cwnd_bytes, 4 * SMSS);
    }
    law.acked(&mut window, &ack(1));
    assert_eq!(window.cwnd_bytes, 5 * SMSS);
}

#[test]
fn by_acks_each_ack_adds_a_fraction_and_a_loss_halves_the_window_with_its_fraction() {
    let (mut law, mut window) = (NewReno::by_acks(), window(4 * SMSS, 2 * SMSS));
    law.acked(&mut window, &ack(1));
    assert_eq!(window.cwnd_bytes, 4250);
    law.acked(&mut window, &ack(2 * SMSS));
    assert_eq!(window.cwnd_bytes, 4485);
    assert_eq!(law.lost(&window, 4 * SMSS, Nanos::ZERO), 2242);
    window.cwnd_bytes = 2 * SMSS * SMSS;
    law.acked(&mut window, &ack(SMSS));
    assert_eq!(window.cwnd_bytes, 2 * SMSS * SMSS + 1);
}

#[test]
fn a_loss_halves_the_flight_and_a_mark_halves_the_window() {
    let (mut law, window) = (NewReno::default(), window(20 * SMSS, u32::MAX));
    assert_eq!(law.lost(&window, 12 * SMSS, Nanos::ZERO), 6 * SMSS);
    assert_eq!(law.timed_out(&window, 3 * SMSS, Nanos::ZERO), 2 * SMSS);
    assert_eq!(law.marked(&window, Nanos::ZERO), 10 * SMSS);
}
