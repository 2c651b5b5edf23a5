//! Whole transfers through a network that loses, delays, duplicates and reorders.

use crate::pipe::{Pipe, Random, Weather};
use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, Reduction, SpuriousTimeout};

/// Runs a transfer to its end: every byte delivered, both ends closed.
fn transfer(config: &Config, weather: Weather, seed: u64, bytes: u64) -> Pipe {
    let mut pipe = Pipe::new(config, config, weather, seed);
    pipe.open();
    pipe.write(true, bytes);
    pipe.finish(true);
    pipe.run(|pipe| pipe.server.totals().delivered_bytes == bytes);
    pipe.finish(false);
    pipe.run(|pipe| pipe.client.is_closed() && pipe.server.is_closed());
    let again = format!(
        "cargo test -p uc-tcp --test all transfers::; {}",
        pipe.label()
    );
    assert_eq!(pipe.server.totals().delivered_bytes, bytes, "{again}");
    assert_eq!(pipe.client.totals().acknowledged_bytes, bytes, "{again}");
    assert!(
        pipe.client.is_closed() && pipe.server.is_closed(),
        "{again}"
    );
    assert_eq!(pipe.watched[0].fresh_bytes, bytes, "{again}");
    pipe
}

#[test]
fn a_path_without_faults_needs_no_retransmission() {
    for config in [Config::default(), Config::textbook()] {
        let pipe = transfer(&config, Weather::default(), 1, 3_000_000);
        let totals = pipe.client.totals();
        assert_eq!(totals.retransmits, 0);
        assert_eq!(totals.timeouts, 0);
        assert_eq!(totals.sent_bytes, 3_000_000);
    }
}

#[test]
fn a_single_loss_is_repaired_without_a_timeout() {
    for config in [Config::default(), Config::textbook()] {
        for lose_nth in [1, 5, 40] {
            let weather = Weather {
                lose_nth,
                ..Weather::default()
            };
            let totals = *transfer(&config, weather, 1, 1_000_000).client.totals();
            assert_eq!(totals.timeouts, 0, "segment {lose_nth} of {config:?}");
            assert_eq!((totals.retransmits, totals.fast_recoveries), (1, 1));
        }
    }
}

#[test]
fn an_overflowing_queue_never_leaves_its_link_idle() {
    for sack in [false, true] {
        for queue in [20, 100] {
            let config = Config {
                sack,
                ..Config::default()
            };
            let weather = Weather {
                segment_us: 1_000,
                queue,
                ..Weather::default()
            };
            let mut pipe = Pipe::new(&config, &config, weather, 1);
            pipe.open();
            pipe.write(true, u64::MAX);
            pipe.run_until(Nanos::from_secs(60));
            let segments = pipe.server.totals().delivered_bytes / 1448;
            let timeouts = pipe.client.totals().timeouts;
            assert!(
                segments > 59_000,
                "{segments} of 60000, SACK {sack}, queue {queue}"
            );
            // without SACK the overshoot of the first slow start costs one timeout
            assert!(
                timeouts <= 2,
                "{timeouts} timeouts, SACK {sack}, queue {queue}"
            );
        }
    }
}

fn any_config(random: &mut Random) -> Config {
    let laws = [
        CongestionControl::NewReno,
        CongestionControl::NewRenoByAcks,
        CongestionControl::Cubic,
        CongestionControl::Dctcp {
            gain_shift: 4,
            initial_alpha_q10: 1024,
        },
        CongestionControl::HighSpeed,
        CongestionControl::Vegas,
        CongestionControl::Illinois,
    ];
    let answers = [
        SpuriousTimeout::Ignored,
        SpuriousTimeout::Halve,
        SpuriousTimeout::Undo,
    ];
    Config {
        congestion_control: laws[random.below(laws.len() as u64) as usize],
        ecn: random.permille(500),
        sack: random.permille(500),
        timestamps: random.permille(500),
        wscale: [None, Some(0), Some(7), Some(10)][random.below(4) as usize],
        mss_bytes: [1460, 536, 9000][random.below(3) as usize],
        receive_buffer_bytes: [4_000, 65_535, 200_000, 6 << 20][random.below(4) as usize],
        initial_window_segments: 1 + random.below(20) as u8,
        rto_min: Nanos::from_millis([0, 10, 200][random.below(3) as usize]),
        spurious_timeout: answers[random.below(3) as usize],
        delayed_ack: [None, Some(Nanos::from_millis(40))][random.below(2) as usize],
        limited_transmit: random.permille(500),
        nagle: random.permille(500),
        cwnd_validation: random.permille(500),
        any_window_duplicates: random.permille(500),
        timeout_keeps_ssthresh: random.permille(500),
        reduction: [Reduction::Jump, Reduction::Proportional][random.below(2) as usize],
        ..Config::default()
    }
}

#[test]
fn every_byte_arrives_whatever_the_network_does() {
    for seed in 0..8_000 {
        let mut random = Random(seed ^ 0x5eed);
        let config = any_config(&mut random);
        let weather = Weather {
            loss: random.below(150),
            duplication: random.below(50),
            reordering: random.below(200),
            marking: random.below(300),
            ack_loss: random.below(150),
            segment_us: [0, 100, 1_000][random.below(3) as usize],
            queue: 3 + random.below(50),
            lose_nth: 0,
        };
        transfer(&config, weather, seed, 1 + random.below(400_000));
    }
}
