//! The theorems' assumptions, relaxed one by one: how far f and g∘T then are apart.
//!
//! The two are not compared segment by segment, since after the first difference they get different
//! networks. Each runs by itself over the same bottleneck for the same time: a queue that marks
//! from a threshold on and drops when it is full, with the same packet numbers marked and lost in
//! addition. The results are compared: bytes acknowledged (the rate) and the mean over time of the
//! bytes in flight (the window).

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use uc_core::{Policy, consts};
use uc_net::Nanos;
use uc_tcp::{Coalescing, Config, CongestionControl};

use crate::bottleneck::{INITIAL_WINDOW_SEGMENTS, Ratios, Senders, Writes, draw};
use crate::law::{Law, guest_hosts, native_hosts, rfc_policy};
use crate::plan::{Direction, Plan};
use crate::world::Hosts;

/// Receive buffer of a receiver that autotunes, in segments: more than the flows of the table reach.
const TUNED_SEGMENTS: u16 = 4_000;

/// An assumption of the theorems. Each variant states what holds when the assumption is relaxed, for both senders
/// unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// All assumptions of the theorem hold.
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
    /// Both senders use limited transmit (RFC 3042).
    NoLimitedTransmit,
    /// The hosts use SACK (RFC 2018 and RFC 6675).
    NoSack,
    /// The receiver's window opens with each segment, in duplicate ACKs too, as Linux autotunes it.
    SteadyWindows,
    /// The hosts use SACK, and the receiver autotunes its window.
    NoSackSteadyWindows,
    /// The receiver sends data, too, and its ACKs travel on that data.
    DataOneWay,
    /// The hosts use SACK, and the receiver sends data, which carries its SACK blocks and duplicate ACKs.
    NoSackDataOneWay,
    /// The hosts use SACK, and the receiver merges up to 16 segments that arrive within 500 µs (GRO).
    NoSackAckForEach,
    /// The guest counts an ACK as a duplicate only if it has the same window as the ACK before (RFC 5681 §2).
    DuplicatesByNumber,
    /// The guest grows by RFC 9438 and reduces by a factor of 0.7.
    NewRenoGuest,
    /// T uses its profile `linux`.
    ProfileRfc,
}

impl Assumption {
    /// All assumptions, in the order of the table.
    pub const ALL: [Assumption; 16] = [
        Assumption::AllHold,
        Assumption::NoHostDelay,
        Assumption::AckForEachSegment,
        Assumption::NoScale7,
        Assumption::NoScale10,
        Assumption::FullSegments,
        Assumption::NoLimitedTransmit,
        Assumption::NoSack,
        Assumption::SteadyWindows,
        Assumption::NoSackSteadyWindows,
        Assumption::DataOneWay,
        Assumption::NoSackDataOneWay,
        Assumption::NoSackAckForEach,
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
            Assumption::SteadyWindows => "windows that only new data change: autotuning",
            Assumption::NoSackSteadyWindows => "no SACK, such windows: SACK, autotuning",
            Assumption::DataOneWay => "data one way: both ways",
            Assumption::NoSackDataOneWay => "no SACK, data one way: SACK, both ways",
            Assumption::NoSackAckForEach => "no SACK, an ACK for each segment: SACK, GRO",
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
            Assumption::SteadyWindows => both(&mut f, &mut g, &autotunes),
            Assumption::NoSackSteadyWindows => both(&mut f, &mut g, &|config| {
                config.sack = true;
                autotunes(config);
            }),
            Assumption::DataOneWay => {
                (f.both_ways, g.both_ways) = (true, true);
            }
            Assumption::NoSackDataOneWay => {
                (f.both_ways, g.both_ways) = (true, true);
                both(&mut f, &mut g, &|config| {
                    config.sack = true;
                    config.sack_on_data = true;
                });
            }
            Assumption::NoSackAckForEach => both(&mut f, &mut g, &|config| {
                config.sack = true;
                config.coalescing = Some(Coalescing {
                    segments: 16,
                    within: Nanos::from_micros(500),
                });
            }),
            Assumption::DuplicatesByNumber => g.sender.any_window_duplicates = false,
            Assumption::NewRenoGuest => g.sender.congestion_control = CongestionControl::Cubic,
            Assumption::ProfileRfc => policy.profile = consts::PROFILE_LINUX as u8,
        }
        (f, g, policy)
    }

    /// Returns a flow of the table for this assumption.
    fn draw(self, seed: u64, number: u64) -> Plan {
        let writes = match self {
            Assumption::FullSegments => Writes::Odd,
            _ => Writes::Endless,
        };
        let mut plan = draw(seed, number, writes);
        match self {
            Assumption::SteadyWindows | Assumption::NoSackSteadyWindows => {
                plan.receive_buffer_segments = TUNED_SEGMENTS;
            }
            Assumption::DataOneWay | Assumption::NoSackDataOneWay => {
                plan.acks = Direction {
                    delay_us: plan.acks.delay_us,
                    packet_us: plan.data.packet_us,
                    queue_packets: plan.data.queue_packets,
                    mark_packets: plan.data.mark_packets,
                    ..Direction::default()
                };
            }
            _ => {}
        }
        plan
    }
}

/// Lets a receiver autotune its window, from ten segments on.
fn autotunes(config: &mut Config) {
    config.wscale = Some(7);
    config.autotune_from_bytes = Some(10 * 1_460);
}

/// One row of the table: a relaxed assumption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Label of the assumption that is lifted.
    pub assumption: String,
    /// Number of flows, each of which is a random case.
    pub cases: u64,
    /// Results of the flows without the assumption.
    pub ratios: Ratios,
}

/// Measures `cases` flows under a relaxed assumption.
pub fn row(seed: u64, cases: u64, assumption: Assumption) -> Row {
    let (f, g, policy) = assumption.arrange();
    let senders = Senders {
        f: &f,
        g: &g,
        policy,
        strips_ecn: false,
    };
    let plans = (0..cases).map(|number| assumption.draw(seed, number));
    Row {
        assumption: assumption.label().to_owned(),
        cases,
        ratios: Ratios::measured(senders, plans),
    }
}

/// Measures all rows, each with `cases` flows.
pub fn rows(seed: u64, cases: u64) -> Vec<Row> {
    std::thread::scope(|scope| {
        let threads =
            Assumption::ALL.map(|assumption| scope.spawn(move || row(seed, cases, assumption)));
        // a thread that panicked has printed the reason
        let rows = threads.into_iter().map(|thread| thread.join().ok());
        rows.flatten().collect()
    })
}

/// Formats rows as a table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| assumption lifted | identical | rate g∘T/f: median (5 % to 95 %) | window g∘T/f: median (5 % to 95 %) |\n|---|---|---|---|\n",
    );
    for row in rows {
        // writing to a String cannot fail
        let _ = writeln!(
            text,
            "| {} | {} of {} | {} | {} |",
            row.assumption,
            row.ratios.identical,
            row.cases,
            row.ratios.rate(),
            row.ratios.window()
        );
    }
    text
}
