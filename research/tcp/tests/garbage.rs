//! Segments that no honest peer sends: no end panics or acknowledges data that was never sent.

use crate::pipe::Random;
use uc_net::{Ecn, Nanos};
use uc_tcp::{Config, CongestionControl, Connection, Options, SackBlocks, Segment, flags};

const SEEDS: u64 = 8_000;
const SEGMENTS: u64 = 150;

/// Draws a number near `place`, or any number.
fn near(random: &mut Random, place: u32) -> u32 {
    match random.below(8) {
        0 => random.next() as u32,
        1 | 2 => place
            .wrapping_add(random.below(40_000) as u32)
            .wrapping_sub(20_000),
        3 | 4 => place.wrapping_add(1448 * random.below(12) as u32),
        _ => place,
    }
}

struct Guess {
    seq: u32,
    ack: u32,
}

fn segment(random: &mut Random, guess: &Guess) -> Segment {
    let mut sack = SackBlocks::default();
    for _ in 0..random.below(4) {
        let from = near(random, guess.ack);
        sack.push(from, from.wrapping_add(1448 * random.below(5) as u32));
    }
    let rare = [flags::SYN, flags::FIN, flags::RST, flags::ACK];
    let mut bits = flags::ACK | (random.next() as u8 & (flags::ECE | flags::CWR | flags::PSH));
    if random.permille(60) {
        bits ^= rare[random.below(4) as usize];
    }
    Segment {
        seq: near(random, guess.seq),
        ack: near(random, guess.ack),
        window: [0, 1, 500, 65_535, 65_535, 65_535, 65_535][random.below(7) as usize],
        payload_bytes: [0, 0, 0, 1, 1448, 65_535][random.below(6) as usize],
        flags: bits,
        ecn: Ecn::from_bits(random.next() as u8),
        options: Options {
            mss_bytes: [0, 1, 1460][random.below(3) as usize],
            wscale: [None, Some(3), Some(255)][random.below(3) as usize],
            sack_permitted: random.permille(500),
            timestamps: random.permille(800).then_some((random.below(9) as u32, 1)),
            sack,
        },
    }
}

fn config(random: &mut Random) -> Config {
    let dctcp = CongestionControl::Dctcp {
        gain_shift: 4,
        initial_alpha_q10: 1024,
    };
    let laws = [CongestionControl::NewReno, CongestionControl::Cubic, dctcp];
    let base = if random.permille(200) {
        Config::textbook()
    } else {
        Config::default()
    };
    Config {
        congestion_control: laws[random.below(3) as usize],
        ecn: random.permille(500),
        timestamps: random.permille(300),
        mss_bytes: [1, 100, 1460, u16::MAX][random.below(4) as usize],
        receive_buffer_bytes: [0, 1, 3_000, 1 << 30, u32::MAX][random.below(5) as usize],
        initial_window_segments: random.below(30) as u8,
        initial_ssthresh_bytes: [0, 10_000, u32::MAX][random.below(3) as usize],
        ..base
    }
}

/// Checks what must hold after any input.
fn check(end: &Connection, written: u64, again: &str) {
    let (info, totals) = (end.info(), end.totals());
    assert!(info.cwnd_bytes >= info.smss_bytes, "{info:?}, {again}");
    assert!(totals.acknowledged_bytes <= written, "{totals:?}, {again}");
    assert!(
        totals.retransmitted_bytes <= totals.sent_bytes,
        "{totals:?}, {again}"
    );
    assert!(
        u64::from(info.flight_bytes) <= written + 2,
        "{info:?}, {again}"
    );
    assert!(
        !end.is_closed() || !end.is_established() || end.deadline().is_none(),
        "{again}"
    );
}

#[test]
fn no_segment_makes_an_end_panic_or_acknowledge_more_than_was_written() {
    let (mut established, mut recoveries, mut timeouts) = (0, 0, 0);
    for seed in 0..SEEDS {
        let again = format!("seed {seed}: cargo test -p uc-tcp --test all garbage::");
        let mut random = Random(seed);
        let config = config(&mut random);
        let iss = random.next() as u32;
        let server = random.permille(500);
        let mut end = if server {
            Connection::server(&config, iss)
        } else {
            Connection::client(&config, iss)
        };
        let irs = random.next() as u32;
        let mut guess = Guess {
            seq: irs,
            ack: iss.wrapping_add(1),
        };
        let mut now = Nanos::from_millis(5);
        let (mut written, mut sent) = (0, 0u64);
        end.open(now, &mut |_| sent += 1);
        for index in 0..SEGMENTS {
            now += Nanos(random.below(300_000_000));
            let mut last = guess.ack;
            let mut out = |segment: Segment| {
                sent += 1;
                last = segment.seq.wrapping_add(segment.sequence_bytes());
            };
            match random.below(12) {
                0 => {
                    let bytes = random.below(60_000);
                    written += bytes;
                    end.write(now, bytes, &mut out);
                }
                1 => end.expire(now, &mut out),
                2 => end.set_reading(now, random.permille(500), &mut out),
                3 if index > 100 => end.finish(now, &mut out),
                _ => {
                    let mut segment = segment(&mut random, &guess);
                    if index < 2 {
                        segment.flags = if server {
                            flags::SYN
                        } else {
                            flags::SYN | flags::ACK
                        };
                        (segment.seq, segment.ack) = (irs, iss.wrapping_add(1));
                        guess.seq = irs.wrapping_add(1);
                    } else if random.permille(700) {
                        guess.seq = segment.seq.wrapping_add(segment.sequence_bytes());
                    }
                    end.receive(now, &segment, &mut out);
                }
            }
            if random.permille(200) {
                guess.ack = last;
            }
            check(&end, written, &again);
        }
        assert!(sent < 100_000, "{sent} segments sent, {again}");
        established += u64::from(end.is_established());
        recoveries += u64::from(end.totals().fast_recoveries > 0);
        timeouts += u64::from(end.totals().timeouts > 0);
    }
    // the garbage must reach the code that it is meant for
    let reached = (established, recoveries, timeouts);
    assert!(established > SEEDS / 4, "{reached:?}");
    assert!(
        recoveries > SEEDS / 50 && timeouts > SEEDS / 10,
        "{reached:?}"
    );
}
