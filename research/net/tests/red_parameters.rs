//! RED's parameters against those that `tc` derives.

use uc_net::{BitsPerSec, RedParameters, RedSpec, SpecError};

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
