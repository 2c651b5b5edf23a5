//! Receive windows: they close and open again, and nothing hangs or overflows meanwhile.

use crate::pipe::{Pipe, Random, Weather};
use uc_net::Nanos;
use uc_tcp::Config;

fn config(random: &mut Random) -> Config {
    Config {
        sack: random.permille(500),
        timestamps: random.permille(500),
        wscale: [None, Some(0), Some(7), Some(10)][random.below(4) as usize],
        receive_buffer_bytes: [2_000, 10_000, 65_535, 300_000][random.below(4) as usize],
        delayed_ack: [None, Some(Nanos::from_millis(40))][random.below(2) as usize],
        nagle: random.permille(500),
        ..Config::default()
    }
}

#[test]
fn a_stopped_reader_fills_its_buffer_once_and_gets_the_rest_on_resuming() {
    for seed in 0..1_000 {
        let mut random = Random(seed);
        let config = config(&mut random);
        let lossy = random.permille(500);
        let weather = Weather {
            loss: if lossy { random.below(60) } else { 0 },
            ack_loss: if lossy { random.below(60) } else { 0 },
            ..Weather::default()
        };
        let bytes = 100_000 + random.below(400_000);
        let mut pipe = Pipe::new(&config, &config, weather, seed);
        let again = format!(
            "cargo test -p uc-tcp --test all windows::; {}",
            pipe.label()
        );
        pipe.open();
        pipe.write(true, bytes);
        pipe.finish(true);
        let mut taken = 0;
        for _ in 0..3 {
            pipe.run_until(pipe.now + Nanos::from_millis(random.below(300)));
            pipe.set_reading(false, false);
            taken = pipe.server.totals().delivered_bytes;
            pipe.run_until(pipe.now + Nanos::from_secs(20));
            assert_eq!(pipe.server.totals().delivered_bytes, taken, "{again}");
            // a scaled window can promise up to a unit more than is free
            let grain = 1 << config.wscale.unwrap_or(0);
            let most = taken + u64::from(config.receive_buffer_bytes) + grain;
            let acknowledged = pipe.client.totals().acknowledged_bytes;
            assert!(acknowledged < most, "{acknowledged} of {most}, {again}");
            let full =
                lossy || acknowledged == bytes || pipe.watched[1].window < config.mss_bytes.into();
            assert!(full, "{acknowledged} of {bytes}, {again}");
            pipe.set_reading(false, true);
        }
        pipe.run(|pipe| pipe.client.totals().acknowledged_bytes == bytes);
        assert_eq!(pipe.server.totals().delivered_bytes, bytes, "{again}");
        assert!(bytes > taken || pipe.now > Nanos::from_secs(60), "{again}");
    }
}

#[test]
fn a_lost_window_update_costs_only_a_probe() {
    let config = Config {
        receive_buffer_bytes: 10_000,
        ..Config::default()
    };
    let mut pipe = Pipe::new(&config, &config, Weather::default(), 7);
    pipe.open();
    pipe.write(true, 100_000);
    pipe.run_until(Nanos::from_millis(25));
    pipe.set_reading(false, false);
    pipe.run_until(Nanos::from_secs(4));
    assert_eq!(pipe.watched[1].window, 0);
    pipe.weather.ack_loss = 1000;
    pipe.set_reading(false, true);
    pipe.weather.ack_loss = 0;
    pipe.run(|pipe| pipe.server.totals().delivered_bytes == 100_000);
    assert_eq!(pipe.server.totals().delivered_bytes, 100_000);
    assert_eq!(pipe.client.totals().timeouts, 0, "a probe is no timeout");
}

#[test]
fn a_closed_window_is_probed_ever_less_often_without_end() {
    let config = Config {
        receive_buffer_bytes: 5_000,
        rto_max: Nanos::from_secs(10),
        ..Config::default()
    };
    let mut pipe = Pipe::new(&config, &config, Weather::default(), 7);
    pipe.open();
    pipe.set_reading(false, false);
    pipe.write(true, 100_000);
    pipe.run_until(Nanos::from_secs(60));
    let before = pipe.watched[0].segments;
    pipe.run_until(Nanos::from_secs(660));
    let probes = pipe.watched[0].segments - before;
    assert!(
        (59..=61).contains(&probes),
        "{probes} probes in ten minutes"
    );
    assert!(!pipe.client.is_closed());
    pipe.set_reading(false, true);
    pipe.run(|pipe| pipe.server.totals().delivered_bytes == 100_000);
    assert_eq!(pipe.server.totals().delivered_bytes, 100_000);
}
