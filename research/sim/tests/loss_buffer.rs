//! Goodput over loss × buffer for every congestion control, as a committed table.
//!
//! The simulator is deterministic, so the table is exact: a change of any figure is a change of
//! behaviour and has to be explained where it is made. To change the table on purpose: `UC_ACCEPT=1
//! cargo test -p uc-sim --test all loss_buffer::`, and commit the result.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use uc_net::{BitsPerSec, Fault, FaultRule, HostId, Length, LinkSpec, Nanos, QueueSpec, Star};
use uc_sim::sampler::totals;
use uc_sim::{Application, FlowPlan, Scenario, World};
use uc_tcp::{Config, CongestionControl};

const SEED: u64 = 1;
const RATE: BitsPerSec = BitsPerSec::from_mbit(10);
const RTT: Nanos = Nanos::from_millis(100);
/// A frame of a full segment: 14 + 20 + 32 + 1,448 bytes.
const FRAME_BYTES: u64 = 1514;
const SMSS_BYTES: u64 = 1448;
const WARM_UP: Nanos = Nanos::from_secs(20);
const END: Nanos = Nanos::from_secs(120);

const LOSS_PPM: [u32; 5] = [0, 100, 1_000, 10_000, 50_000];
/// Buffer sizes, in quarters of the bandwidth-delay product.
const BUFFER_QUARTERS: [u64; 4] = [1, 2, 4, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    /// RFC 6582, without SACK.
    NewReno,
    /// NewReno's window with RFC 6675's recovery.
    Sack,
    /// RFC 9438, RFC 6675.
    Cubic,
    /// RFC 8257, RFC 6675; a queue that marks above a seventh of the BDP.
    Dctcp,
}

const LAWS: [Law; 4] = [Law::NewReno, Law::Sack, Law::Cubic, Law::Dctcp];

impl Law {
    fn name(self) -> &'static str {
        match self {
            Law::NewReno => "newreno",
            Law::Sack => "sack",
            Law::Cubic => "cubic",
            Law::Dctcp => "dctcp",
        }
    }

    fn config(self) -> Config {
        let congestion_control = match self {
            Law::NewReno | Law::Sack => CongestionControl::NewReno,
            Law::Cubic => CongestionControl::Cubic,
            Law::Dctcp => CongestionControl::Dctcp {
                gain_shift: 4,
                initial_alpha_q10: 1024,
            },
        };
        Config {
            congestion_control,
            sack: self != Law::NewReno,
            ..Config::default()
        }
    }
}

fn bdp_packets() -> u64 {
    (RATE.0 * RTT.0 / 8_000_000_000).div_ceil(FRAME_BYTES)
}

/// Builds one bulk flow over one lossy link; the reverse path loses nothing.
fn scenario(law: Law, loss_ppm: u32, buffer_quarters: u64) -> Scenario {
    let limit = Length::Packets(bdp_packets() * buffer_quarters / 4);
    let queue = match law {
        Law::Dctcp => QueueSpec::Threshold {
            limit,
            mark: Length::Packets(bdp_packets() / 7),
            drop_not_ect: false,
        },
        _ => QueueSpec::DropTail { limit },
    };
    let quarter = Nanos(RTT.0 / 4);
    let roomy = QueueSpec::DropTail {
        limit: Length::Packets(10_000),
    };
    let access = LinkSpec::new(BitsPerSec::from_mbit(1_000), quarter, roomy);
    let mut bottleneck = LinkSpec::new(RATE, quarter, queue);
    bottleneck.faults = vec![FaultRule {
        chance_ppm: loss_ppm,
        flow: None,
        fault: Fault::Loss,
    }];
    let star = Star::new(1, access, bottleneck).expect("a star of one");
    let config = Arc::new(law.config());
    Scenario {
        seed: SEED,
        topology: star.topology,
        ip_header_bytes: 20,
        groups: Vec::new(),
        consolidation: uc_sim::consolidation::Consolidation::default(),
        granter: None,
        flows: vec![FlowPlan {
            name: "flow".to_owned(),
            guest: HostId(0),
            receivers: vec![star.receiver],
            guest_config: Arc::clone(&config),
            receiver_config: config,
            policy: None,
            dupacks: None,
            hold: None,
            receiver_policy: None,
            start_policy: None,
            membership: None,
            virtual_part: uc_sim::consolidation::Virtual::default(),
            stop: None,
            start: Nanos::ZERO,
            application: Application::Bulk,
        }],
    }
}

/// Returns the payload delivered after the warm-up, in thousandths of what the link can carry.
fn goodput_permille(law: Law, loss_ppm: u32, buffer_quarters: u64) -> u64 {
    let mut world =
        World::new(&scenario(law, loss_ppm, buffer_quarters)).expect("a sound scenario");
    let mut delivered_at = |moment| {
        world.run_until(moment).expect("a run");
        totals(&world.hosts, &world.applications.flows()[0]).1
    };
    let before = delivered_at(WARM_UP);
    let payload_bits = 8 * (delivered_at(END) - before);
    let capacity_bits = RATE.0 * (END.since(WARM_UP).0 / 1_000_000_000);
    (payload_bits * 1_000 + capacity_bits / 2) / capacity_bits
}

type Row = (Law, u32, Vec<u64>);

/// Measures every cell; the laws run in parallel.
fn measure() -> Vec<Row> {
    std::thread::scope(|scope| {
        let rows_of = |law| {
            scope.spawn(move || {
                let row = |&loss_ppm: &u32| {
                    let cells =
                        BUFFER_QUARTERS.map(|quarters| goodput_permille(law, loss_ppm, quarters));
                    (law, loss_ppm, cells.to_vec())
                };
                LOSS_PPM.iter().map(row).collect::<Vec<Row>>()
            })
        };
        let running = LAWS.map(rows_of);
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("a law's rows"))
            .collect()
    })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "Goodput in % of a link of {RATE}, round-trip time {RTT}, one flow, seconds 20 to 120.\n\
         Loss is random, on the data's way; the buffer in bandwidth-delay products of {} packets.\n\
         A frame of {FRAME_BYTES} bytes carries {SMSS_BYTES}: 95.6 is all that there is.\n\n\
         law      loss %    0.25    0.50    1.00    2.00\n",
        bdp_packets()
    );
    for (law, loss_ppm, cells) in rows {
        let loss = format!("{}.{:02}", loss_ppm / 10_000, loss_ppm % 10_000 / 100);
        let _ = write!(text, "{:<8} {loss:>6}", law.name());
        for permille in cells {
            let _ = write!(text, "{:>6}.{}", permille / 10, permille % 10);
        }
        text.push('\n');
    }
    text
}

/// Returns the lines that differ, as `-` for the committed and `+` for the new one.
fn diff(committed: &str, new: &str) -> String {
    let (mut old_lines, mut new_lines) = (committed.lines(), new.lines());
    let mut text = String::new();
    loop {
        match (old_lines.next(), new_lines.next()) {
            (None, None) => return text,
            (old, new) if old == new => {}
            (old, new) => {
                let _ = writeln!(text, "-{}\n+{}", old.unwrap_or(""), new.unwrap_or(""));
            }
        }
    }
}

/// Computes the rate of Mathis et al., CCR 27(3), 1997: SMSS/RTT · √(3/2)/√p. It is the only
/// independent reference: it ignores queues, timeouts and the length of recovery, and takes losses
/// to be evenly spaced.
fn mathis_permille(loss_ppm: u32) -> f64 {
    let window_segments = (1.5 / (f64::from(loss_ppm) / 1e6)).sqrt();
    let rate_bps = window_segments * (8 * SMSS_BYTES) as f64 / (RTT.0 as f64 / 1e9);
    1_000.0 * rate_bps / RATE.0 as f64
}

/// Checks Mathis' formula where loss and not the link limits: at 0.1 and 1 %, for the two laws that
/// it describes.
fn assert_mathis(rows: &[Row]) {
    for (law, loss_ppm, cells) in rows {
        if !matches!(law, Law::NewReno | Law::Sack) || !matches!(loss_ppm, 1_000 | 10_000) {
            continue;
        }
        for permille in cells {
            let ratio = *permille as f64 / mathis_permille(*loss_ppm);
            assert!(
                (0.7..=1.3).contains(&ratio),
                "{law:?} at {loss_ppm} ppm: {permille} ‰ are {ratio:.2} of Mathis' formula"
            );
        }
    }
}

/// Checks the order of the figures: more loss never raises goodput by more than a point, and no
/// flow exceeds the link, except by data received out of order before the count began.
fn assert_order(rows: &[Row]) {
    for pair in rows.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        for (less_loss, more_loss) in pair[0].2.iter().zip(&pair[1].2) {
            assert!(
                *less_loss <= 960 && *more_loss <= less_loss + 10,
                "{pair:?}"
            );
        }
    }
}

#[test]
fn goodput_over_loss_and_buffer_equals_the_committed_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loss_buffer.txt");
    let rows = measure();
    let new = table(&rows);
    if std::env::var_os("UC_ACCEPT").is_some() {
        std::fs::write(&path, &new).expect("the table can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == new,
        "seed {SEED}: the table has changed:\n{}\nif it should: \
         UC_ACCEPT=1 cargo test -p uc-sim --test all loss_buffer::, and say why in the commit",
        diff(&committed, &new)
    );
    assert_mathis(&rows);
    assert_order(&rows);
}
