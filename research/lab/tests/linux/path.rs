//! The path of one flow: when each of its packets arrives at the other end, if it does.

use std::time::Duration;

use uc_lab::frame::Frame;
use uc_net::random::Stream;
use uc_net::{Ecn, Packet};

use super::case::{Case, Faults, Path};
use super::record::Fate;

/// A way of a path: towards the far end, or back.
#[derive(Debug)]
struct Way {
    faults: Faults,
    stream: Stream,
    /// How many of the next packets are dropped.
    dropping: u32,
    /// The arrival of the last packet, so that only faults reorder.
    last_ns: u64,
}

/// Most that a frame without data has: Ethernet, IPv4 and TCP with all options.
const HEADERS_MAX_BYTES: u32 = 14 + 20 + 60;

/// A flow's path in both directions. Faults are drawn in the order of the packets.
#[derive(Debug)]
pub struct Ways {
    path: Path,
    ways: [Way; 2],
    start_ns: u64,
    /// When the bottleneck has sent all that waits there.
    idle_ns: u64,
    /// Frames with data of the guest so far.
    data: u32,
}

/// The arrivals of a packet: none if it is dropped, two if it is duplicated.
pub type Arrivals = [Option<u64>; 2];

impl Ways {
    pub fn new(case: &Case, start_ns: u64) -> Ways {
        let way = |faults: Faults, name: &str| Way {
            faults,
            stream: Stream::new(case.seed, &format!("{name} {}", case.index)),
            dropping: 0,
            last_ns: 0,
        };
        Ways {
            path: case.path.clone(),
            ways: [
                way(case.path.to_far, "to the far end"),
                way(case.path.to_guest, "to the guest"),
            ],
            start_ns,
            idle_ns: 0,
            data: 0,
        }
    }

    /// Takes in a packet at `now_ns` from the guest (way 0) or to it (way 1).
    pub fn pass(&mut self, way: usize, frame: &mut Frame, now_ns: u64) -> (Arrivals, Fate) {
        let mut fate = Fate::default();
        let mut at_ns = self.ends(self.path.stall, now_ns).unwrap_or(now_ns);
        let lost = Fate {
            dropped: true,
            ..fate
        };
        let mut marks = false;
        if way == 0 {
            self.data += u32::from(frame.size_bytes() > HEADERS_MAX_BYTES);
            if self.path.lost == Some(self.data) {
                self.path.lost = None;
                return ([None; 2], lost);
            }
            if self.ends(self.path.outage, now_ns).is_some() {
                return ([None; 2], lost);
            }
            let packet_ns = nanoseconds(self.path.packet);
            let waiting = self.idle_ns.saturating_sub(at_ns) / packet_ns.max(1);
            if waiting >= self.path.queue.into() {
                return ([None; 2], lost);
            }
            marks = self
                .path
                .mark_at
                .is_some_and(|mark_at| waiting >= mark_at.into());
            self.idle_ns = self.idle_ns.max(at_ns) + packet_ns;
            at_ns = self.idle_ns;
        }
        let one_way_ns = nanoseconds(self.path.one_way);
        let way = &mut self.ways[way];
        if way.drops() {
            return ([None; 2], lost);
        }
        marks |= way.stream.chance_ppm(way.faults.mark_ppm);
        if marks && matches!(frame.ecn(), Ecn::Ect0 | Ecn::Ect1) {
            frame.set_ce();
            fate.marked = true;
        }
        at_ns += one_way_ns;
        if way.stream.chance_ppm(way.faults.reorder_ppm) {
            fate.later = true;
            at_ns += nanoseconds(way.faults.later);
        } else {
            at_ns = at_ns.max(way.last_ns);
            way.last_ns = at_ns;
        }
        let twice = way.stream.chance_ppm(way.faults.duplicate_ppm);
        ([Some(at_ns), twice.then_some(at_ns)], fate)
    }

    /// Returns when a period that is under way ends.
    fn ends(&self, period: Option<(Duration, Duration)>, now_ns: u64) -> Option<u64> {
        let (after, length) = period?;
        let from_ns = self.start_ns + nanoseconds(after);
        let to_ns = from_ns + nanoseconds(length);
        (from_ns..to_ns).contains(&now_ns).then_some(to_ns)
    }
}

impl Way {
    fn drops(&mut self) -> bool {
        if self.dropping == 0 && self.stream.chance_ppm(self.faults.drop_ppm) {
            self.dropping = 1 + self.stream.below(self.faults.burst.into()) as u32;
        }
        let drops = self.dropping > 0;
        self.dropping -= u32::from(drops);
        drops
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
