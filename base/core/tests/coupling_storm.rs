//! The sums: whatever is said to the controller, in whatever order, they are what a count of the
//! members gives, and the shares make the window.

use crate::flows::seeded::for_all;
use crate::home::{Home, MSS, ROUND_NS, report};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use uc_core::coupling::{GroupPolicy, Report, consts};

/// Sums over a pool's members: flows, window-limited, in RTO recovery, weight, full weight, flight.
type Sums = (u32, u32, u32, u64, u64, u64);

macro_rules! sums {
    ($stakes:expr, $epoch:expr, $($back:literal)|+) => {{
        let mut sums: Sums = Default::default();
        for stake in $stakes {
            if $(stake.epoch + $back == $epoch)||+ {
                let held = &stake.held;
                sums.0 += held.flows;
                sums.1 += held.hungry;
                sums.2 += held.stalled;
                sums.3 += held.weight;
                sums.4 += held.claim;
                sums.5 += held.flight_bytes;
            }
        }
        sums
    }};
}

macro_rules! kept {
    ($amounts:expr) => {{
        let kept = $amounts;
        (
            kept.flows,
            kept.hungry,
            kept.stalled,
            kept.weight,
            kept.claim,
            kept.flight_bytes,
        )
    }};
}

/// The kept sums against a count; and the shares against the window.
fn check(home: &Home) -> Result<(), String> {
    let equal = |what: &str, kept: Sums, counted: Sums| {
        (kept == counted)
            .then_some(())
            .ok_or(format!("{what}: kept {kept:?}, counted {counted:?}"))
    };
    for (id, guest) in &home.guests {
        let stakes = || {
            home.flows
                .values()
                .filter(|flow| flow.guest == *id)
                .map(|flow| &flow.member.stake)
        };
        let pool = &guest.flows;
        equal(
            "heard flows",
            kept!(pool.heard),
            sums!(stakes(), pool.epoch, 0),
        )?;
        let counted = sums!(stakes(), pool.epoch, 0 | 1);
        equal("counted flows", kept!(pool.counted), counted)?;
    }
    let stakes = || home.guests.values().map(|guest| &guest.stake);
    let pool = &home.group.guests;
    equal(
        "heard guests",
        kept!(pool.heard),
        sums!(stakes(), pool.epoch, 0),
    )?;
    equal(
        "counted guests",
        kept!(pool.counted),
        sums!(stakes(), pool.epoch, 0 | 1),
    )?;

    let shares: u64 = home.flows.keys().map(|&id| home.share(id)).sum();
    let window = u64::from(home.group.window_bytes());
    let remainders = (home.flows.len() + home.guests.len()) as u64;
    let whole = if pool.counted.flows > 0 { window } else { 0 };
    (shares <= whole && shares + remainders >= whole)
        .then_some(())
        .ok_or(format!(
            "shares {shares}, window {window}, flows {:?}",
            pool.counted
        ))
}

#[derive(Clone, Debug)]
enum Call {
    Register {
        priority: u8,
    },
    Update,
    /// What a TCP would say, so that windows are not at their bounds only.
    Hold,
    Leave,
    Weigh {
        weight: u32,
    },
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u32::MAX),
        Just(consts::INFINITE_SSTHRESH),
        0u32..200_000,
        any::<u32>(),
    ]
}

fn reports() -> impl Strategy<Value = Report> {
    let windows = (numbers(), numbers(), numbers(), numbers(), numbers());
    let times = (numbers(), numbers());
    let small = (any::<u16>(), any::<u8>(), 0u8..3, any::<bool>());
    (windows, times, small).prop_map(
        |(windows, times, (mss_bytes, state, limited, sane))| Report {
            cwnd_bytes: windows.0,
            ssthresh_bytes: windows.1,
            flight_bytes: windows.2,
            used_bytes: windows.3,
            acked_bytes: windows.4,
            srtt_us: times.0,
            lost_age_us: times.1,
            mss_bytes,
            state: if sane { state % 4 } else { state },
            limited,
            again: limited & 1,
            ..Report::default()
        },
    )
}

fn calls() -> impl Strategy<Value = (u64, u32, Call, Report)> {
    let call = prop_oneof![
        4 => any::<u8>().prop_map(|priority| Call::Register { priority }),
        6 => Just(Call::Update),
        4 => Just(Call::Hold),
        1 => Just(Call::Leave),
        1 => numbers().prop_map(|weight| Call::Weigh { weight }),
    ];
    let now_ns = prop_oneof![
        8 => 0u64..5_000_000_000,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ];
    (now_ns, 0u32..20, call, reports())
}

fn policies() -> impl Strategy<Value = GroupPolicy> {
    (numbers(), numbers(), numbers(), any::<(u16, u8, u8)>()).prop_map(
        |(aggressiveness_q16, silence_us, window_max_bytes, (burst_segments, shares, size))| {
            GroupPolicy {
                aggressiveness_q16,
                silence_us,
                window_max_bytes,
                burst_segments,
                shares: shares % 3,
                size: size % 3,
            }
        },
    )
}

#[test]
fn nothing_that_is_said_traps_or_moves_a_sum_away_from_its_members() {
    use proptest::test_runner::TestCaseError;

    let strategy = (policies(), vec(calls(), 1..80));
    for_all(1000, &strategy, |(policy, calls)| {
        let mut home = Home::new(policy);
        for (now_ns, id, call, report) in &calls {
            home.now_ns = *now_ns;
            let mss = u32::from(report.mss_bytes.max(48));
            let answer = match call {
                Call::Register { priority } => home.register(id % 5, *id, *priority, report),
                Call::Update => home.update(*id, report),
                Call::Hold if home.flows.contains_key(id) => home.hold(*id),
                Call::Leave => {
                    home.leave(*id);
                    continue;
                }
                Call::Weigh { weight } => {
                    home.set_weight(id % 5, *weight);
                    continue;
                }
                Call::Hold => continue,
            };
            check(&home).map_err(TestCaseError::fail)?;
            let window = home.group.window_bytes();
            let least = u32::from(home.group.guests.counted.flows > 0);
            proptest::prop_assert!((least..=1 << 30).contains(&window), "{window}");
            let free = u32::from(answer.state) < consts::RECOVERY;
            if home.flows.contains_key(id) && free && matches!(call, Call::Update) {
                let cwnd = answer.cwnd_bytes;
                proptest::prop_assert!(cwnd >= mss, "{cwnd} of {mss}");
                proptest::prop_assert!(cwnd <= window.max(mss), "{cwnd} of {window}");
            }
        }
        Ok(())
    });
}

#[test]
fn ten_thousand_flows_join_and_leave_without_a_trace() {
    let window_bytes = 20_000 * MSS;
    let mut home = Home::open(GroupPolicy::default(), window_bytes);
    for id in 1..=10_000 {
        home.join(
            id % 100,
            id,
            (id % 9) as u8,
            10 * MSS,
            consts::INFINITE_SSTHRESH,
        );
        home.now_ns += 1000;
    }
    check(&home).unwrap();
    home.round();
    check(&home).unwrap();
    for storm in 0..3u32 {
        for id in 1..=10_000u32 {
            // some leave, some die, some register twice, some come back under an old name
            match (id + storm) % 4 {
                0 => home.leave(id),
                1 => home.hold_or_join(id),
                2 => drop(home.join(id % 100, id, 3, 10 * MSS, consts::INFINITE_SSTHRESH)),
                _ => {}
            }
            home.now_ns += 20_000;
            if id.is_multiple_of(500) {
                home.hold(0);
            }
        }
        check(&home).unwrap();
        assert_eq!(home.group.window_bytes(), window_bytes);
    }
    for id in 1..=10_000 {
        home.leave(id);
    }
    home.round();
    check(&home).unwrap();
    let all = home.group.guests.counted;
    assert_eq!((all.flows, all.hungry, all.stalled), (1, 1, 0));
    assert_eq!(home.answer(0).cwnd_bytes, window_bytes);
}

#[test]
fn damaged_sums_are_right_again_two_epochs_later() {
    let mut home = Home::open(GroupPolicy::default(), 1000 * MSS);
    for id in 1..40 {
        home.join(id % 4, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    for damage in [0u64, 1, 1 << 31, u64::MAX] {
        home.round();
        let pool = &mut home.group.guests;
        (pool.counted.weight, pool.heard.weight) = (damage, damage);
        (pool.counted.flight_bytes, pool.counted.flows) = (damage, damage as u32);
        for guest in home.guests.values_mut() {
            (guest.flows.counted.weight, guest.flows.heard.claim) = (damage, damage);
            guest.flows.counted.priority = damage as u32;
        }
        let began_ns = home.now_ns;
        while home.now_ns < began_ns + 3 * home.group.epoch_ns() {
            home.round();
            for flow in home.flows.values() {
                assert!(flow.answer.cwnd_bytes >= MSS);
            }
        }
        check(&home).unwrap();
    }
}

#[test]
fn a_group_that_is_opened_anew_counts_nothing_of_the_old_one() {
    let mut home = Home::open(GroupPolicy::default(), 1000 * MSS);
    for id in 1..40 {
        home.join(id % 4, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    // the home forgot to forget guests and flows
    home.now_ns += ROUND_NS;
    home.group = uc_core::coupling::Group::open(&GroupPolicy::default(), home.now_ns);
    home.update(7, &report(10 * MSS));
    assert_eq!(home.group.guests.counted.flows, 1);
    check(&home).unwrap();
}
