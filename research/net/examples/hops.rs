//! Packet-hops per second of one core: 50 flows over a dumbbell, three links each way.
//!
//! `cargo run --release -p uc-net --example hops [seconds of virtual time [Gb/s]]`
//!
//! Defaults: 20 s at 10 Gb/s. At another rate, the links' delays and the length of the run change in inverse
//! proportion. So the packets are the same, and so should be the processor's time.
//!
//! Every flow keeps a fixed window in flight; each packet that arrives is answered by an
//! acknowledgment, and each acknowledgment releases the next packet. The trunk marks by threshold.

use std::error::Error;
use std::time::Instant;

use uc_net::{
    BitsPerSec, Delivery, DropReason, Dumbbell, Ecn, HostId, Length, LinkId, LinkSpec, Nanos,
    Network, Observer, Packet, QueueSpec,
};

const FLOWS: u32 = 50;
const WINDOW_PACKETS: u32 = 20;

/// A segment about as large as a simulated TCP segment.
#[derive(Clone, Debug)]
struct Segment {
    flow: u32,
    size_bytes: u32,
    sequence: u64,
    acknowledgment: u64,
    ecn: Ecn,
}

impl Packet for Segment {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow(&self) -> u32 {
        self.flow
    }
}

/// An observer that counts marks and drops.
#[derive(Default)]
struct Counts {
    marks: u64,
    drops: u64,
}

impl Observer<Segment> for Counts {
    fn dropped(&mut self, _: Nanos, _: LinkId, _: &Segment, _: DropReason) {
        self.drops += 1;
    }

    fn marked(&mut self, _: Nanos, _: LinkId, _: &Segment) {
        self.marks += 1;
    }
}

/// Returns what `host` sends when it receives `segment`, and to which host: an acknowledgment for
/// data, the next data segment for an acknowledgment.
fn answer(host: HostId, segment: Segment) -> (HostId, Segment) {
    let is_data = host.0 >= FLOWS;
    let peer = if is_data {
        host.0 - FLOWS
    } else {
        host.0 + FLOWS
    };
    let answer = Segment {
        size_bytes: if is_data { 66 } else { 1_514 },
        sequence: segment.acknowledgment,
        acknowledgment: segment.sequence + 1,
        ecn: if is_data { Ecn::NotEct } else { Ecn::Ect0 },
        ..segment
    };
    (HostId(peer), answer)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default| {
        arguments
            .next()
            .map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (seconds, rate_gbit) = (next(20)?, next(10)?.max(1));
    let scaled = |time: Nanos| Nanos(time.0 * 10 / rate_gbit);
    let large = QueueSpec::DropTail {
        limit: Length::Packets(2_000),
    };
    let marking = QueueSpec::Threshold {
        limit: Length::Packets(2_000),
        mark: Length::Packets(65),
        drop_not_ect: false,
    };
    let delay = scaled(Nanos::from_micros(20));
    let rate = BitsPerSec::from_mbit(rate_gbit * 1_000);
    let access = LinkSpec::new(rate, delay, large);
    let trunk = LinkSpec::new(rate, delay, marking);
    let dumbbell = Dumbbell::new(FLOWS, access, trunk)?;
    let mut network = Network::new(&dumbbell.topology, 1)?;
    for flow in 0..FLOWS {
        for number in 0..WINDOW_PACKETS {
            let segment = Segment {
                flow,
                size_bytes: 1_514,
                sequence: u64::from(number),
                acknowledgment: 0,
                ecn: Ecn::Ect0,
            };
            network.inject(
                Nanos(u64::from(flow)),
                HostId(flow),
                HostId(flow + FLOWS),
                segment,
            )?;
        }
    }
    let mut counts = Counts::default();
    let end = scaled(Nanos::from_secs(seconds));
    let started = Instant::now();
    while let Some(Delivery { at, host, packet }) = network.next_delivery(end, &mut counts) {
        let (peer, answer) = answer(host, packet);
        network.inject(at, host, peer, answer)?;
    }
    let elapsed = started.elapsed();
    let hops: u64 = (0..dumbbell.topology.links().len() as u32)
        .filter_map(|link| network.link(LinkId(link)))
        .map(|report| report.stats.delivered_packets)
        .sum();
    println!(
        "{hops} packet-hops in {:.3} s: {:.2} M packet-hops/s; {} marks, {} drops, {FLOWS} flows, \
         {end} of virtual time",
        elapsed.as_secs_f64(),
        hops as f64 / elapsed.as_secs_f64() / 1e6,
        counts.marks,
        counts.drops,
    );
    Ok(())
}
