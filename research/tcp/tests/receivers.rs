//! Receivers as hosts have them: windows that autotune, merged segments, ACKs of several segments,
//! SACK blocks on data.

use crate::pipe::{Pipe, Random, Weather};
use uc_net::Nanos;
use uc_tcp::{Coalescing, Config, Segment};

fn receiver() -> Config {
    Config {
        delayed_ack: None,
        timestamps: false,
        ..Config::default()
    }
}

/// Sends `bytes` from a client and, if `both`, from the server. The 75th data segment of the
/// client is lost. Returns what the server sent after that.
fn with_a_loss(server: &Config, bytes: u64, both: bool) -> Vec<Segment> {
    let client = Config {
        sack_on_data: server.sack_on_data,
        ..receiver()
    };
    let weather = Weather {
        lose_nth: 75,
        segment_us: 100,
        queue: 100,
        ..Weather::default()
    };
    let mut pipe = Pipe::new(&client, server, weather, 3);
    pipe.trace = true;
    pipe.open();
    pipe.write(true, bytes);
    if both {
        pipe.write(false, bytes);
    }
    pipe.run(|pipe| {
        let got = [&pipe.server, &pipe.client].map(|end| end.totals().delivered_bytes);
        got[0] == bytes && (!both || got[1] == bytes)
    });
    assert_eq!(pipe.server.totals().delivered_bytes, bytes);
    assert_eq!(pipe.client.totals().timeouts, 0, "SACK repairs the loss");
    let sent = pipe.log.iter().filter(|(_, client, _)| !client);
    sent.map(|&(_, _, segment)| segment).collect()
}

fn is_duplicate(pair: &[Segment]) -> bool {
    pair[0].ack == pair[1].ack && !pair[1].options.sack.as_slice().is_empty()
}

#[test]
fn a_window_that_autotunes_grows_in_duplicate_acks() {
    let fixed = with_a_loss(&receiver(), 300_000, false);
    let tuning = Config {
        autotune_from_bytes: Some(10 * 1460),
        ..receiver()
    };
    let grown = with_a_loss(&tuning, 300_000, false);
    let growing = |sent: &[Segment]| {
        let duplicates = sent.windows(2).filter(|pair| is_duplicate(pair));
        duplicates
            .filter(|pair| pair[1].window > pair[0].window)
            .count()
    };
    assert_eq!(growing(&fixed), 0);
    assert!(growing(&grown) > 3, "{}", growing(&grown));
    let last = |sent: &[Segment]| sent[sent.len() - 1].window;
    assert!(last(&grown) > 4 * grown[2].window);
    assert!(fixed[2].window.abs_diff(last(&fixed)) < 20);
}

#[test]
fn merged_segments_get_one_ack_also_out_of_order() {
    let merging = Config {
        coalescing: Some(Coalescing {
            segments: 4,
            within: Nanos::from_millis(1),
        }),
        ..receiver()
    };
    let single = with_a_loss(&receiver(), 300_000, false);
    let merged = with_a_loss(&merging, 300_000, false);
    assert!(3 * merged.len() < single.len(), "{}", merged.len());
    let grows = |pair: &&[Segment]| {
        let first = |segment: &Segment| segment.options.sack.as_slice().first().copied();
        let [Some(old), Some(new)] = [first(&pair[0]), first(&pair[1])] else {
            return false;
        };
        is_duplicate(pair) && old.0 == new.0 && new.1.wrapping_sub(old.1) == 4 * 1460
    };
    assert!(merged.windows(2).filter(grows).count() > 2);
}

#[test]
fn a_stretch_ack_covers_as_many_segments_as_the_receiver_waits_for() {
    let stretching = Config {
        delayed_ack: Some(Nanos::from_millis(40)),
        ack_segments: 6,
        ..receiver()
    };
    let sent = with_a_loss(&stretching, 300_000, false);
    let covered = |pair: &[Segment]| pair[1].ack.wrapping_sub(pair[0].ack);
    let sixes = sent.windows(2).filter(|pair| covered(pair) == 6 * 1460);
    assert!(sixes.count() > 10);
}

#[test]
fn after_three_duplicate_acks_one_answers_many_segments() {
    let compressing = Config {
        compressed_sacks: Some(Nanos::from_millis(1)),
        ..receiver()
    };
    let sent = with_a_loss(&compressing, 600_000, false);
    let all = with_a_loss(&receiver(), 600_000, false);
    let duplicates = |sent: &[Segment]| sent.windows(2).filter(|pair| is_duplicate(pair)).count();
    let [few, many] = [duplicates(&sent), duplicates(&all)];
    assert!(few >= 4 && 2 * few < many, "{few} of {many}");
}

#[test]
fn data_segments_carry_sack_blocks_and_duplicate_acks() {
    let sent_by = |sack_on_data| {
        let config = Config {
            sack_on_data,
            ..receiver()
        };
        with_a_loss(&config, 300_000, true)
    };
    let on_data = |sent: &[Segment]| {
        let duplicates = sent.windows(2).filter(|pair| is_duplicate(pair));
        duplicates
            .filter(|pair| pair[1].payload_bytes > 1_000)
            .count()
    };
    assert_eq!(on_data(&sent_by(false)), 0);
    let sent = sent_by(true);
    assert!(on_data(&sent) > 5, "{}", on_data(&sent));
    let size = |segment: &Segment| u32::from(segment.payload_bytes) + segment.header_bytes();
    assert!(sent.iter().all(|segment| size(segment) <= 1_480));
}

#[test]
fn every_byte_arrives_at_such_receivers_whatever_the_network_does() {
    for seed in 0..600 {
        let mut random = Random(seed);
        let mut end = || Config {
            sack: random.permille(800),
            dsack: random.permille(500),
            timestamps: random.permille(500),
            wscale: [None, Some(7)][random.below(2) as usize],
            receive_buffer_bytes: [10_000, 65_535, 1 << 20][random.below(3) as usize],
            delayed_ack: [None, Some(Nanos::from_millis(40))][random.below(2) as usize],
            ack_segments: 2 + random.below(6) as u8,
            coalescing: random.permille(500).then(|| Coalescing {
                segments: 2 + random.below(16) as u8,
                within: Nanos::from_micros(random.below(500)),
            }),
            compressed_sacks: random
                .permille(500)
                .then(|| Nanos::from_micros(random.below(1_000))),
            sack_on_data: random.permille(500),
            new_acks_set_window: random.permille(500),
            autotune_from_bytes: random
                .permille(500)
                .then(|| 3_000 + random.below(20_000) as u32),
            ..Config::default()
        };
        let [client, server] = [end(), end()];
        let weather = Weather {
            loss: random.below(80),
            ack_loss: random.below(80),
            duplication: random.below(30),
            reordering: random.below(80),
            segment_us: random.below(200),
            queue: 5 + random.below(100),
            ..Weather::default()
        };
        let both = random.permille(500);
        let back = if both { random.below(300_000) } else { 0 };
        let bytes = [1 + random.below(300_000), back];
        let mut pipe = Pipe::new(&client, &server, weather, seed);
        // a retransmission that acknowledges more sets no window (RFC 9293 §3.10.7.4), so with data
        // both ways the edge that a sender knows may lie a little beyond the one advertised
        pipe.watches_windows = !both;
        pipe.open();
        pipe.write(true, bytes[0]);
        pipe.write(false, bytes[1]);
        let delivered =
            |pipe: &Pipe| [&pipe.server, &pipe.client].map(|end| end.totals().delivered_bytes);
        pipe.run(|pipe| delivered(pipe) == bytes);
        let again = "cargo test -p uc-tcp --test all receivers::";
        assert_eq!(delivered(&pipe), bytes, "{again}; {}", pipe.label());
    }
}
