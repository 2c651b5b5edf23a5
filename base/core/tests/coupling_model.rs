//! The core's O(1) arithmetic against a model that loops over everything, on random traces.

use std::cell::Cell;

use crate::flows::seeded::for_all;
use crate::home::{Home, report};
use crate::model::Model;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use uc_core::coupling::{GroupPolicy, Report, consts};

const FLOWS: u32 = 12;
const GUESTS: u32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Join {
        priority: u8,
        segments: u8,
    },
    Leave,
    /// The window limits, and the flow's law grows it by part of a segment.
    Ack {
        grown_q8: u8,
        acked_q8: u8,
    },
    /// The application limits: so much of the window is used.
    Limited {
        used_q8: u8,
    },
    Shrink,
    EndSlowStart,
    Lose {
        left_q8: u8,
        age_us: u32,
    },
    Stay {
        grown_q8: u8,
    },
    /// A further mark before the last reduction is over.
    Again {
        left_q8: u8,
    },
    TimeOut {
        again: bool,
    },
    Weigh {
        weight: u8,
    },
}

fn steps() -> impl Strategy<Value = (u64, u32, Step)> {
    let step = prop_oneof![
        3 => (0u8..10, 1u8..40).prop_map(|(priority, segments)| Step::Join { priority, segments }),
        1 => Just(Step::Leave),
        16 => any::<(u8, u8)>().prop_map(|(grown_q8, acked_q8)| Step::Ack { grown_q8, acked_q8 }),
        4 => any::<u8>().prop_map(|used_q8| Step::Limited { used_q8 }),
        1 => Just(Step::Shrink),
        1 => Just(Step::EndSlowStart),
        2 => (100u8.., prop_oneof![Just(0), 0u32..100_000])
            .prop_map(|(left_q8, age_us)| Step::Lose { left_q8, age_us }),
        3 => any::<u8>().prop_map(|grown_q8| Step::Stay { grown_q8 }),
        2 => (100u8..).prop_map(|left_q8| Step::Again { left_q8 }),
        2 => any::<bool>().prop_map(|again| Step::TimeOut { again }),
        1 => any::<u8>().prop_map(|weight| Step::Weigh { weight }),
    ];
    let pause_us = prop_oneof![20 => 0u64..20_000, 1 => 0u64..500_000];
    (pause_us, 0..FLOWS, step)
}

fn policies() -> impl Strategy<Value = GroupPolicy> {
    let of = |shares: u32, size: u32| {
        prop_oneof![Just(0), Just(1 << 16), 0..65536u32].prop_flat_map(move |aggressiveness_q16| {
            prop_oneof![Just(0u16), 1u16..50, Just(u16::MAX)].prop_map(move |burst_segments| {
                GroupPolicy {
                    aggressiveness_q16,
                    burst_segments,
                    shares: shares as u8,
                    size: size as u8,
                    ..GroupPolicy::default()
                }
            })
        })
    };
    prop_oneof![
        of(consts::BY_WINDOW, consts::SIZE_FLOWS),
        of(consts::BY_WINDOW, consts::SIZE_GUESTS),
        of(consts::BY_RATE, consts::SIZE_FLOWS),
        of(consts::BY_RATE, consts::SIZE_GUESTS),
        of(consts::BY_WINDOW, consts::SIZE_LAWS),
        of(consts::BY_RATE, consts::SIZE_LAWS),
    ]
}

/// Each flow has a path and a segment size of its own; one hasn't measured its path.
fn plain(id: u32, cwnd_bytes: u32) -> Report {
    Report {
        srtt_us: id * 23_000,
        mss_bytes: if id.is_multiple_of(3) { 536 } else { 1460 },
        ..report(cwnd_bytes)
    }
}

fn part(whole: u32, part_q8: u8) -> u32 {
    (u64::from(whole) * u64::from(part_q8) / 256) as u32
}

/// Makes the flow's report in this step from its last answer.
fn said(home: &Home, id: u32, step: &Step) -> Report {
    let answer = home.answer(id);
    let mss = u32::from(plain(id, 0).mss_bytes);
    let mut said = Report {
        ssthresh_bytes: answer.ssthresh_bytes,
        ..plain(id, answer.cwnd_bytes)
    };
    said.state = if u32::from(answer.state) == consts::SLOW_START {
        consts::SLOW_START as u8
    } else {
        consts::AVOIDANCE as u8
    };
    match *step {
        Step::Ack { grown_q8, acked_q8 } => {
            said.cwnd_bytes += part(2 * mss, grown_q8);
            said.acked_bytes = part(3 * mss, acked_q8);
            said.flight_bytes -= said.acked_bytes.min(said.flight_bytes);
        }
        Step::Limited { used_q8 } => {
            said.limited = 1;
            said.used_bytes = part(said.cwnd_bytes, used_q8);
            said.flight_bytes = said.used_bytes / 2;
        }
        Step::Shrink => said.cwnd_bytes -= (2 * mss).min(said.cwnd_bytes - mss),
        Step::EndSlowStart => {
            said.state = consts::AVOIDANCE as u8;
            said.ssthresh_bytes /= 2;
        }
        Step::Lose { left_q8, age_us } => {
            said.state = consts::RECOVERY as u8;
            said.ssthresh_bytes = part(said.cwnd_bytes, left_q8);
            said.lost_age_us = age_us;
        }
        Step::Again { left_q8 } => {
            said.state = consts::RECOVERY as u8;
            said.ssthresh_bytes = part(said.cwnd_bytes, left_q8);
            said.again = 1;
        }
        Step::Stay { grown_q8 } => {
            said.state = answer.state;
            said.cwnd_bytes += part(mss, grown_q8);
        }
        Step::TimeOut { again } => {
            said.state = if again { consts::BACKOFF } else { consts::LOSS } as u8;
            said.ssthresh_bytes = said.cwnd_bytes / 2;
            said.cwnd_bytes = mss;
            said.flight_bytes = 0;
        }
        Step::Join { .. } | Step::Leave | Step::Weigh { .. } => {}
    }
    said
}

fn play(home: &mut Home, model: &mut Model, id: u32, step: &Step) {
    let guest = id % GUESTS;
    match *step {
        Step::Join { priority, segments } => {
            let mut said = plain(id, u32::from(segments) * 1460);
            (said.flight_bytes, said.used_bytes) = (0, 0);
            home.register(guest, id, priority, &said);
            model.register(guest, id, priority, &said, home.now_ns);
        }
        Step::Leave => {
            home.leave(id);
            model.leave(id, home.now_ns);
        }
        Step::Weigh { weight } => {
            home.set_weight(guest, weight.into());
            model.guests.entry(guest).or_default().weight = weight.into();
        }
        _ if home.flows.contains_key(&id) => {
            let said = said(home, id, step);
            home.update(id, &said);
            model.update(id, &said, home.now_ns);
        }
        _ => {}
    }
}

/// Both round each number in the same way, so they agree to the byte.
fn compare(home: &Home, model: &Model, touched: u32) -> Result<(), TestCaseError> {
    prop_assert_eq!(u64::from(home.group.window_bytes()), model.window());
    for &id in home.flows.keys() {
        // one whom nobody has asked about since its epoch ended has not been told yet
        if model.counts(id) || id == touched {
            let wanted = model.share(id, model.window());
            prop_assert_eq!(home.share(id), wanted, "share of flow {}", id);
        }
    }
    if let (Some(flow), Some(other)) = (home.flows.get(&touched), model.flows.get(&touched)) {
        let (answer, mss) = (flow.answer, u32::from(plain(touched, 0).mss_bytes));
        let found = (answer.cwnd_bytes.into(), answer.ssthresh_bytes.into());
        let wanted = (other.given, other.given_ssthresh);
        prop_assert_eq!(found, wanted, "answer to flow {}", touched);
        let starves = answer.cwnd_bytes < mss && u32::from(answer.state) < consts::RECOVERY;
        prop_assert!(!starves, "{answer:?}");
    }
    Ok(())
}

#[test]
fn the_core_and_a_model_that_loops_over_everything_agree_at_every_step() {
    let (cuts, grown, shared) = (Cell::new(0u64), Cell::new(0u64), Cell::new(0u64));
    let strategy = (policies(), vec(steps(), 1..200));
    for_all(1500, &strategy, |(policy, steps)| {
        let mut home = Home::new(policy);
        let mut model = Model::new(policy, home.now_ns);
        for (pause_us, id, step) in &steps {
            home.now_ns += pause_us * 1000;
            let before = home.group.window_bytes();
            play(&mut home, &mut model, *id, step);
            compare(&home, &model, *id)?;
            grown.set(grown.get() + u64::from(home.group.window_bytes() > before));
            let counted = home.group.guests.counted.flows;
            shared.set(shared.get() + u64::from(counted > 3));
        }
        cuts.set(cuts.get() + u64::from(home.group.cuts));
        Ok(())
    });
    println!(
        "{} cuts, {} times grown, {} steps of many",
        cuts.get(),
        grown.get(),
        shared.get()
    );
    assert!(
        cuts.get() > 3000 && grown.get() > 3000 && shared.get() > 30_000,
        "too few to tell"
    );
}
