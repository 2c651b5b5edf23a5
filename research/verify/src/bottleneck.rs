//! A bottleneck over which f and g∘T run separately, and the ratios of their results.

use serde::{Deserialize, Serialize};
use uc_core::{COMPILED, Policy};
use uc_net::Nanos;
use uc_net::random::Stream;
use uc_tcp::Segment;

use crate::element::{Element, Translator, Wire};
use crate::plan::{After, Burst, Direction, Plan};
use crate::world::{Cause, Hosts, Observer, State, World};

/// Length of each run, in base round-trip times.
const ROUND_TRIPS: u64 = 600;
/// Initial window of both senders, in segments.
pub(crate) const INITIAL_WINDOW_SEGMENTS: u8 = 10;

/// The writes of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// As much data as TCP takes, in full segments.
    Endless,
    /// 1 to 3,000 bytes at a time.
    Odd,
}

/// Draws one flow over a bottleneck of 3 to 100 Mb/s that holds a few round trips' worth of
/// packets.
pub(crate) fn draw(seed: u64, number: u64, writes: Writes) -> Plan {
    let mut random = Stream::new(seed, &format!("bottleneck {number}"));
    let packet_us = 120 << random.below(6);
    let delay_us = (500 << random.below(6)) as u32;
    let mark_packets = 3 + random.below(20) as u32;
    // a few random marks in addition to the bottleneck's
    let marked_ppm = 500 << random.below(5);
    let lost_ppm = 200 << random.below(5);
    let numbers = 1..40_000;
    let marked = numbers
        .clone()
        .filter(|_| random.chance_ppm(marked_ppm))
        .collect();
    let lost = numbers.filter(|_| random.chance_ppm(lost_ppm)).collect();
    Plan {
        iss: 0,
        mss_bytes: 1_460,
        initial_window_segments: INITIAL_WINDOW_SEGMENTS,
        receive_buffer_segments: 44,
        packets: 1_000_000,
        data: Direction {
            delay_us,
            packet_us: packet_us as u32,
            queue_packets: 2 * mark_packets,
            mark_packets,
            lost,
            marked,
            ..Direction::default()
        },
        acks: Direction {
            delay_us,
            ..Direction::default()
        },
        bursts: bursts(&mut random, writes),
        stalls: Vec::new(),
        handovers: Vec::new(),
    }
}

fn bursts(random: &mut Stream, writes: Writes) -> Vec<Burst> {
    let write = |segments, odd_bytes| Burst {
        after: After::Sent,
        pause_us: 0,
        pause_rto_permille: 0,
        segments,
        odd_bytes,
    };
    match writes {
        Writes::Endless => vec![write(1_000_000, 0)],
        Writes::Odd => (0..60_000)
            .map(|_| write(0, 1 + random.below(3_000) as u32))
            .collect(),
    }
}

/// What is measured in one run of a sender.
#[derive(Clone, Debug, Default)]
struct Measure {
    bytes: u64,
    /// Integral of the bytes in flight over time, in byte nanoseconds.
    flight_byte_ns: u128,
    since: Nanos,
    flight_bytes: u32,
    /// Hash over all transmissions of the run.
    hash: u64,
}

impl Observer for Measure {
    fn sent(&mut self, now: Nanos, segment: &Segment) -> bool {
        let bits = u64::from(segment.flags) << 8 | u64::from(segment.ecn.bits());
        for word in [
            now.0,
            u64::from(segment.seq),
            u64::from(segment.payload_bytes),
            bits,
        ] {
            // FNV-1a, by words
            self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01b3);
        }
        true
    }

    fn acted(&mut self, now: Nanos, _: &Cause, _: &State, after: &State) -> bool {
        let span = u128::from(now.since(self.since).0);
        self.flight_byte_ns += u128::from(self.flight_bytes) * span;
        self.since = now;
        self.flight_bytes = after.info.flight_bytes;
        self.bytes = after.totals.acknowledged_bytes;
        true
    }
}

fn measure<E: Element>(plan: &Plan, hosts: &Hosts, until: Nanos, element: E) -> Measure {
    let hosts = Hosts {
        until,
        ..hosts.clone()
    };
    let mut measure = Measure::default();
    World::new(plan, &hosts, element, &mut measure).run();
    measure
}

/// The two senders of a comparison by their results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Senders<'a> {
    /// Hosts of the native sender f.
    pub f: &'a Hosts,
    /// Hosts of the guest's TCP g, under the translator.
    pub g: &'a Hosts,
    /// Policy of the translator T at the guest's port.
    pub policy: Policy,
    /// Whether T strips the guest's ECN offer.
    pub strips_ecn: bool,
}

/// Results of g∘T divided by those of f, over a number of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Number of flows in which every transmission was the same.
    pub identical: u64,
    /// Ratios of the guest's acknowledged bytes to the native sender's, one for each flow, ascending.
    rates: Vec<f64>,
    /// Ratios of the guest's bytes in flight (mean over time) to the native sender's, one for each flow, ascending.
    windows: Vec<f64>,
}

impl Ratios {
    /// Runs both senders over the network of each plan.
    pub(crate) fn measured(senders: Senders<'_>, plans: impl Iterator<Item = Plan>) -> Ratios {
        let mut ratios = Ratios::default();
        for plan in plans {
            let round_trip_us = 2 * u64::from(plan.data.delay_us) + u64::from(plan.data.packet_us);
            let until = Nanos::from_micros(ROUND_TRIPS * round_trip_us);
            let native = measure(&plan, senders.f, until, Wire);
            let translator = Translator::new(COMPILED, senders.policy, senders.strips_ecn);
            let translated = measure(&plan, senders.g, until, translator);
            ratios.identical += u64::from(native.hash == translated.hash);
            let rate = translated.bytes as f64 / native.bytes.max(1) as f64;
            ratios.rates.push(rate);
            let window = translated.flight_byte_ns as f64 / native.flight_byte_ns.max(1) as f64;
            ratios.windows.push(window);
        }
        ratios.rates.sort_by(f64::total_cmp);
        ratios.windows.sort_by(f64::total_cmp);
        ratios
    }

    /// Formats the ratio of the rates: median (5 % to 95 %).
    pub fn rate(&self) -> String {
        spread(&self.rates)
    }

    /// Formats the ratio of the windows: median (5 % to 95 %).
    pub fn window(&self) -> String {
        spread(&self.windows)
    }
}

fn spread(sorted: &[f64]) -> String {
    let at = |permille: usize| {
        let index = sorted.len().saturating_sub(1) * permille / 1_000;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    format!("{:.3} ({:.3} to {:.3})", at(500), at(50), at(950))
}
