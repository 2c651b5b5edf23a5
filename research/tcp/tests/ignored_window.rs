//! A host that ignores the advertised window, compared with one that obeys it.

use crate::pipe::{Pipe, Weather};
use uc_net::Nanos;
use uc_tcp::Config;
use uc_tcp::config::IGNORED_WINDOW_BYTES;

/// Builds a connection whose receiver holds `buffer_bytes`, behind a bottleneck.
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
    // the pipe watches the rule that this host breaks
    pipe.watches_windows = !ignores_receive_window;
    pipe.open();
    pipe.write(true, u64::MAX);
    pipe
}

#[test]
fn a_host_that_ignores_the_window_has_more_in_flight_than_advertised() {
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
fn data_beyond_a_full_buffer_is_dropped_and_retransmitted_unnecessarily() {
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
