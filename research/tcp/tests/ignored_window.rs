//! A host that ignores the window it is given, beside one that obeys.

mod pipe;

use pipe::{Pipe, Weather};
use uc_net::Nanos;
use uc_tcp::Config;
use uc_tcp::config::IGNORED_WINDOW_BYTES;

/// One connection whose receiver holds `buffer_bytes`, behind a bottleneck.
fn connection(ignores_receive_window: bool, buffer_bytes: u32) -> Pipe {
    let sender = Config {
        ignores_receive_window,
        ..Config::default()
    };
    let receiver = Config {
        receive_buffer_bytes: buffer_bytes,
        ..Config::default()
    };
    let weather = Weather {
        segment_us: 100,
        queue: 500,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&sender, &receiver, weather, 1);
    // what the pipe watches is the rule that this host breaks
    pipe.watches_windows = !ignores_receive_window;
    pipe.open();
    pipe.write(true, u64::MAX);
    pipe
}

#[test]
fn more_is_in_flight_than_the_window_that_was_given() {
    let [obeys, ignores] = [false, true].map(|ignores| {
        let mut pipe = connection(ignores, 20_000);
        pipe.run_until(Nanos::from_millis(500));
        pipe.client.info()
    });
    assert!(obeys.flight_bytes <= 20_000, "{obeys:?}");
    assert!(ignores.send_window_bytes <= 20_000, "{ignores:?}");
    assert!(ignores.flight_bytes > 60_000, "{ignores:?}");
    assert!(ignores.flight_bytes <= IGNORED_WINDOW_BYTES);
}

#[test]
fn what_a_receiver_without_room_throws_away_is_sent_again_in_vain() {
    let [obeys, ignores] = [false, true].map(|ignores| {
        let mut pipe = connection(ignores, 20_000);
        pipe.run_until(Nanos::from_millis(100));
        pipe.set_reading(false, false);
        let delivered = pipe.server.totals().delivered_bytes;
        pipe.run_until(Nanos::from_secs(10));
        assert_eq!(pipe.server.totals().delivered_bytes, delivered);
        *pipe.client.totals()
    });
    assert_eq!((obeys.timeouts, obeys.retransmits), (0, 0));
    assert!(ignores.timeouts >= 3, "{ignores:?}");
    assert!(ignores.retransmitted_bytes > 0, "{ignores:?}");
}
