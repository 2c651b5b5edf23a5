//! HighSpeed TCP against RFC 3649's equations in real numbers.

use proptest::prelude::*;

use super::*;

const SMSS: u32 = 1448;
/// §5: Low_Window, High_Window and High_Decrease; Low_P and High_P make p(w) = 0.078/w^1.2.
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// Computes b(w) of §5.
fn b(w: f64) -> f64 {
    let fraction = (w.ln() - LOW_WINDOW.ln()) / (HIGH_WINDOW.ln() - LOW_WINDOW.ln());
    (HIGH_DECREASE - 0.5) * fraction + 0.5
}

/// Computes a(w) = w²·p(w)·2·b(w)/(2 − b(w)) of §5.
fn a(w: f64) -> f64 {
    w * w * (0.078 / w.powf(1.2)) * 2.0 * b(w) / (2.0 - b(w))
}

fn window(segments: u32) -> Window {
    Window {
        cwnd_bytes: segments * SMSS,
        ssthresh_bytes: segments * SMSS,
        smss_bytes: SMSS,
    }
}

fn ack(bytes: u32) -> Acked {
    Acked {
        now: Nanos::ZERO,
        bytes,
        srtt: None,
    }
}

/// Appendix B has a row where a(w), with 1/p taken as 12.8·w^1.2, has risen by one.
#[test]
fn table_equals_the_computation_of_the_appendix() {
    let aw = |w: f64| w * w * 2.0 * b(w) / ((2.0 - b(w)) * w.powf(1.2) * 12.8);
    let mut rows = vec![38_u32];
    let mut last = 1.0;
    for w in 38..100_000_u32 {
        let increase = aw(f64::from(w));
        if increase > last + 1.0 {
            rows.push(w);
            last = increase;
        }
    }
    assert_eq!(rows, WINDOWS);
}

/// The table agrees with the decimals that appendix B prints.
#[test]
fn table_equals_the_printed_values() {
    for (w, increase, hundredths) in [
        (38_u32, 1_u32, 50_u32),
        (118, 2, 44),
        (347, 4, 38),
        (1058, 8, 33),
        (3399, 16, 27),
        (12_082, 32, 20),
        (35_586, 53, 14),
        (58_932, 64, 12),
        (84_035, 71, 10),
        (94_717, 73, 9),
    ] {
        assert_eq!(increase_q16(&window(w)), increase << 16, "a({w})");
        assert_eq!(increase_q16(&window(w - 1)), (increase - 1).max(1) << 16);
        let left = cut(w * SMSS, SMSS);
        let printed = f64::from(left) / f64::from(w * SMSS);
        let rounded = (100.0 - 100.0 * printed).round() as u32;
        assert_eq!(rounded, hundredths, "b({w}): {printed}");
    }
}

#[test]
fn reduction_equals_the_equation_within_a_row_of_the_table() {
    for (row, w) in WINDOWS.iter().enumerate() {
        let table = f64::from(CUTS_Q16[row]) / 65_536.0;
        let equation = b(f64::from(*w));
        assert!(
            (table - equation).abs() < 1e-5,
            "b({w}): {table}, {equation}"
        );
    }
    // between two rows the table is constant and the equation falls by at most the first step
    for w in (38..95_000_u32).step_by(97) {
        let table = f64::from(CUTS_Q16[row(w * SMSS, SMSS)]) / 65_536.0;
        let above = table - b(f64::from(w));
        assert!(
            (-1e-5..=0.06).contains(&above),
            "b({w}) is {above} too high"
        );
    }
}

#[test]
fn growth_equals_the_equation_within_one_and_a_half_segments_per_round_trip() {
    for w in (38..95_000_u32).step_by(89) {
        let table = f64::from(increase_q16(&window(w))) / 65_536.0;
        let below = a(f64::from(w)) - table;
        assert!((-0.5..=1.5).contains(&below), "a({w}) is {below} too low");
    }
}

/// §3's response function: at a loss rate p the mean window is 0.12/p^0.835. A saw tooth with one
/// loss per tooth follows it, except for what the table's whole segments lose of a(w), which is
/// most where a(w) is two or three.
#[test]
fn saw_tooth_follows_the_response_function_of_the_rfc() {
    for peak in [500_u32, 1_000, 5_000, 20_000, 60_000] {
        let mut law = HighSpeed::default();
        let mut window = window(peak);
        window.cwnd_bytes = law.lost(&window, window.cwnd_bytes, Nanos::ZERO);
        window.ssthresh_bytes = window.cwnd_bytes;
        let (mut sent, mut rounds) = (0_u64, 0_u64);
        while window.cwnd_bytes < peak * SMSS {
            let flight = window.cwnd_bytes / SMSS;
            for _ in 0..flight {
                law.acked(&mut window, &ack(SMSS));
            }
            sent += u64::from(flight);
            rounds += 1;
        }
        let mean = sent as f64 / rounds as f64;
        let expected = 0.12 * (sent as f64).powf(0.835);
        let ratio = mean / expected;
        assert!(
            (0.85..1.05).contains(&ratio),
            "peak {peak}: mean {mean:.0}, the RFC's {expected:.0}"
        );
    }
}

#[test]
fn a_timeout_halves_however_large_the_window_is() {
    let mut law = HighSpeed::default();
    let window = window(10_000);
    let flight = 10_000 * SMSS;
    assert_eq!(law.timed_out(&window, flight, Nanos::ZERO), flight / 2);
    assert!(law.lost(&window, flight, Nanos::ZERO) > flight / 4 * 3);
    assert_eq!(
        law.marked(&window, Nanos::ZERO),
        law.lost(&window, flight, Nanos::ZERO)
    );
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Acked(u32),
    Lost,
    TimedOut,
    Marked,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        40 => (1..=2 * SMSS).prop_map(Event::Acked),
        1 => Just(Event::Lost),
        1 => Just(Event::TimedOut),
        1 => Just(Event::Marked),
    ]
}

/// Applies an event to the window as a sender does.
fn apply(law: &mut impl Control, window: &mut Window, event: Event) {
    let flight = window.cwnd_bytes;
    let (ssthresh, cwnd) = match event {
        Event::Acked(bytes) => return law.acked(window, &ack(bytes.min(flight))),
        Event::Lost => {
            let ssthresh = law.lost(window, flight, Nanos::ZERO);
            (ssthresh, ssthresh)
        }
        Event::Marked => {
            let ssthresh = law.marked(window, Nanos::ZERO);
            (ssthresh, ssthresh)
        }
        Event::TimedOut => (law.timed_out(window, flight, Nanos::ZERO), SMSS),
    };
    (window.ssthresh_bytes, window.cwnd_bytes) = (ssthresh, cwnd);
}

proptest! {
    #[test]
    fn below_low_window_equals_newreno(events in prop::collection::vec(event(), 1..2_000)) {
        let (mut fast, mut standard) = (HighSpeed::default(), NewReno::default());
        let mut windows = [window(10); 2];
        for event in events {
            apply(&mut fast, &mut windows[0], event);
            apply(&mut standard, &mut windows[1], event);
            prop_assert_eq!(windows[0], windows[1], "{:?}", event);
            if windows[0].cwnd_bytes >= 38 * SMSS {
                let cut = Event::Lost;
                apply(&mut fast, &mut windows[0], cut);
                apply(&mut standard, &mut windows[1], cut);
            }
        }
    }

    #[test]
    fn a_larger_window_grows_no_slower_and_is_reduced_by_a_smaller_fraction(
        segments in 1_u32..100_000,
        more in 1_u32..50_000,
    ) {
        let larger = segments + more;
        prop_assert!(increase_q16(&window(larger)) >= increase_q16(&window(segments)));
        let part = |w: u32| f64::from(cut(w * 100, 100)) / f64::from(w);
        prop_assert!(segments < 4 || part(larger) >= part(segments) - 1.0);
    }
}
