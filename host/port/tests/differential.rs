//! Compares the programs in the kernel with the same core compiled natively: for the same frames,
//! edits and state must be equal.
//!
//! Time: the programs read the kernel's clock, the native side reads the same clock just before
//! them. Only a pause of 200 ms (a retransmission timeout) could make them differ, so a flow during
//! which the machine paused that long isn't compared to its end, but played again; RTTs and times
//! are ignored.

mod fit;
#[path = "../../../base/core/tests/flows/mod.rs"]
mod flows;
mod kernel;

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;

use fit::{ends, fit, fit_frames, gso};
use flows::forge::{Ends, KINDS, Noise, victims};
use flows::plan::{Step, treatments};
use flows::{Home, Passed, Plan, case_count, for_all, plans, walk};
use kernel::frame::{Oddity, PLAIN, Shape, frame, make_odd, shapes, tags};
use kernel::reading::{Reading, hides_tcp, read};
use kernel::{IFINDEX, context, now_ns, programs, reason};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Edit, Flow, Policy, Reason, Segment, consts};
use uc_port::{
    Counters, Direction, FlowView, KernelError, PacketContext, PortCoupling, PortError, PortPlan,
    Programs,
};

/// Maximum pause that the comparison tolerates, well below the smallest retransmission timeout.
const PAUSE_NS: u64 = 120_000_000;

/// How many times a flow is played at most, if the machine pauses each time.
const PLAYS_MAX: usize = 4;

/// Verdicts of linux/pkt_cls.h that a program returns: the next program decides, or drop.
const NEXT: i32 = -1;
const SHOT: i32 = 2;

/// Both sides of the comparison.
struct Arms<'a> {
    programs: &'a Programs,
    policy: Policy,
    share: u8,
    native: HashMap<(SocketAddr, SocketAddr, u16), Home>,
    counters: Counters,
    began_ns: u64,
    late: bool,
    packets: u64,
    /// Number of packets whose windows were shares.
    shared: u64,
}

type Checked<T> = Result<T, TestCaseError>;

/// Returns the kernel's error number.
fn errno(error: &PortError) -> Option<i32> {
    match error {
        PortError::Kernel(KernelError { source, .. }) => source.raw_os_error(),
        _ => None,
    }
}

impl<'a> Arms<'a> {
    fn new(programs: &'a Programs, policy: Policy, share: u8) -> Arms<'a> {
        programs.forget_flows(IFINDEX).unwrap();
        // with what the port remembers of remote addresses
        programs.clear_plan(IFINDEX).unwrap();
        let is_coupled = u32::from(policy.law) == uc_core::consts::LAW_COUPLED;
        let coupling = match share {
            0 => is_coupled.then(PortCoupling::default),
            share => Some(PortCoupling {
                priority: share,
                ..PortCoupling::share(None)
            }),
        };
        let plan = PortPlan::of_all(policy, coupling);
        let share = plan.rules[0].share;
        programs.set_plan(IFINDEX, &plan).unwrap();
        Arms {
            programs,
            policy,
            share,
            native: HashMap::new(),
            counters: programs.counters().unwrap(),
            began_ns: now_ns(),
            late: false,
            packets: 0,
            shared: 0,
        }
    }

    /// Passes one frame through both sides; returns the native side's result if the frame has a
    /// segment.
    fn pass(
        &mut self,
        bytes: &[u8],
        direction: Direction,
        gso: (u32, u32),
    ) -> Checked<Option<Passed>> {
        let (gso_segs, gso_size) = gso;
        let from_guest = direction == Direction::FromGuest;
        let reading = read(bytes, gso_size, from_guest);
        // the native side has no hooks: tests/hooks.rs has what they change
        self.programs.reset_hooks(IFINDEX, |_| true).unwrap();
        let now_ns = now_ns();
        let run = self.programs.test_run(
            direction,
            bytes,
            PacketContext {
                gso_segs,
                gso_size,
                ..context()
            },
        );
        let run = match run {
            Ok(run) => run,
            // This kernel's test_run accepts no frame without a whole IP header.
            Err(error)
                if reading.as_ref().is_err_and(|&label| label == "malformed")
                    && errno(&error) == Some(libc::EINVAL) =>
            {
                return Ok(None);
            }
            Err(error) => panic!("{error}; frame {bytes:02x?}"),
        };
        self.packets += 1;
        self.late |= kernel::now_ns() - self.began_ns > PAUSE_NS;
        let passed = match &reading {
            Ok(reading) => Some(self.native(reading, now_ns)?),
            Err(_) => None,
        };
        if self.late {
            return Ok(passed);
        }
        let strict = from_guest && uc_core::is_strict(&self.policy);
        let expected = match (&reading, &passed) {
            (Err(label), _) if strict && hides_tcp(bytes) => reason(label).strict(),
            (Err(label), _) => reason(label),
            (Ok(reading), Some(passed)) => passed.reason.counted(&reading.segment, &passed.edit),
            _ => unreachable!("a reading has an answer"),
        };
        let verdict = if expected.drops() { SHOT } else { NEXT };
        prop_assert_eq!(run.verdict, verdict, "{}", expected);
        self.check_counters(expected)?;
        match (&reading, &passed) {
            (Ok(reading), Some(passed)) => {
                check_bytes(reading, bytes, &run.packet, &passed.edit)?;
                self.check_state(reading, passed)?;
            }
            _ => prop_assert_eq!(&run.packet[..], bytes, "not understood, yet changed"),
        }
        Ok(passed)
    }

    /// Runs the native core. A coupled flow's window comes from its group in the kernel
    /// (tests/coupling.rs compares the controllers); the reports must be equal.
    fn native(&mut self, reading: &Reading, now_ns: u64) -> Checked<Passed> {
        let (policy, share, programs) = (self.policy, self.share, self.programs);
        let (mut reports, mut told) = (Vec::new(), None);
        let passed = self
            .native
            .entry((reading.guest, reading.remote, reading.vlan))
            .or_insert_with(|| Home::sharing(policy, share))
            .pass_in(&reading.segment, now_ns, &mut |report| {
                let member = programs.member(&in_table(programs, reading)?).unwrap()?;
                reports.push(*report?);
                told = Some(member);
                Some(member.answer)
            });
        self.shared += reports.len() as u64;
        for (report, member) in reports.iter().zip(told).filter(|_| !self.late) {
            // A repeated timeout is reported as such; the stored and returned state is a loss.
            let state = report.state.min(uc_core::coupling::consts::LOSS as u8);
            prop_assert_eq!(state, member.answer.state);
            let flight_bytes = u64::from(report.flight_bytes.min(1 << 30));
            prop_assert_eq!(flight_bytes, member.flight_bytes);
        }
        Ok(passed)
    }

    fn check_counters(&mut self, expected: Reason) -> Checked<()> {
        let counters = self.programs.counters().unwrap();
        for (reason, packets) in counters.iter() {
            let counted = packets - self.counters.get(reason);
            prop_assert_eq!(counted, u64::from(reason == expected), "counter {}", reason);
        }
        self.counters = counters;
        Ok(())
    }

    fn check_state(&self, reading: &Reading, passed: &Passed) -> Checked<()> {
        let kernel = in_table(self.programs, reading).map(|view| timeless(&view.state));
        prop_assert_eq!(
            kernel,
            passed.after.as_ref().map(timeless),
            "the flow in the table"
        );
        Ok(())
    }
}

/// Returns the flow of a segment in the kernel's table.
fn in_table(programs: &Programs, reading: &Reading) -> Option<FlowView> {
    let mut flow = FlowView::of(IFINDEX, reading.guest, reading.remote, Flow::default());
    flow.vlan = reading.vlan;
    programs.again(&flow).unwrap()
}

/// Returns a flow without the platform's fields and those that depend on the clock. Of law `delay`'s
/// times only their presence stays.
fn timeless(flow: &Flow) -> Flow {
    let mut flow = *flow;
    let delay = &mut flow.annex.delay;
    let is_delay = u32::from(flow.flow.policy.law) == consts::LAW_DELAY;
    if is_delay {
        for timer in &mut delay.timers {
            timer.at_us = 0;
        }
        delay.last_us = delay.last_us.min(1);
        delay.before_us = delay.before_us.min(1);
    }
    (flow.seen_ns, flow.timed_tick, flow.sent_tick) = (0, 0, 0);
    (flow.srtt_us, flow.rttvar_us) = (0, 0);
    // the smallest round-trip time, unless something is on trial (core/flow.h)
    if flow.trial & 3 == 0 && flow.ecn_lost == 0 {
        flow.trial_at = 0;
    }
    flow
}

fn check_bytes(reading: &Reading, before: &[u8], after: &[u8], edit: &Edit) -> Checked<()> {
    let expected = reading.edited(before, edit);
    if expected == before {
        prop_assert_eq!(after, before, "nothing to edit, yet changed");
        return Ok(());
    }
    prop_assert_eq!(
        reading.without_checksums(after),
        reading.without_checksums(&expected)
    );
    let held = reading.checksums_hold(before);
    prop_assert_eq!(
        reading.checksums_hold(after),
        held,
        "checksums: {:02x?}",
        after
    );
    Ok(())
}

#[derive(Clone, Debug)]
struct Case {
    plan: Plan,
    ipv6: bool,
    /// The control information of the frames' tag.
    tag: Option<u16>,
    shapes: Vec<Shape>,
}

fn cases() -> impl Strategy<Value = Case> {
    let anew = vec((any::<(usize, bool, bool)>(), 1u32..=u32::MAX), 0..3);
    let plans = (plans(60, true), treatments(), anew);
    (plans, any::<bool>(), tags(), vec(shapes(), 1..40)).prop_map(
        |((mut plan, treatment, anew), ipv6, tag, shapes)| {
            plan.setup.treatment = treatment;
            for ((place, guest_opens, answered), moved) in anew {
                let step = Step::Anew {
                    guest_opens,
                    answered,
                    moved,
                };
                plan.steps.insert(place % (plan.steps.len() + 1), step);
            }
            fit(&mut plan);
            Case {
                plan,
                ipv6,
                tag,
                shapes,
            }
        },
    )
}

/// Plays a case through both sides. Returns the number of packets, how many of them got a share as
/// their window, and whether the case was compared to its end.
fn play(programs: &Programs, case: &Case) -> Checked<(u64, u64, bool)> {
    let (guest, remote) = ends(case.ipv6);
    let mut arms = Arms::new(programs, case.plan.setup.policy(), case.plan.setup.share);
    let mut failed = None;
    let mut shapes = case.shapes.iter().cycle();
    walk(&case.plan, &mut |segment, _| {
        let untouched = Passed {
            reason: Reason::NO_HANDSHAKE,
            edit: uc_core::no_edit(segment),
            before: None,
            after: None,
        };
        let Some(shape) = shapes.next().filter(|_| failed.is_none()) else {
            return untouched;
        };
        let mut bytes = frame(segment, guest, remote, shape);
        let sound = make_odd(&mut bytes, &shape.oddity);
        if let Some(tag) = case.tag {
            make_odd(&mut bytes, &Oddity::Vlan(tag));
        }
        let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
            Direction::FromGuest
        } else {
            Direction::ToGuest
        };
        let gso = if sound { gso(segment, shape) } else { (0, 0) };
        match arms.pass(&bytes, direction, gso) {
            Ok(passed) => passed.unwrap_or(untouched),
            Err(error) => {
                failed = Some(error);
                untouched
            }
        }
    });
    failed.map_or(Ok((arms.packets, arms.shared, !arms.late)), Err)
}

#[test]
fn live_programs_and_native_core_give_equal_edits_and_state() {
    let Some(programs) = programs(4096) else {
        return;
    };
    let (packets, flows, late) = (Cell::new(0), Cell::new(0u32), Cell::new(0u32));
    let all_shared = Cell::new(0);
    for_all(case_count(2500), &cases(), |case| {
        flows.set(flows.get() + 1);
        for _ in 0..PLAYS_MAX {
            let (passed, shared, on_time) = play(&programs, &case)?;
            packets.set(packets.get() + passed);
            all_shared.set(all_shared.get() + shared);
            if on_time {
                return Ok(());
            }
        }
        late.set(late.get() + 1);
        Ok(())
    });
    println!(
        "{} packets, {} with shares, in {} flows, {} of them late",
        packets.get(),
        all_shared.get(),
        flows.get(),
        late.get()
    );
    assert!(packets.get() >= 20_000, "only {} packets", packets.get());
    let shared = all_shared.get();
    assert!(shared >= 1_000, "only {shared} packets with shares");
    assert!(
        late.get() * 10 < flows.get(),
        "{} flows were late",
        late.get()
    );
}

#[test]
fn live_segments_that_their_receiver_discards_change_no_field_in_the_kernel() {
    let Some(programs) = programs(4096) else {
        return;
    };
    let struck = Cell::new(0u64);
    for_all(case_count(20), &victims(), |(mut plan, noise)| {
        fit(&mut plan);
        // or the test knew data that the port has not seen
        fit_frames(&mut plan);
        let (guest, remote) = ends(false);
        let mut arms = Arms::new(&programs, plan.setup.policy(), plan.setup.share);
        let (mut known, mut noise) = (Ends::new(&plan), Noise(noise | 1));
        let state = || {
            let view = programs.flow(IFINDEX, guest, remote).unwrap();
            view.map(|view| view.state)
        };
        let mut failed = Ok(());
        walk(&plan, &mut |segment, now_ns| {
            let mut pass = |segment: &Segment| {
                let bytes = frame(segment, guest, remote, &PLAIN);
                let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
                    Direction::FromGuest
                } else {
                    Direction::ToGuest
                };
                let passed = arms.pass(&bytes, direction, gso(segment, &PLAIN));
                passed.map(|passed| passed.expect("a whole frame"))
            };
            let passed = match pass(segment) {
                Ok(passed) => passed,
                Err(error) => {
                    failed = Err(error);
                    return Home::new(Policy::default()).pass(segment, now_ns);
                }
            };
            if !passed.reason.drops() {
                known.note(segment, passed.edit.window);
            }
            for turn in 0..KINDS {
                let Some(before) = state() else { break };
                let strike = known.strike(&before, turn, &mut noise);
                let Some((_, forged)) = strike.filter(|_| failed.is_ok()) else {
                    continue;
                };
                failed = pass(&forged).map(|_| ());
                if failed.is_ok() && state() != Some(before) {
                    failed = Err(TestCaseError::fail(format!(
                        "{forged:?} changed {before:?}"
                    )));
                }
                struck.set(struck.get() + 1);
            }
            passed
        });
        failed
    });
    println!("{} forged segments", struck.get());
    assert!(struck.get() >= 1_000, "only {}", struck.get());
}

/// Generates frames of random bytes after a plausible beginning.
fn noise() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let first = (
        any::<bool>(),
        any::<bool>(),
        vec(any::<u8>(), 1..200),
        any::<bool>(),
    );
    first.prop_map(|(ipv6, likely, noise, from_guest)| {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        bytes.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
        bytes.extend(noise);
        if likely && bytes.len() > 24 {
            bytes[14] = if ipv6 { 0x60 } else { 0x45 };
            bytes[if ipv6 { 20 } else { 23 }] = 6;
            if !ipv6 {
                bytes[20] = 0;
                bytes[21] = 0;
            }
            let end = (bytes.len() - if ipv6 { 54 } else { 14 }.min(bytes.len())) as u16;
            let at = if ipv6 { 18 } else { 16 };
            bytes[at..at + 2].copy_from_slice(&end.to_be_bytes());
        }
        (bytes, from_guest)
    })
}

#[test]
fn live_random_frames_pass_unmodified_or_as_the_native_core_edits() {
    let Some(programs) = programs(4096) else {
        return;
    };
    let packets = Cell::new(0);
    for_all(case_count(400), &vec(noise(), 1..30), |frames| {
        let mut arms = Arms::new(&programs, kernel::policy(), 0);
        for (bytes, from_guest) in &frames {
            let direction = if *from_guest {
                Direction::FromGuest
            } else {
                Direction::ToGuest
            };
            arms.pass(bytes, direction, (0, 0))?;
        }
        prop_assert!(arms.packets <= frames.len() as u64);
        packets.set(packets.get() + arms.packets);
        Ok(())
    });
    println!("{} random frames", packets.get());
    assert!(packets.get() >= 1_000, "only {}", packets.get());
}
