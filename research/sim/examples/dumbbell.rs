//! Measures the simulator's speed: flows over a 10 Gb/s dumbbell with a round trip of 100 us.
//!
//! `cargo run --release -p uc-sim --example dumbbell [seconds of virtual time [flows [transport]]]`
//!
//! 5 seconds, 50 flows and every transport if not given. Prints data packets that the bottleneck
//! forwarded, packet-hops, and events (packet-hops, packets handled by hosts, timers) per second of
//! wall time, for each transport, and the process's largest memory so far.

mod field;

use std::error::Error;
use std::time::Instant;

use field::{Field, Transport};
use uc_net::{BitsPerSec, LinkId, Nanos};
use uc_sim::World;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let pairs = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let only = arguments.next();
    for transport in Transport::ALL {
        if only
            .as_ref()
            .is_none_or(|only| *only == format!("{transport:?}"))
        {
            measure(transport, pairs, Nanos((seconds * 1e9) as u64))?;
        }
    }
    Ok(())
}

/// Returns the process's largest resident memory so far, in MB.
fn memory_mb() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes
        .ok_or("/proc/self/status has no line VmHWM")?
        .parse::<f64>()?
        / 1e3)
}

fn measure(transport: Transport, pairs: u32, duration: Nanos) -> Result<(), Box<dyn Error>> {
    let field = Field {
        transport,
        pairs,
        rate: BitsPerSec::from_mbit(10_000),
        rto_min: Nanos::from_millis(200),
        start_spread: Nanos::from_millis(1),
        seed: 1,
    };
    let (scenario, bottleneck) = field.scenario()?;
    let mut world = World::new(&scenario)?;
    let started = Instant::now();
    world.run_until(duration)?;
    let wall_s = started.elapsed().as_secs_f64();
    let mut hops = 0;
    for link in 0..scenario.topology.links().len() as u32 {
        let report = world.hosts.link(LinkId(link));
        hops += report.map_or(0, |report| report.stats.delivered_packets);
    }
    let trunk = world
        .hosts
        .link(bottleneck)
        .ok_or("the network has no bottleneck link")?
        .stats;
    let events = hops + world.hosts.events();
    println!(
        "{transport:?}, {pairs} flows: {duration} of virtual time in {wall_s:.3} s; {} data packets, \
         {hops} packet-hops, {events} events; per wall second {:.3} M data packets, {:.2} M \
         packet-hops, {:.2} M events; {} drops, {} marks; {:.1} MB",
        trunk.sent_packets,
        trunk.sent_packets as f64 / wall_s / 1e6,
        hops as f64 / wall_s / 1e6,
        events as f64 / wall_s / 1e6,
        trunk.dropped_packets(),
        trunk.marked_packets,
        memory_mb()?,
    );
    Ok(())
}
