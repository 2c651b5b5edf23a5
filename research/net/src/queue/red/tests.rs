//! RED against `tc`, against a float reference, and at the corner cases that RED is known for.

use super::{Action, Red, RedParameters, RedSpec};
use uc_words::{BitsPerSec, Nanos};

use crate::error::SpecError;
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

#[test]
fn derived_parameters_equal_those_that_tc_sends_to_the_kernel() {
    // Each row: the set, then Wlog, Plog, Scell_log, max_P and the sum of i·Stab[i], all read from
    // the netlink request of `tc` (iproute2 6.1.0, x86-64).
    #[rustfmt::skip]
    let sent: [(Operator, u8, u8, u8, u32, u64); 15] = [
        (RED1, 1, 1, 11, 0, 407_890),
        ((90_000, 90_001, 1_000_000, 61, 1_500, 1_000_000, 100_000_000), 1, 1, 8, 0, 511_569),
        ((90_000, 90_001, 1_000_000, 61, 1_500, 1_000_000, 1_000_000_000), 1, 1, 5, 0, 643_373),
        (RED2, 6, 22, 17, 85_899_345, 596_184),
        ((30_000, 90_000, 400_000, 55, 1_500, 20_000, 100_000_000), 6, 22, 13, 85_899_345, 369_816),
        ((30_000, 90_000, 400_000, 55, 1_000, 20_000, 100_000_000), 5, 22, 12, 85_899_345, 563_446),
        (RED3, 6, 16, 17, 0, 596_184),
        ((30_000, 90_000, 400_000, 55, 1_500, 1_000_000, 100_000_000), 6, 16, 13, 0, 369_816),
        ((20_000, 20_001, 1_000_000, 14, 1_500, 1_000_000, 10_000_000), 1, 1, 11, 0, 407_890),
        ((50_000, 50_001, 1_000_000, 34, 1_500, 1_000_000, 10_000_000), 1, 1, 11, 0, 407_890),
        ((100_000, 100_001, 1_000_000, 67, 1_500, 1_000_000, 100_000_000), 1, 1, 8, 0, 511_569),
        ((90_000, 90_001, 1_000_000, 60, 1_500, 1_000_000, 10_000_000), 1, 1, 11, 0, 407_890),
        ((30_000, 90_000, 400_000, 200, 1_000, 500_000, 1_000_000),
            10, 17, 23, 2_147_483_648, 351_835),
        ((5_000, 15_000, 60_000, 20, 1_000, 100_000, 64_000), 6, 17, 23, 429_496_729, 363_439),
        ((75_000, 225_000, 750_000, 83, 1_500, 100_000, 10_000_000_000),
            6, 21, 6, 429_496_729, 360_531),
    ];
    for (set, wlog, plog, scell_log, max_p, table) in sent {
        let p = RedParameters::derive(&spec(set)).unwrap();
        let sum: u64 = (0..)
            .zip(p.idle_shifts)
            .map(|(cell, shift)| cell * u64::from(shift))
            .sum();
        assert_eq!(
            (p.wlog, p.plog, p.scell_log, p.max_probability_q32, sum),
            (wlog, plog, scell_log, max_p, table),
            "{set:?}"
        );
    }
}

#[test]
fn sets_that_tc_refuses_are_refused_with_a_remedy() {
    let refused = |set| RedParameters::derive(&spec(set)).unwrap_err();
    let burst = refused((90_000, 90_001, 1_000_000, 59, 1_500, 1_000_000, 10_000_000));
    assert_eq!(
        burst,
        SpecError::RedBurstTooSmall {
            burst_packets: 59,
            try_packets: 61
        }
    );
    assert_eq!(RedSpec::least_burst_packets(90_000, 1_500), 61);
    assert!(burst.to_string().contains("try burst 61"));
    assert!(matches!(
        refused((400_000, 1_200_000, 4_000_000, 500, 1_000, 1, 1_000_000_000)),
        SpecError::RedProbabilityTooSmall {
            ppm: 1,
            span_bytes: 800_000
        }
    ));
    assert!(matches!(
        refused((90_000, 30_000, 400_000, 61, 1_500, 20_000, 10_000_000)),
        SpecError::RedThresholds { .. }
    ));
    assert!(matches!(
        refused((
            90_000,
            180_000,
            1_000_000,
            61,
            1_500,
            20_000,
            40_000_000_000
        )),
        SpecError::RedBandwidthTooHigh { .. }
    ));
    assert!(matches!(
        refused((75_000, 225_000, 750_000, 83, 1_500, 100_000, 34_000_000_000)),
        SpecError::RedPacketTooShort { .. }
    ));
    // The kernel's red_check_params: 21 bits of max and a Wlog of 12 are two bits too many.
    assert!(matches!(
        refused((
            30_000, 2_000_000, 4_000_000, 400, 1_000, 500_000, 10_000_000
        )),
        SpecError::RedThresholdTooLarge {
            what: "max",
            wlog: 12,
            ..
        }
    ));
    for zero in 0..7 {
        let mut set = RED2;
        let fields = [
            &mut set.0, &mut set.1, &mut set.2, &mut set.3, &mut set.4, &mut set.5,
        ];
        match fields.into_iter().nth(zero) {
            Some(field) => *field = 0,
            None => set.6 = 7,
        }
        assert!(
            matches!(refused(set), SpecError::Zero { .. }),
            "field {zero}"
        );
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
