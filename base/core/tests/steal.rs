//! PVTCP against a model that remembers everything that ever happened and looks through all of it,
//! and what the paper promises of it.

use crate::flows::seeded::for_all;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use uc_core::steal::{Clock, Policy, Sample, Timer, consts};

const CASES: u32 = 3_000;
const TIMERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A timer interrupt some ticks after the last, and when it was expected after that.
    Tick { after: u64, expected_after: u64 },
    /// A timer that was due some ticks ago fires, or one at the tick that it was deferred to.
    Fire { timer: usize, kind: u32, ago: u64 },
    /// An ACK of data sent some ticks ago.
    Ack { ago: u64 },
}

fn steps() -> impl Strategy<Value = Step> {
    let gap = || prop_oneof![4 => Just(1u64), 1 => 0u64..4, 2 => 1u64..90];
    prop_oneof![
        (gap(), gap()).prop_map(|(after, expected_after)| Step::Tick {
            after,
            expected_after
        }),
        (0..TIMERS, 0u32..2, 0u64..100).prop_map(|(timer, kind, ago)| Step::Fire {
            timer,
            kind,
            ago
        }),
        (0u64..200).prop_map(|ago| Step::Ack { ago }),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    (prop_oneof![Just(0u32), 0u32..5], 0u8..4, 0u8..4).prop_map(|(slack_ticks, timers, filter)| {
        Policy {
            slack_ticks,
            timers,
            filter,
        }
    })
}

/// Every tick that was handled, with when it was expected; every deferral.
#[derive(Default)]
struct Model {
    ticks: Vec<(u64, u64)>,
    deferrals: Vec<(usize, u64)>,
}

impl Model {
    /// Returns all ticks to which the clock jumped.
    fn spikes(&self, policy: &Policy) -> Vec<u64> {
        let late = |&&(tick, expected): &&(u64, u64)| {
            tick.saturating_sub(expected) > u64::from(policy.slack_ticks)
        };
        // Of the first tick nobody knows when it was due.
        let known = self.ticks.iter().skip(1);
        known.filter(late).map(|&(tick, _)| tick).collect()
    }

    fn defers(&mut self, policy: &Policy, timer: usize, kind: u32, due: u64, now: u64) -> bool {
        let is_chosen = policy.timers & (1 << kind) != 0;
        let by_a_spike = self.spikes(policy).iter().any(|&woken| due <= woken);
        let last = self.deferrals.iter().rev().find(|(of, _)| *of == timer);
        let had_its_tick = last.is_some_and(|&(_, given)| given == due);
        let defers = is_chosen && by_a_spike && due <= now && !had_its_tick;
        if defers {
            self.deferrals.push((timer, now + 1));
        }
        defers
    }

    fn judge(&self, policy: &Policy, sent: u64, now: u64) -> Sample {
        let spikes = self.spikes(policy);
        let in_spike = spikes.contains(&now);
        let spans = spikes.iter().any(|&woken| sent < woken);
        match u32::from(policy.filter) {
            consts::FILTER_SRTT if in_spike => Sample::Smoothed,
            consts::FILTER_SKIP if in_spike => Sample::Nothing,
            consts::FILTER_FLIGHT if spans => Sample::Smoothed,
            _ => Sample::Measured,
        }
    }
}

#[test]
fn decisions_equal_those_of_a_model_with_full_memory() {
    let inputs = (policies(), 1u64..1 << 40, vec(steps(), 1..120));
    for_all(CASES, &inputs, |(policy, start, steps)| {
        let mut clock = Clock::default();
        let mut timers = [Timer::default(); TIMERS];
        let mut model = Model::default();
        let mut now = start;
        clock.tick(&policy, now, now);
        model.ticks.push((now, now));
        for step in steps {
            match step {
                Step::Tick { after: 0, .. } => {
                    prop_assert_eq!(clock.tick(&policy, now, 0), 0, "the same tick again");
                }
                Step::Tick {
                    after,
                    expected_after,
                } => {
                    let expected = now + expected_after;
                    now += after;
                    model.ticks.push((now, expected));
                    prop_assert_eq!(u64::from(clock.tick(&policy, now, expected)), after);
                }
                Step::Fire { timer, kind, ago } => {
                    let given = timers[timer].given_tick;
                    let due = if ago % 3 == 0 && given > 0 && given <= now {
                        given
                    } else {
                        now.saturating_sub(ago)
                    };
                    let ours = clock.defers(&policy, &mut timers[timer], kind, due, now);
                    let theirs = model.defers(&policy, timer, kind, due, now);
                    prop_assert_eq!(ours, theirs, "timer {} due {} at {}", timer, due, now);
                }
                Step::Ack { ago } => {
                    let sent = now.saturating_sub(ago);
                    let ours = clock.judge(&policy, sent, now);
                    prop_assert_eq!(ours, model.judge(&policy, sent, now), "{} at {}", sent, now);
                }
            }
        }
        prop_assert_eq!(clock.spikes, model.spikes(&policy).len() as u64);
        prop_assert_eq!(clock.deferred, model.deferrals.len() as u64);
        Ok(())
    });
}

#[test]
fn a_guest_that_gets_every_tick_is_the_unmodified_one() {
    let inputs = (
        policies(),
        1u64..1 << 40,
        vec((1u64..50, any::<bool>()), 1..200),
    );
    for_all(CASES, &inputs, |(policy, start, steps)| {
        let (mut clock, mut now) = (Clock::default(), start);
        let mut timer = Timer::default();
        clock.tick(&policy, now, now);
        for (after, idles) in steps {
            // Ticks one by one, or none for a while because nothing was to do.
            let expected = if idles { now + after } else { now + 1 };
            now = expected;
            clock.tick(&policy, now, expected);
            let (rtt, due) = (clock.judge(&policy, now.saturating_sub(after), now), now);
            prop_assert_eq!(rtt, Sample::Measured);
            prop_assert!(!clock.defers(&policy, &mut timer, consts::RETRANSMISSION, due, now));
        }
        prop_assert_eq!((clock.spikes, clock.jump_ticks_max), (0, 0));
        Ok(())
    });
}

#[test]
fn whatever_the_hypervisor_does_a_timer_fires_at_the_second_tick_it_sees_after_it_is_due() {
    let inputs = (1u64..1 << 40, vec(1u64..90, 3..40), 0u64..200);
    for_all(CASES, &inputs, |(start, jumps, due_after)| {
        let policy = Policy::paper();
        let (mut clock, mut now) = (Clock::default(), start);
        let mut timer = Timer::default();
        let mut due = start + due_after;
        clock.tick(&policy, now, now);
        let mut seen = 0;
        for jump in jumps {
            let expected = now + 1;
            now += jump;
            clock.tick(&policy, now, expected);
            if due > now {
                continue;
            }
            seen += 1;
            if !clock.defers(&policy, &mut timer, consts::RETRANSMISSION, due, now) {
                prop_assert!(
                    seen <= 2,
                    "fired at the tick number {seen} after it was due"
                );
                return Ok(());
            }
            due = now + 1;
        }
        prop_assert!(seen < 2, "never fired in {seen} ticks");
        Ok(())
    });
}

#[test]
fn a_timer_that_a_stall_made_due_is_put_off_however_late_it_is_handled() {
    let policy = Policy::paper();
    let (mut clock, mut timers) = (Clock::default(), [Timer::default(); 2]);
    clock.tick(&policy, 100, 100);
    clock.tick(&policy, 160, 101);
    clock.tick(&policy, 161, 161);
    clock.tick(&policy, 162, 162);
    let kind = consts::RETRANSMISSION;
    assert!(clock.defers(&policy, &mut timers[0], kind, 160, 162));
    assert_eq!(timers[0].given_tick, 163);
    let after = clock.defers(&policy, &mut timers[1], kind, 161, 162);
    assert!(!after, "due when the CPU was back");
}

#[test]
fn algorithm_1_read_literally_would_pull_a_later_timer_forward_and_this_does_not() {
    let policy = Policy::paper();
    let (mut clock, mut timer) = (Clock::default(), Timer::default());
    clock.tick(&policy, 100, 100);
    assert_eq!(clock.tick(&policy, 160, 101), 60);
    assert!(clock.is_spiked(160));
    let kind = consts::RETRANSMISSION;
    assert!(
        !clock.defers(&policy, &mut timer, kind, 161, 160),
        "not due"
    );
    assert!(
        !clock.defers(&policy, &mut timer, kind, 300, 160),
        "nor is that"
    );
    assert!(clock.defers(&policy, &mut timer, kind, 103, 160));
    clock.tick(&policy, 161, 161);
    assert!(!clock.defers(&policy, &mut timer, kind, 161, 161), "once");
    assert_eq!((clock.jump_ticks_max, clock.deferred), (60, 1));
}
