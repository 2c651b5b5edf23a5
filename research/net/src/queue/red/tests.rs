//! RED against a float reference, and at the corner cases that RED is known for.

use super::{Action, Red, RedSpec};
use uc_words::{BitsPerSec, Nanos};

use crate::packet::Ecn;
use crate::queue::{Arrival, Backlog, DropReason, Verdict};
use crate::random::Stream;

/// An operator's set: min, max, limit, burst, packet, probability in ppm, bandwidth in bit/s.
type Operator = (u32, u32, u32, u32, u32, u32, u64);

const RED1: Operator = (90_000, 90_001, 1_000_000, 61, 1_500, 1_000_000, 10_000_000);
const RED2: Operator = (30_000, 90_000, 400_000, 55, 1_500, 20_000, 10_000_000);
const RED3: Operator = (30_000, 90_000, 400_000, 55, 1_500, 1_000_000, 10_000_000);

fn spec(set: Operator) -> RedSpec {
    RedSpec {
        min_bytes: set.0,
        max_bytes: set.1,
        limit_bytes: set.2,
        burst_packets: set.3,
        packet_bytes: set.4,
        probability_ppm: set.5,
        bandwidth: BitsPerSec(set.6),
        ecn: true,
    }
}

fn red(set: Operator, seed: u64) -> Red {
    Red::new(&spec(set), Stream::new(seed, "red")).unwrap()
}

fn arrival(at_us: u64, bytes: u64, ecn: Ecn) -> Arrival {
    let backlog = Backlog {
        bytes,
        packets: bytes / 1_500,
    };
    Arrival {
        at: Nanos::from_micros(at_us),
        size_bytes: 1_500,
        ecn,
        backlog,
    }
}

/// Figure 17 of Floyd and Jacobson in floats, with independent random numbers, the tool's weight
/// and the effective maximum probability.
struct FloatRed {
    weight: f64,
    max_p: f64,
    average: f64,
    count: i64,
    level: f64,
}

impl FloatRed {
    fn marks(&mut self, spec: &RedSpec, backlog: u64, random: &mut Stream) -> bool {
        let (min, max) = (f64::from(spec.min_bytes), f64::from(spec.max_bytes));
        self.average += (backlog as f64 - self.average) * self.weight;
        if self.average < min || self.average >= max {
            self.count = -1;
            return self.average >= max;
        }
        self.count += 1;
        let chance = self.max_p * (self.average - min) / (max - min);
        let struck = self.count > 0 && chance * self.count as f64 >= self.level;
        if struck || self.count == 0 {
            self.level = f64::from(random.bits32()) / 4_294_967_296.0;
            self.count = 0;
        }
        struck
    }
}

#[test]
fn the_marked_fraction_agrees_with_a_float_reference() {
    // RED2's probability is exact; RED3's is the power of two below 1, 60000/2^16.
    for (set, max_p) in [(RED2, 0.02), (RED3, 60_000.0 / 65_536.0)] {
        for around in [31_000, 40_000, 50_000, 60_000, 75_000, 88_000] {
            let (mut ours, spec, seed) = (red(set, 11), spec(set), 11);
            let mut trace = Stream::new(seed, "trace");
            let mut random = Stream::new(seed, "reference");
            let mut float = FloatRed {
                weight: 1.0 / 64.0,
                max_p,
                average: 0.0,
                count: -1,
                level: 0.0,
            };
            ours.idle_since = None;
            let mut marks = [0u64; 2];
            for packet in 0..1_000_000 {
                let backlog = around - 2_000 + trace.below(4_001);
                let verdict = ours.judge(&arrival(packet, backlog, Ecn::Ect0));
                marks[0] += u64::from(verdict == Verdict::Marked);
                marks[1] += u64::from(float.marks(&spec, backlog, &mut random));
            }
            let [ours, float] = marks.map(|count| count as f64);
            // Five standard deviations of uniform spacing (0.58/sqrt(n) each way), and 1 % for the
            // fractions that the integer average loses.
            let tolerance = 5.0 * 0.82 * float.sqrt() + 0.01 * float;
            assert!(
                (ours - float).abs() <= tolerance,
                "seed {seed}, {set:?} at {around}: {ours} against {float} (± {tolerance})"
            );
            assert!(
                float > 500.0,
                "the comparison needs marks: {float} at {around}"
            );
        }
    }
}

#[test]
fn red1_marks_by_the_instantaneous_queue() {
    let mut red = red(RED1, 1);
    red.idle_since = None;
    let verdicts: Vec<bool> = [200_000, 200_000, 0, 0, 89_999]
        .map(|bytes| red.judge(&arrival(0, bytes, Ecn::Ect0)) == Verdict::Marked)
        .to_vec();
    assert_eq!(verdicts, [true, true, false, false, false]);
}

#[test]
fn above_max_ect_packets_are_marked_and_others_dropped() {
    for (ecn, ecn_on, expected) in [
        (Ecn::Ect0, true, Verdict::Marked),
        (Ecn::Ect1, true, Verdict::Marked),
        (Ecn::Ce, true, Verdict::Marked),
        (Ecn::NotEct, true, Verdict::Dropped(DropReason::Forced)),
        (Ecn::Ect0, false, Verdict::Dropped(DropReason::Forced)),
    ] {
        let spec = RedSpec {
            ecn: ecn_on,
            ..spec(RED1)
        };
        let mut red = Red::new(&spec, Stream::new(1, "red")).unwrap();
        red.idle_since = None;
        red.average_scaled = red.parameters.max_scaled * 4;
        assert_eq!(
            red.judge(&arrival(0, 100_000, ecn)),
            expected,
            "{ecn:?}, ecn {ecn_on}"
        );
        let full = red.judge(&arrival(0, 999_000, ecn));
        assert!(
            matches!(full, Verdict::Dropped(_)),
            "{ecn:?} at the limit: {full:?}"
        );
    }
}

#[test]
fn average_decays_while_the_queue_is_empty() {
    let mut red = red(RED1, 1);
    red.idle_since = None;
    red.average_scaled = red.parameters.max_scaled * 2;
    assert_eq!(red.action(), Action::Forced);
    red.emptied(Nanos::from_millis(10));
    // A second report does not restart the idle period.
    red.emptied(Nanos::from_millis(400));
    let verdict = red.judge(&arrival(532_000, 0, Ecn::NotEct));
    assert_eq!(
        verdict,
        Verdict::Queued,
        "a SYN after half a second of silence must pass"
    );
    // 255 cells of 2^11 us are the table's end: 31 bits of decay.
    assert_eq!(red.average_scaled, 0);
}

#[test]
fn idle_decay_is_linear_in_the_first_cells_and_then_by_the_table() {
    let mut red = red(RED1, 1);
    red.average_scaled = 400_000;
    let after = |us| red.average_after_idle(Nanos::from_micros(us));
    assert_eq!(after(0), 400_000);
    // One cell is 2048 us: a quarter of it takes a quarter away, from a half on a half stays.
    assert_eq!(after(512), 300_000);
    assert_eq!(after(1_024), 200_000);
    assert_eq!(after(20_000), 200_000);
    // Cell 27 is the first with a shift of 2.
    assert_eq!(after(27 * 2_048), 100_000);
    assert_eq!(after(u64::MAX / 1_000), 0);
}
