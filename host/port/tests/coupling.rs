//! The coupled congestion controller as BPF: it passes the verifier under a spin lock, no call has
//! a loop, and the kernel's answers equal the native build's.

#[path = "../../../base/core/tests/flows/seeded.rs"]
mod seeded;

use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert_eq, test_runner::TestCaseError};
use seeded::for_all;
use uc_core::coupling::{Answer, Group, GroupPolicy, Guest, Member, Report, consts};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const GUESTS: u32 = 4;
const FLOWS: u32 = 16;

/// The program's `struct call`.
#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
struct Call {
    now_ns: u64,
    what: u32,
    guest: u32,
    flow: u32,
    priority: u32,
    report: Report,
    policy: GroupPolicy,
    pad: u32,
}

const OPEN: u32 = 0;
const REGISTER: u32 = 1;
const UPDATE: u32 = 2;
const ASK: u32 = 3;

/// Compiles the program as the port's own are; each test into a file of its own.
fn compiled(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coupling");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("coupling-{name}.bpf.o"));
    uc_clang::bpf(&folder, Path::new("coupling.bpf.c"), &object, &[]).unwrap();
    object
}

fn opened(name: &str) -> OpenObject {
    ObjectBuilder::default().open_file(compiled(name)).unwrap()
}

/// Loads the program; `None` if this process may not. If root can't load it, the test fails.
fn loaded(name: &str) -> Option<Object> {
    let loaded = opened(name).load();
    if nix::unistd::geteuid().is_root() {
        return Some(loaded.unwrap());
    }
    let need = |error| format!("loading BPF programs needs root: {error}");
    uc_live::or_skip(loaded.map_err(need))
}

/// Returns the instructions that may follow: none after `exit`; a jump's target and the next one.
fn successors(code: &[libbpf_sys::bpf_insn], at: usize) -> Vec<usize> {
    const JUMPS: [u32; 2] = [libbpf_sys::BPF_JMP, libbpf_sys::BPF_JMP32];
    let (class, kind) = (
        u32::from(code[at].code) & 7,
        u32::from(code[at].code) & 0xf0,
    );
    let target = (at as i64 + 1 + i64::from(code[at].off)) as usize;
    if !JUMPS.contains(&class) || kind == libbpf_sys::BPF_CALL {
        // A 64-bit constant takes two slots.
        let wide = u32::from(code[at].code) == libbpf_sys::BPF_LD | libbpf_sys::BPF_DW;
        return vec![at + 1 + usize::from(wide)];
    }
    match kind {
        libbpf_sys::BPF_EXIT => vec![],
        libbpf_sys::BPF_JA => vec![target],
        _ => vec![target, at + 1],
    }
}

/// Returns the longest path from the first instruction to an exit; `None` if there is a loop.
fn longest_path(code: &[libbpf_sys::bpf_insn]) -> Option<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Unseen,
        Begun,
        Done(usize),
    }
    let mut visits = vec![Visit::Unseen; code.len()];
    let mut stack = vec![0];
    while let Some(&at) = stack.last() {
        let next = successors(code, at);
        if visits[at] == Visit::Unseen {
            visits[at] = Visit::Begun;
            if next.iter().any(|&to| visits[to] == Visit::Begun) {
                return None;
            }
            let unseen = next.iter().filter(|&&to| visits[to] == Visit::Unseen);
            stack.extend(unseen);
        } else {
            stack.pop();
            if visits[at] == Visit::Begun {
                let longest = |to: &usize| match visits[*to] {
                    Visit::Done(steps) => steps,
                    _ => 0,
                };
                visits[at] = Visit::Done(1 + next.iter().map(longest).max().unwrap_or(0));
            }
        }
    }
    match visits[0] {
        Visit::Done(steps) => Some(steps),
        _ => None,
    }
}

#[test]
fn a_call_has_no_loop_so_its_cost_is_independent_of_group_size() {
    let object = opened("instructions");
    let program = object.progs().next().unwrap();
    let code = program.insns();
    let longest = longest_path(code).expect("there is a loop");
    println!("{} instructions, at most {longest} in one call", code.len());
    assert!(longest < code.len());
    // Checks the measure itself: it detects a backward jump.
    let back = libbpf_sys::bpf_insn {
        code: (libbpf_sys::BPF_JMP | libbpf_sys::BPF_JEQ) as u8,
        off: -2,
        ..code[0]
    };
    assert_eq!(longest_path(&[code[0], back, back]), None);
}

/// The kernel's and the native controller side by side.
struct Arms<'a> {
    object: &'a Object,
    group: Group,
    guests: Vec<Guest>,
    flows: Vec<Member>,
    answers: Vec<Answer>,
}

impl<'a> Arms<'a> {
    fn new(object: &'a Object) -> Arms<'a> {
        for map in object.maps() {
            let value = vec![0; map.value_size() as usize];
            for key in 0..map.max_entries() {
                map.update(&key.to_ne_bytes(), &value, MapFlags::ANY)
                    .unwrap();
            }
        }
        Arms {
            object,
            group: Group::default(),
            guests: vec![Guest::default(); GUESTS as usize],
            flows: vec![Member::default(); FLOWS as usize],
            answers: vec![Answer::default(); FLOWS as usize],
        }
    }

    fn in_kernel(&self, call: &Call) -> Answer {
        let program = self.object.progs_mut().next().unwrap();
        let mut packet = call.as_bytes().to_vec();
        let sent = packet.clone();
        let output = program
            .test_run(ProgramInput {
                data_in: Some(&sent),
                data_out: Some(&mut packet),
                ..ProgramInput::default()
            })
            .unwrap();
        assert_eq!(output.return_value, 0);
        let (answer, _) = Answer::read_from_prefix(&packet).unwrap();
        answer
    }

    fn natively(&mut self, call: &Call) -> Answer {
        let guest = &mut self.guests[call.guest as usize];
        let flow = &mut self.flows[call.flow as usize];
        let (report, now_ns) = (&call.report, call.now_ns);
        match call.what {
            OPEN => {
                self.group = Group::open(&call.policy, now_ns);
                Answer::default()
            }
            REGISTER => {
                let priority = call.priority as u8;
                self.group.register(guest, flow, priority, report, now_ns)
            }
            UPDATE => self.group.update(guest, flow, report, now_ns),
            ASK => self.group.ask(guest, flow, now_ns),
            _ => {
                self.group.leave(guest, flow, now_ns);
                Answer::default()
            }
        }
    }

    fn pass(&mut self, call: &Call) -> Result<(), TestCaseError> {
        let kernel = self.in_kernel(call);
        let answer = self.natively(call);
        self.answers[call.flow as usize] = answer;
        prop_assert_eq!(kernel, answer, "call {}", call.what);
        Ok(())
    }

    /// Returns what lies behind the first `skipped` bytes of a map's value.
    fn value<T: FromBytes>(&self, name: &str, key: u32, skipped: usize) -> T {
        let map = self.object.maps().find(|map| map.name() == name).unwrap();
        let value = map.lookup(&key.to_ne_bytes(), MapFlags::ANY);
        T::read_from_bytes(&value.unwrap().unwrap()[skipped..]).unwrap()
    }

    /// The maps hold what the native side holds.
    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.value::<Group>("groups", 0, 8), self.group);
        for (key, guest) in (0..).zip(&self.guests) {
            prop_assert_eq!(self.value::<Guest>("guests", key, 0), *guest);
        }
        for (key, flow) in (0..).zip(&self.flows) {
            prop_assert_eq!(self.value::<Member>("flows", key, 0), *flow);
        }
        Ok(())
    }
}

type Numbers = (u8, u8, [u32; 7], (u16, u8, bool), u32);

/// Generates a call; half of the reports are a TCP's, half are arbitrary.
fn call(arms: &Arms, now_ns: u64, numbers: &Numbers) -> Call {
    let (what, flow, words, (mss_bytes, state, sane), _) = *numbers;
    let flow = u32::from(flow) % FLOWS;
    let [cwnd, ssthresh, flight, used, acked, srtt, age] = words;
    let answer = arms.answers[flow as usize];
    let mut report = Report {
        cwnd_bytes: cwnd,
        ssthresh_bytes: ssthresh,
        flight_bytes: flight,
        used_bytes: used,
        acked_bytes: acked,
        srtt_us: srtt,
        lost_age_us: age,
        mss_bytes,
        state,
        limited: state / 128,
        again: used as u8 % 2,
        ..Report::default()
    };
    if sane {
        report = Report {
            cwnd_bytes: answer.cwnd_bytes.max(10_000) + cwnd % 1500,
            ssthresh_bytes: if state.is_multiple_of(4) {
                consts::INFINITE_SSTHRESH
            } else {
                answer.cwnd_bytes / 2
            },
            flight_bytes: answer.cwnd_bytes,
            used_bytes: answer.cwnd_bytes,
            acked_bytes: acked % 3000,
            srtt_us: srtt % 400_000,
            lost_age_us: 0,
            mss_bytes: 1460,
            state: state % 4,
            limited: u8::from(used.is_multiple_of(5)),
            ..report
        };
    }
    Call {
        now_ns,
        what: match what {
            0..60 => REGISTER,
            60..220 => UPDATE,
            220..240 => ASK,
            _ => 4,
        },
        guest: flow % GUESTS,
        flow,
        priority: age % 256,
        report,
        policy: GroupPolicy::default(),
        pad: 0,
    }
}

#[test]
fn live_kernel_and_native_controller_give_equal_answers() {
    let Some(object) = loaded("kernel") else {
        return;
    };
    let numbers = any::<Numbers>();
    let policies = any::<(u32, u16, bool, u8)>();
    for_all(150, &(policies, vec(numbers, 1..120)), |(policy, steps)| {
        let (aggressiveness_q16, burst_segments, by_rate, size) = policy;
        let mut arms = Arms::new(&object);
        let mut now_ns = 1 << 40;
        let policy = GroupPolicy {
            aggressiveness_q16: aggressiveness_q16 % (1 << 17),
            burst_segments,
            shares: by_rate.into(),
            // Calls about flows, about guests, and about the flows' own laws.
            size: size % 3,
            ..GroupPolicy::default()
        };
        arms.pass(&Call {
            now_ns,
            what: OPEN,
            policy,
            ..Call::default()
        })?;
        for numbers in &steps {
            now_ns += u64::from(numbers.4 % 50_000_000);
            arms.pass(&call(&arms, now_ns, numbers))?;
        }
        arms.compare()
    });
}
