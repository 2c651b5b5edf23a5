//! Results of the simulator on the dumbbell on which other simulators were compared, in their
//! terms: utilisation, Jain's index, loss, marks, queue.
//!
//! `cargo run --release -p uc-sim --example agreement [seeds]`
//!
//! Loss is drops divided by drops plus forwarded packets, marks are divided by forwarded packets,
//! the queue is sampled every 10 us. Results are means over the seeds, from 0.3 to 1 s at 10 Gb/s
//! and from 1 to 4 s at 1 Gb/s, as for the other simulators. Utilisation is goodput divided by rate
//! · payload / frame.
//!
//! Each case runs once with all links equally fast, as it was defined, and once with the hosts'
//! links 1 % faster. With equal links, a packet that a growing window sends right after another
//! arrives at the trunk in the same nanosecond as another flow's, and which of the two a full queue
//! drops depends on a simulator's order of simultaneous events ("phase effects": Floyd and
//! Jacobson, "On traffic phase effects in packet-switched gateways", 1992). One percent separates
//! the two.

mod field;

use std::error::Error;

use field::{Field, Transport};
use uc_net::{BitsPerSec, Nanos};
use uc_sim::World;
use uc_sim::hosts::Side;

const QUEUE_SAMPLE: Nanos = Nanos::from_micros(10);
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1460.0;

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    utilisation: f64,
    jain: f64,
    loss: f64,
    marks: f64,
    queue_mean: f64,
    queue_p99: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    println!(
        "| rate | n | transport | min RTO | access | util | Jain | loss % | mark | qmean | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (mbit, pairs) in [(1_000, 10), (10_000, 10), (10_000, 50)] {
        for (transport, rto_ms, access_permille) in settings() {
            let mut runs = Vec::new();
            for seed in 1..=seeds {
                runs.push(run(&Field {
                    transport,
                    pairs,
                    rate: BitsPerSec::from_mbit(mbit),
                    access_permille,
                    rto_min: Nanos::from_millis(rto_ms),
                    start_spread: Nanos::from_micros(50),
                    seed,
                })?);
            }
            let mean =
                |part: fn(&Seen) -> f64| runs.iter().map(part).sum::<f64>() / runs.len() as f64;
            println!(
                "| {}G | {pairs} | {transport:?} | {rto_ms} ms | {:.2} | {:.3} | {:.3} | {:.3} | {:.3} | \
                 {:.1} | {:.0} |",
                mbit / 1_000,
                access_permille as f64 / 1e3,
                mean(|seen| seen.utilisation),
                mean(|seen| seen.jain),
                mean(|seen| seen.loss) * 100.0,
                mean(|seen| seen.marks),
                mean(|seen| seen.queue_mean),
                mean(|seen| seen.queue_p99),
            );
        }
    }
    Ok(())
}

/// Iterates over transport, minimum RTO in milliseconds, and the rate of the hosts' links in 1/1000
/// of the trunk's.
fn settings() -> impl Iterator<Item = (Transport, u64, u64)> {
    let transports = Transport::ALL.into_iter();
    let with_timeouts = transports.flat_map(|transport| [(transport, 10), (transport, 200)]);
    with_timeouts.flat_map(|(transport, rto_ms)| {
        [1_000, 1_010].map(|permille| (transport, rto_ms, permille))
    })
}

fn run(field: &Field) -> Result<Seen, Box<dyn Error>> {
    let (scenario, bottleneck) = field.scenario()?;
    let mut world = World::new(&scenario)?;
    let (warm_up, end) = if field.rate.0 < 10_000_000_000 {
        (Nanos::from_secs(1), Nanos::from_secs(4))
    } else {
        (Nanos::from_millis(300), Nanos::from_secs(1))
    };
    world.run_until(warm_up)?;
    let trunk = |world: &mut World| world.hosts.link(bottleneck).ok_or("no bottleneck");
    let (before, delivered_before) = (trunk(&mut world)?.stats, delivered(&world));
    let mut queue = Vec::new();
    let mut now = warm_up;
    while now < end {
        now += QUEUE_SAMPLE;
        world.run_until(now)?;
        queue.push(trunk(&mut world)?.backlog.packets);
    }
    let after = trunk(&mut world)?.stats;
    let seconds = end.since(warm_up).0 as f64 / 1e9;
    let gained: Vec<f64> = delivered(&world)
        .iter()
        .zip(&delivered_before)
        .map(|(after, before)| (after - before) as f64)
        .collect();
    let sum: f64 = gained.iter().sum();
    let squares: f64 = gained.iter().map(|bytes| bytes * bytes).sum();
    let forwarded = (after.sent_packets - before.sent_packets) as f64;
    let dropped = (after.dropped_packets() - before.dropped_packets()) as f64;
    queue.sort_unstable();
    let ceiling = field.rate.0 as f64 * PAYLOAD_BYTES / FRAME_BYTES;
    Ok(Seen {
        utilisation: sum * 8.0 / seconds / ceiling,
        jain: sum * sum / (gained.len() as f64 * squares),
        loss: dropped / (dropped + forwarded),
        marks: (after.marked_packets - before.marked_packets) as f64 / forwarded,
        queue_mean: queue.iter().sum::<u64>() as f64 / queue.len() as f64,
        queue_p99: queue[queue.len() * 99 / 100] as f64,
    })
}

/// Returns the payload bytes delivered to each receiving application.
fn delivered(world: &World) -> Vec<u64> {
    let flows = world.applications.flows().iter();
    flows
        .map(|flow| {
            let ends = flow
                .open()
                .map(|slot| world.hosts.end(slot, Side::Receiver));
            ends.map(|end| end.connection.totals().delivered_bytes)
                .sum()
        })
        .collect()
}
