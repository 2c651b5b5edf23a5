//! Starts and ends of connections: lost handshakes, dead peers, both directions at once.

use crate::pipe::{Pipe, Random, Weather};
use uc_net::{Ecn, Nanos};
use uc_tcp::{Config, CongestionControl, flags};

#[test]
fn an_end_without_an_answer_gives_up_after_three_minutes_and_stops_its_timer() {
    let lost = Weather {
        loss: 1000,
        ack_loss: 1000,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&Config::default(), &Config::default(), lost, 1);
    pipe.open();
    pipe.write(true, 1000);
    pipe.run(|_| false);
    assert!(pipe.client.is_closed() && pipe.client.deadline().is_none());
    assert!(pipe.now >= Nanos::from_secs(180), "after {}", pipe.now);
    assert!(pipe.now < Nanos::from_secs(600), "after {}", pipe.now);
}

#[test]
fn a_peer_that_falls_silent_is_given_up_however_short_the_timeouts_are() {
    let config = Config {
        rto_min: Nanos::from_micros(200),
        rto_max: Nanos::from_millis(100),
        ..Config::default()
    };
    let mut pipe = Pipe::new(&config, &config, Weather::default(), 1);
    pipe.open();
    pipe.write(true, u64::MAX);
    pipe.run_until(Nanos::from_secs(1));
    pipe.weather.loss = 1000;
    pipe.weather.ack_loss = 1000;
    pipe.run(|pipe| pipe.client.is_closed());
    assert!(pipe.client.is_closed() && pipe.client.deadline().is_none());
    assert!(pipe.now >= Nanos::from_secs(100), "after {}", pipe.now);
}

#[test]
fn a_transfer_continues_after_an_outage_of_a_minute() {
    for config in [Config::default(), Config::textbook()] {
        let mut pipe = Pipe::new(&config, &config, Weather::default(), 1);
        pipe.open();
        pipe.write(true, 5_000_000);
        pipe.run_until(Nanos::from_millis(60));
        pipe.weather.loss = 1000;
        pipe.run_until(Nanos::from_secs(60));
        pipe.weather.loss = 0;
        pipe.run(|pipe| pipe.server.totals().delivered_bytes == 5_000_000);
        assert_eq!(pipe.server.totals().delivered_bytes, 5_000_000);
        let timeouts = pipe.client.totals().timeouts;
        assert!(
            (5..=10).contains(&timeouts),
            "{timeouts} timeouts: the backoff doubles"
        );
    }
}

#[test]
fn both_directions_carry_data_at_once() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let weather = Weather {
            loss: random.below(100),
            ack_loss: random.below(100),
            reordering: random.below(200),
            duplication: random.below(50),
            marking: random.below(200),
            ..Weather::default()
        };
        let config = Config {
            ecn: random.permille(500),
            sack: random.permille(500),
            timestamps: random.permille(500),
            ..Config::default()
        };
        let mut pipe = Pipe::new(&config, &config, weather, seed);
        let again = format!("cargo test -p uc-tcp --test all lives::; {}", pipe.label());
        let (up, down) = (1 + random.below(200_000), 1 + random.below(200_000));
        pipe.open();
        pipe.write(true, up);
        pipe.write(false, down);
        pipe.finish(true);
        pipe.finish(false);
        pipe.run(|pipe| pipe.client.is_closed() && pipe.server.is_closed());
        assert_eq!(pipe.server.totals().delivered_bytes, up, "{again}");
        assert_eq!(pipe.client.totals().delivered_bytes, down, "{again}");
        assert!(
            pipe.client.is_closed() && pipe.server.is_closed(),
            "{again}"
        );
        assert!(
            pipe.next_at()
                .is_none_or(|at| at < pipe.now + Nanos::from_secs(130)),
            "{again}"
        );
    }
}

#[test]
fn requests_and_responses_alternate_on_one_connection() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let weather = Weather {
            loss: random.below(100),
            ack_loss: random.below(100),
            ..Weather::default()
        };
        let config = Config::default();
        let mut pipe = Pipe::new(&config, &config, weather, seed);
        let again = format!("cargo test -p uc-tcp --test all lives::; {}", pipe.label());
        pipe.open();
        let (mut asked, mut answered) = (0, 0);
        for _ in 0..20 {
            let (request, response) = (1 + random.below(500), 1 + random.below(30_000));
            asked += request;
            pipe.write(true, request);
            pipe.run(|pipe| pipe.server.totals().delivered_bytes == asked);
            answered += response;
            pipe.write(false, response);
            pipe.run(|pipe| pipe.client.totals().delivered_bytes == answered);
            assert_eq!(pipe.client.totals().delivered_bytes, answered, "{again}");
            let pause = Nanos::from_millis(random.below(2_000));
            pipe.run_until(pipe.now + pause);
        }
    }
}

/// Runs a marked transfer with everything logged.
fn marked(law: CongestionControl, marking: u64, loss: u64) -> Pipe {
    let config = Config {
        congestion_control: law,
        ecn: true,
        ..Config::default()
    };
    let weather = Weather {
        marking,
        loss,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&config, &config, weather, 3);
    pipe.trace = true;
    pipe.open();
    pipe.write(true, 2_000_000);
    pipe.run(|pipe| pipe.client.totals().acknowledged_bytes == 2_000_000);
    assert_eq!(pipe.client.totals().acknowledged_bytes, 2_000_000);
    pipe
}

#[test]
fn a_classic_sender_sets_ect_on_new_data_alone_and_cwr_once_per_reduction() {
    let pipe = marked(CongestionControl::NewReno, 100, 20);
    let totals = pipe.client.totals();
    assert!(totals.retransmits > 5 && totals.ecn_cuts > 5, "{totals:?}");
    assert_eq!(pipe.watched[0].ect_again, 0);
    let mut reduced = 0;
    for (_, from_client, segment) in &pipe.log {
        let data = *from_client && segment.payload_bytes > 0;
        let capable = segment.ecn != Ecn::NotEct;
        assert!(
            data || !capable,
            "a segment without data says ECT: {segment:?}"
        );
        assert!(
            data || segment.has(flags::SYN) || !segment.has(flags::CWR),
            "{segment:?}"
        );
        reduced += u64::from(data && segment.has(flags::CWR));
    }
    let reductions = totals.ecn_cuts + totals.fast_recoveries + totals.timeouts;
    // where a loss follows a mark before new data is sent, one CWR serves both
    let said = totals.ecn_cuts..=reductions;
    assert!(said.contains(&reduced), "{reduced} of {totals:?}");
}

#[test]
fn marks_on_every_segment_reduce_once_per_round_trip_and_never_stop_the_transfer() {
    let pipe = marked(CongestionControl::NewReno, 1000, 0);
    let round_trips = pipe.now.0 / Nanos::from_millis(20).0;
    let cuts = pipe.client.totals().ecn_cuts;
    assert!(
        cuts <= round_trips && cuts > round_trips / 3,
        "{cuts} cuts, {round_trips} rounds"
    );
}

#[test]
fn a_dctcp_receiver_echoes_every_mark_exactly() {
    let dctcp = CongestionControl::Dctcp {
        gain_shift: 4,
        initial_alpha_q10: 0,
    };
    let pipe = marked(dctcp, 250, 0);
    // bytes that ACKs with ECE acknowledge, against bytes that arrived marked: all segments are
    // full but the last
    let mut acked = None;
    let mut echoed_bytes = 0;
    for (_, from_client, segment) in &pipe.log {
        if *from_client || segment.has(flags::SYN) {
            continue;
        }
        let before = acked.replace(segment.ack).unwrap_or(segment.ack);
        if segment.has(flags::ECE) {
            echoed_bytes += u64::from(segment.ack.wrapping_sub(before));
        }
    }
    let marked_bytes = pipe.server.totals().ce_received * 1448;
    assert!(marked_bytes > 100_000);
    assert!(
        echoed_bytes.abs_diff(marked_bytes) <= 2 * 1448,
        "{echoed_bytes}, {marked_bytes}"
    );
    let alpha = pipe.client.info().alpha_q10;
    assert!(
        (100..450).contains(&alpha),
        "a quarter is marked, alpha is {alpha}/1024"
    );
}

#[test]
fn a_mark_at_a_window_of_one_segment_stops_new_data_for_a_timeout() {
    let config = Config {
        ecn: true,
        initial_window_segments: 1,
        ..Config::default()
    };
    let weather = Weather {
        marking: 1000,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&config, &config, weather, 1);
    pipe.trace = true;
    pipe.open();
    pipe.write(true, 10 * 1448);
    pipe.run(|pipe| pipe.client.totals().acknowledged_bytes == 10 * 1448);
    let data = pipe
        .log
        .iter()
        .filter(|(_, client, segment)| *client && segment.payload_bytes > 0);
    let times: Vec<Nanos> = data.map(|&(at, _, _)| at).collect();
    // RFC 3168 §6.1.2: the timer restarts with the ACK's arrival (20 or, delayed, 60 ms later)
    let pause = times[1].since(times[0]);
    assert!(
        pause >= Nanos::from_millis(220),
        "only {pause} between the first two segments"
    );
    assert_eq!(pipe.client.totals().timeouts, 0, "a pause is no timeout");
    assert_eq!(times.len(), 10, "nothing is sent twice");
}
