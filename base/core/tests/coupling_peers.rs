//! LISA and the Congestion Manager on ctrlTCP's interface.

use crate::flows::seeded::for_all;
use crate::home::{MSS, ROUND_NS, report};
use crate::peers::{Lisa, LisaMember, Manager, ManagerMember};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use uc_core::coupling::{Report, consts};

fn in_slow_start(cwnd_bytes: u32) -> Report {
    Report {
        state: consts::SLOW_START as u8,
        ..report(cwnd_bytes)
    }
}

#[test]
fn lisa_s_newcomer_takes_its_window_from_one_in_slow_start() {
    let mut lisa = Lisa::default();
    let (mut first, mut second) = (LisaMember::default(), LisaMember::default());
    let answer = lisa.register(&mut first, 1, &in_slow_start(10 * MSS));
    assert_eq!(answer.cwnd_bytes, 10 * MSS, "nobody to take from");
    lisa.update(&first, &in_slow_start(16 * MSS));
    let answer = lisa.register(&mut second, 2, &in_slow_start(10 * MSS));
    assert_eq!(
        answer.cwnd_bytes,
        8 * MSS,
        "half, which is below ten segments"
    );
    let answer = lisa.update(&first, &in_slow_start(17 * MSS));
    assert_eq!(answer.cwnd_bytes, 9 * MSS, "the giver pays");
    let answer = lisa.update(&first, &in_slow_start(10 * MSS));
    assert_eq!(answer.cwnd_bytes, 10 * MSS, "once");
}

#[test]
fn lisa_couples_nothing_outside_slow_start() {
    let mut lisa = Lisa::default();
    let (mut first, mut second) = (LisaMember::default(), LisaMember::default());
    lisa.register(&mut first, 1, &in_slow_start(10 * MSS));
    let answer = lisa.update(&first, &report(40 * MSS));
    assert_eq!(answer.cwnd_bytes, 40 * MSS);
    let answer = lisa.register(&mut second, 2, &in_slow_start(10 * MSS));
    assert_eq!(answer.cwnd_bytes, 10 * MSS);
    lisa.leave(&mut second);
    assert_eq!(lisa.giver, 0, "who left gives nothing");
}

#[test]
fn lisa_s_newcomers_bring_no_window_of_their_own() {
    let strategy = vec((0u64..6, 0u8..8, 1u32..60), 1..80);
    for_all(500, &strategy, |steps| {
        let mut lisa = Lisa::default();
        let mut flows = [LisaMember::default(); 6];
        let mut cwnds = [0u32; 6];
        for (index, step, segments) in steps {
            let flow = &mut flows[index as usize];
            let cwnd = &mut cwnds[index as usize];
            if flow.id == 0 {
                let giver = lisa.giver_bytes;
                let before = giver + lisa.owed_bytes;
                let said = in_slow_start(10 * MSS);
                let had_giver = lisa.giver != 0;
                *cwnd = lisa.register(flow, index + 1, &said).cwnd_bytes;
                if had_giver && giver >= 2 * MSS {
                    prop_assert_eq!(lisa.giver_bytes + lisa.owed_bytes, before);
                    prop_assert_eq!(lisa.giver_bytes + *cwnd, giver);
                }
            } else if step == 0 {
                lisa.leave(flow);
            } else {
                let grown = *cwnd + segments * MSS;
                let said = if step == 1 {
                    report(grown)
                } else {
                    in_slow_start(grown)
                };
                let owed = if lisa.giver == flow.id {
                    lisa.owed_bytes
                } else {
                    0
                };
                *cwnd = lisa.update(flow, &said).cwnd_bytes;
                prop_assert_eq!(*cwnd, (grown.saturating_sub(owed)).max(MSS));
            }
        }
        Ok(())
    });
}

#[test]
fn the_congestion_manager_listens_to_no_window_of_its_flows() {
    let strategy = vec(any::<(u8, u8, u32, u32, u8)>(), 1..100);
    for_all(1000, &strategy, |steps| {
        let (mut told, mut untold) = (Manager::default(), Manager::default());
        let mut flows = [(ManagerMember::default(), ManagerMember::default()); 4];
        let mut now_ns = 0;
        for (index, kind, cwnd_bytes, ssthresh_bytes, acked) in steps {
            let (flow, twin) = &mut flows[usize::from(index % 4)];
            let plain = Report {
                acked_bytes: u32::from(acked) * 100,
                state: kind % 4,
                ..report(10 * MSS)
            };
            let lying = Report {
                cwnd_bytes,
                ssthresh_bytes,
                ..plain
            };
            now_ns += 3_000_000;
            if kind > 250 {
                told.leave(flow);
                untold.leave(twin);
            } else if flow.registered == 0 {
                let answer = told.register(flow, &lying);
                prop_assert_eq!(answer, untold.register(twin, &plain));
            } else {
                let answer = told.update(flow, &lying, now_ns);
                prop_assert_eq!(answer, untold.update(twin, &plain, now_ns));
            }
        }
        Ok(())
    });
}

#[test]
fn the_congestion_manager_s_macroflow_is_one_newreno() {
    let mut manager = Manager::default();
    let mut flows = [ManagerMember::default(); 4];
    for flow in &mut flows {
        manager.register(flow, &report(10 * MSS));
    }
    let acked = |bytes: u32| Report {
        acked_bytes: bytes,
        ..report(0)
    };
    // slow start: every byte counts, whoever's it was (RFC 5681 §3.1)
    let mut now_ns = ROUND_NS;
    for flow in &mut flows {
        manager.update(flow, &acked(2 * MSS), now_ns);
    }
    assert_eq!(manager.cwnd_bytes, 18 * MSS);
    // all of them lose: one cut
    now_ns += ROUND_NS;
    for flow in &mut flows {
        let lost = Report {
            state: consts::RECOVERY as u8,
            ..report(0)
        };
        let answer = manager.update(flow, &lost, now_ns);
        assert_eq!(answer.cwnd_bytes, 9 * MSS / 4);
    }
    assert_eq!(manager.ssthresh_bytes, 9 * MSS);
    // congestion avoidance: a segment for each window, equation 3
    for _ in 0..3 {
        now_ns += ROUND_NS;
        for flow in &mut flows {
            manager.update(flow, &acked(9 * MSS / 4), now_ns);
        }
    }
    assert!(
        (11 * MSS..=12 * MSS).contains(&manager.cwnd_bytes),
        "{}",
        manager.cwnd_bytes
    );
    let lost = Report {
        state: consts::LOSS as u8,
        ..report(0)
    };
    now_ns += ROUND_NS;
    manager.update(&mut flows[0], &lost, now_ns);
    assert_eq!(manager.cwnd_bytes, MSS);
}
