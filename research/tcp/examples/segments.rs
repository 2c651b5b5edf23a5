//! Measures segments per second of one core through two endpoints without a network between them.
//!
//! `cargo run --release -p uc-tcp --example segments [millions of segments]`
//!
//! A bulk transfer with a window of 64 segments, an ACK for each; every segment costs one call.

use std::collections::VecDeque;
use std::time::Instant;

use uc_net::Nanos;
use uc_tcp::{Config, CongestionControl, Connection, Segment};

const WINDOW_BYTES: u32 = 64 * 1460;
const HOP: Nanos = Nanos::from_micros(1);

fn configs() -> Vec<(&'static str, Config)> {
    let textbook = Config {
        receive_buffer_bytes: WINDOW_BYTES,
        wscale: Some(4),
        ..Config::textbook()
    };
    let today = Config {
        receive_buffer_bytes: WINDOW_BYTES,
        ..Config::default()
    };
    let dctcp = Config {
        congestion_control: CongestionControl::Dctcp {
            gain_shift: 4,
            initial_alpha_q10: 1024,
        },
        ..today.clone()
    };
    vec![("textbook", textbook), ("default", today), ("dctcp", dctcp)]
}

/// Carries segments back and forth until `wanted` have arrived, and returns how many arrived.
fn transfer(config: &Config, wanted: u64) -> u64 {
    let mut client = Connection::client(config, 1);
    let mut server = Connection::server(config, 2);
    let mut to_server: VecDeque<Segment> = VecDeque::with_capacity(1024);
    let mut to_client: VecDeque<Segment> = VecDeque::with_capacity(1024);
    let mut now = Nanos::from_millis(1);
    let mut arrived = 0;

    client.open(now, &mut |segment| to_server.push_back(segment));
    client.write(now, u64::MAX, &mut |segment| to_server.push_back(segment));
    while arrived < wanted {
        now += HOP;
        if let Some(segment) = to_server.pop_front() {
            server.receive(now, &segment, &mut |segment| to_client.push_back(segment));
            arrived += 1;
        }
        if let Some(segment) = to_client.pop_front() {
            client.receive(now, &segment, &mut |segment| to_server.push_back(segment));
            arrived += 1;
        }
        if to_server.is_empty() && to_client.is_empty() {
            let due = client.deadline().into_iter().chain(server.deadline()).min();
            now = now.max(due.unwrap_or(now));
            server.expire(now, &mut |segment| to_client.push_back(segment));
            client.expire(now, &mut |segment| to_server.push_back(segment));
        }
    }
    arrived
}

fn main() {
    let millions: u64 = std::env::args()
        .nth(1)
        .and_then(|argument| argument.parse().ok())
        .unwrap_or(20);
    println!("a connection takes {} bytes", size_of::<Connection>());
    for (name, config) in configs() {
        let started = Instant::now();
        let arrived = transfer(&config, millions * 1_000_000);
        let each_ns = started.elapsed().as_nanos() as f64 / arrived as f64;
        let rate = 1_000.0 / each_ns;
        println!("{name}: {each_ns:.1} ns a segment, {rate:.1} million segments per second");
    }
}
