//! The theorems' assumptions, relaxed one by one: how far f and g∘T then are apart.
//!
//! The two are not compared segment by segment, since after the first difference they get different
//! networks. Each runs by itself over the same bottleneck for the same time: a queue that marks
//! from a threshold on and drops when it is full, with the same packet numbers marked and lost in
//! addition. The results are compared: bytes acknowledged (the rate) and the mean over time of the
//! bytes in flight (the window).

use std::fmt::Write;

use uc_core::{Compiled, Policy, consts};
use uc_net::Nanos;
use uc_net::random::Stream;
use uc_tcp::{Config, CongestionControl, Segment};

use crate::element::{Element, Translator, Wire};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::{After, Burst, Plan, Way};
use crate::world::{Cause, Hosts, Observer, State, World};

/// Length of each run, in base round-trip times.
const ROUND_TRIPS: u64 = 600;
const INITIAL_WINDOW_SEGMENTS: u8 = 10;

/// An assumption of the theorems. Relaxed, both senders have what it excludes, unless stated
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// All assumptions hold.
    AllHold,
    /// Segments take 100 µs between guest and port, either way.
    NoHostDelay,
    /// The receiver delays its ACKs by up to 40 ms, or two segments.
    AckForEachSegment,
    /// The receiver's windows come in units of 128 bytes.
    NoScale7,
    /// The receiver's windows come in units of 1,024 bytes.
    NoScale10,
    /// Writes of 1 to 3,000 bytes; Nagle's rule holds segments below the MSS back.
    FullSegments,
    /// Limited transmit (RFC 3042).
    NoLimitedTransmit,
    /// SACK (RFC 2018 and RFC 6675).
    NoSack,
    /// The guest counts an ACK as a duplicate only if its window is that of the last (RFC 5681 §2).
    DuplicatesByNumber,
    /// The guest grows by RFC 9438 and reduces by a factor of 0.7.
    NewRenoGuest,
    /// T uses its profile `linux`.
    ProfileRfc,
}

impl Assumption {
    /// All assumptions, in the order of the table.
    pub const ALL: [Assumption; 11] = [
        Assumption::AllHold,
        Assumption::NoHostDelay,
        Assumption::AckForEachSegment,
        Assumption::NoScale7,
        Assumption::NoScale10,
        Assumption::FullSegments,
        Assumption::NoLimitedTransmit,
        Assumption::NoSack,
        Assumption::DuplicatesByNumber,
        Assumption::NewRenoGuest,
        Assumption::ProfileRfc,
    ];

    fn label(self) -> &'static str {
        match self {
            Assumption::AllHold => "none",
            Assumption::NoHostDelay => "no host delay: 100 µs each way",
            Assumption::AckForEachSegment => "an ACK for each segment: delayed ACKs, 40 ms",
            Assumption::NoScale7 => "no window scale: 7",
            Assumption::NoScale10 => "no window scale: 10",
            Assumption::FullSegments => "full segments: writes of 1 to 3,000 bytes",
            Assumption::NoLimitedTransmit => "no limited transmit",
            Assumption::NoSack => "no SACK",
            Assumption::DuplicatesByNumber => "duplicate ACKs by number: a new window hides one",
            Assumption::NewRenoGuest => "a NewReno guest: CUBIC",
            Assumption::ProfileRfc => "profile `rfc`: `linux`",
        }
    }

    /// Returns the hosts of f, the hosts of g, and T's policy.
    fn arrange(self) -> (Hosts, Hosts, Policy) {
        let (mut f, mut g) = (native_hosts(Law::Ecn), guest_hosts(Law::Ecn, false));
        let mut policy = rfc_policy(Law::Ecn, INITIAL_WINDOW_SEGMENTS);
        let both = |f: &mut Hosts, g: &mut Hosts, change: &dyn Fn(&mut Config)| {
            for hosts in [f, g] {
                change(&mut hosts.sender);
                change(&mut hosts.receiver);
            }
        };
        match self {
            Assumption::AllHold | Assumption::FullSegments => {}
            Assumption::NoHostDelay => {
                f.host_delay = Nanos::from_micros(100);
                g.host_delay = f.host_delay;
            }
            Assumption::AckForEachSegment => both(&mut f, &mut g, &|config| {
                config.delayed_ack = Some(Nanos::from_millis(40));
            }),
            Assumption::NoScale7 => both(&mut f, &mut g, &|config| config.wscale = Some(7)),
            Assumption::NoScale10 => both(&mut f, &mut g, &|config| config.wscale = Some(10)),
            Assumption::NoLimitedTransmit => both(&mut f, &mut g, &|config| {
                config.limited_transmit = true;
            }),
            Assumption::NoSack => both(&mut f, &mut g, &|config| config.sack = true),
            Assumption::DuplicatesByNumber => g.sender.any_window_duplicates = false,
            Assumption::NewRenoGuest => g.sender.congestion_control = CongestionControl::Cubic,
            Assumption::ProfileRfc => policy.profile = consts::PROFILE_LINUX as u8,
        }
        (f, g, policy)
    }
}

/// The measurements of one run.
#[derive(Clone, Debug, Default)]
struct Measure {
    bytes: u64,
    /// Integral of the bytes in flight over time, in byte nanoseconds.
    flight_byte_ns: u128,
    since: Nanos,
    flight_bytes: u32,
    /// Hash of every transmission.
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

/// Draws one flow over a bottleneck of 3 to 100 Mb/s that holds a few round trips' worth of
/// packets.
fn bottleneck(seed: u64, number: u64, assumption: Assumption) -> Plan {
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
        data: Way {
            delay_us,
            packet_us: packet_us as u32,
            queue_packets: 2 * mark_packets,
            mark_packets,
            lost,
            marked,
            late: Vec::new(),
        },
        acks: Way {
            delay_us,
            ..Way::default()
        },
        bursts: writes(&mut random, assumption),
        stalls: Vec::new(),
    }
}

fn writes(random: &mut Stream, assumption: Assumption) -> Vec<Burst> {
    let write = |segments, odd_bytes| Burst {
        after: After::Sent,
        pause_us: 0,
        pause_rto_permille: 0,
        segments,
        odd_bytes,
    };
    if assumption == Assumption::FullSegments {
        return (0..60_000)
            .map(|_| write(0, 1 + random.below(3_000) as u32))
            .collect();
    }
    vec![write(1_000_000, 0)]
}

/// The measurements with one assumption relaxed.
#[derive(Clone, Debug)]
struct Row {
    assumption: Assumption,
    identical: u64,
    /// Rate of g∘T divided by f's, sorted; next line, window of g∘T divided by f's.
    rates: Vec<f64>,
    windows: Vec<f64>,
}

fn row(seed: u64, cases: u64, assumption: Assumption) -> Row {
    let (f, g, policy) = assumption.arrange();
    let mut row = Row {
        assumption,
        identical: 0,
        rates: Vec::new(),
        windows: Vec::new(),
    };
    for number in 0..cases {
        let plan = bottleneck(seed, number, assumption);
        let round_trip_us = 2 * u64::from(plan.data.delay_us) + u64::from(plan.data.packet_us);
        let until = Nanos::from_micros(ROUND_TRIPS * round_trip_us);
        let native = measure(&plan, &f, until, Wire);
        let translator = Translator::new(Compiled, policy, false);
        let translated = measure(&plan, &g, until, translator);
        row.identical += u64::from(native.hash == translated.hash);
        row.rates
            .push(translated.bytes as f64 / native.bytes.max(1) as f64);
        let window = translated.flight_byte_ns as f64 / native.flight_byte_ns.max(1) as f64;
        row.windows.push(window);
    }
    row.rates.sort_by(f64::total_cmp);
    row.windows.sort_by(f64::total_cmp);
    row
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

/// Returns the table of docs/theorems.md, as Markdown.
pub fn table(seed: u64, cases: u64) -> String {
    let mut text = String::from(
        "| assumption lifted | identical | rate g∘T/f: median (5 % to 95 %) | window g∘T/f: median (5 % to 95 %) |\n|---|---|---|---|\n",
    );
    let rows = std::thread::scope(|scope| {
        let threads =
            Assumption::ALL.map(|assumption| scope.spawn(move || row(seed, cases, assumption)));
        threads.map(|thread| thread.join().ok())
    });
    for row in rows.into_iter().flatten() {
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "| {} | {} of {cases} | {} | {} |",
            row.assumption.label(),
            row.identical,
            spread(&row.rates),
            spread(&row.windows)
        );
    }
    text
}

fn spread(sorted: &[f64]) -> String {
    let at = |permille: usize| {
        let index = sorted.len().saturating_sub(1) * permille / 1_000;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    format!("{:.3} ({:.3} to {:.3})", at(500), at(50), at(950))
}
