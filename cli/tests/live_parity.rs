//! One flow alone on the paper's bottleneck: a legacy guest loses packets, a translated one none.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uc_experiment::RunRecord;
use uc_lab::{LivePorts, Repetition, run_case};
use uc_live::in_peace;

use crate::common::{RED1, experiment, guest, live};

const SEED: u64 = 11;
/// Number of concurrent runs: more would be delayed on two CPUs.
const JOBS: usize = 4;
const SECONDS: u32 = 4;

#[derive(Debug, Clone, Copy)]
struct Setup {
    family: &'static str,
    congestion_control: &'static str,
    server_wscale: u8,
    translated: bool,
}

fn setups() -> Vec<Setup> {
    let mut setups = Vec::new();
    for family in ["ipv4", "ipv6"] {
        for congestion_control in ["reno", "cubic"] {
            for server_wscale in [0, 7, 10] {
                for translated in [true, false] {
                    setups.push(Setup {
                        family,
                        congestion_control,
                        server_wscale,
                        translated,
                    });
                }
            }
        }
    }
    // 64 kB of window can't fill RED's 90 kB: nothing is lost then, with or without a law.
    setups.retain(|setup| setup.translated || setup.server_wscale > 0);
    setups
}

fn run(setup: Setup) -> RunRecord {
    let Setup {
        family,
        congestion_control,
        server_wscale,
        translated,
    } = setup;
    let stacks = format!(
        "[stack.guest]\ncongestion_control = \"{congestion_control}\"\n\
         [stack.server]\necn = true\nwscale = {server_wscale}"
    );
    let network = format!("{RED1}\nfamily = \"{family}\"");
    let law = if translated { "law = \"ecn\"" } else { "" };
    let experiment = experiment(SECONDS, &network, &guest("only", "guest", law), &stacks);
    let repetition = Repetition { run: 0, seed: SEED };
    let (mut ports, cancel) = (LivePorts::default(), AtomicBool::new(false));
    let case = &experiment.cases[0];
    run_case(&experiment, case, repetition, &mut ports, &|_| {}, &cancel)
        .unwrap_or_else(|error| panic!("{setup:?}, seed {SEED}: {error}"))
}

fn assert_losses(setup: Setup) {
    let record = run(setup);
    let flow = &record.flows[0];
    let last = flow.samples.last().unwrap();
    println!(
        "{setup:?}: {} bytes, {} drops, {} retransmitted, {} marks",
        last.delivered_bytes, flow.drops, last.total_retransmits, flow.marks
    );
    let shown = || format!("{setup:?}, seed {SEED}: {} drops, {last:?}", flow.drops);
    assert!(!flow.negotiated_ecn, "{}", shown());
    // The receiver acknowledges every second segment at least.
    let gaps = flow.ack_gaps.as_ref().unwrap();
    let acks = u64::from(gaps.iter().sum::<u32>());
    let segments = last.delivered_bytes / u64::from(last.mss_bytes);
    assert!(acks > segments / 3, "{acks} gaps; {}", shown());
    assert!(acks < 2 * segments, "{acks} gaps; {}", shown());
    if setup.translated {
        assert_eq!((flow.drops, last.total_retransmits), (0, 0), "{}", shown());
        assert!(
            record.counters["port_translated"] > 0,
            "{:?}",
            record.counters
        );
        assert_eq!(flow.marks > 0, setup.server_wscale > 0, "{}", shown());
        let waits: u32 = gaps.iter().skip(2).sum();
        assert_eq!(waits, 0, "a timer's wait among {gaps:?}; {}", shown());
        // Nearly all of the payload capacity of 10 Mb/s.
        let most = u64::from(SECONDS) * 10_000_000 / 8;
        assert!(last.delivered_bytes > most * 8 / 10, "{}", shown());
    } else {
        assert!(flow.drops > 0 && last.total_retransmits > 0, "{}", shown());
    }
}

#[test]
fn live_a_translated_flow_alone_loses_nothing_where_a_legacy_flow_does() {
    if !live() {
        return;
    }
    let (setups, next) = (setups(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    in_peace(|| assert_losses(*setup));
                }
            });
        }
    });
}
