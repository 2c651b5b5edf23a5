//! Compares the programs in the kernel with the same core compiled natively: for the same probes,
//! marks and segments, windows must be equal.
//!
//! Nothing here depends on time: path records last an hour, and there are no pacing slots. The
//! random choice, the middle one of an odd number of marks, may come out either way; the native
//! side then follows.

mod kernel;

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use etherparse::{PacketBuilder, TcpOptionElement};
use kernel::{Probe, run, watched};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use uc_core::watch::{Bucket, Path, Start, StartPolicy, consts as watch};
use uc_core::{Segment, consts};
use uc_port::Direction;
use uc_watch::{Data, Programs, Settings};

const GUEST: &str = "10.77.0.2:80";
const REMOTE_ISN: u32 = 0xffff_f000; // numbers wrap on the way
const GUEST_ISN: u32 = 9_000;
const WINDOW: u16 = 65_000;

#[derive(Clone, Debug)]
enum Step {
    Probe {
        index: u8,
        ecn: u8,
    },
    Data {
        bytes: u16,
        ecn: u8,
    },
    /// An ACK of all data that has arrived.
    Ack {
        window: u16,
    },
    Duplicate,
}

#[derive(Clone, Debug)]
struct Opening {
    mss: [u16; 2],
    wscale: [Option<u8>; 2],
    timestamps: [bool; 2],
    syn_ecn: u8,
    early: Vec<Step>,
    then: Vec<Step>,
    ipv6: bool,
}

fn ecn() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(2u8), 2 => Just(3u8), 1 => Just(0u8)]
}

fn probe() -> impl Strategy<Value = Step> {
    (0..10u8, prop_oneof![Just(2u8), Just(3u8)]).prop_map(|(index, ecn)| Step::Probe { index, ecn })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => probe(),
        4 => (1..1_460u16, ecn()).prop_map(|(bytes, ecn)| Step::Data { bytes, ecn }),
        3 => (1..u16::MAX).prop_map(|window| Step::Ack { window }),
        1 => Just(Step::Duplicate),
    ]
}

fn opening() -> impl Strategy<Value = Opening> {
    let mss = [500..1_461u16, 500..1_461u16];
    let wscale = [proptest::option::of(0..15u8), proptest::option::of(0..15u8)];
    let early = vec(probe(), 0..14);
    (
        mss,
        wscale,
        any::<[bool; 2]>(),
        ecn(),
        early,
        vec(step(), 0..60),
        any::<bool>(),
    )
        .prop_map(
            |(mss, wscale, timestamps, syn_ecn, early, then, ipv6)| Opening {
                mss,
                wscale,
                timestamps,
                syn_ecn,
                early,
                then,
                ipv6,
            },
        )
}

/// Both sides of the comparison, for one flow.
struct Arms<'a> {
    programs: &'a Programs,
    policy: StartPolicy,
    start: Start,
    path: Path,
    guest: SocketAddr,
    remote: SocketAddr,
    /// The guest's next sequence number, and what it has acknowledged.
    next: u32,
    ack: u32,
    window: u16,
}

/// One TCP segment, as both sides get it.
struct Sent {
    to_guest: bool,
    flags: u32,
    seq: u32,
    ack: u32,
    window: u16,
    ecn: u8,
    payload: u16,
    offers: Option<(u16, Option<u8>, bool)>,
}

impl Arms<'_> {
    fn frame(&self, sent: &Sent) -> Vec<u8> {
        let (from, to) = if sent.to_guest {
            (self.remote, self.guest)
        } else {
            (self.guest, self.remote)
        };
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let packet = match (from.ip(), to.ip()) {
            (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
                ethernet.ipv4(from.octets(), to.octets(), 64)
            }
            (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
                ethernet.ipv6(from.octets(), to.octets(), 64)
            }
            _ => unreachable!("both ends have one family"),
        };
        let mut packet = packet.tcp(from.port(), to.port(), sent.seq, sent.window);
        if sent.flags & consts::SYN != 0 {
            packet = packet.syn();
        }
        if sent.flags & consts::ACK != 0 {
            packet = packet.ack(sent.ack);
        }
        if let Some((mss, wscale, timestamps)) = sent.offers {
            let mut options = vec![TcpOptionElement::MaximumSegmentSize(mss)];
            options.extend(wscale.map(TcpOptionElement::WindowScale));
            options.extend(timestamps.then_some(TcpOptionElement::Timestamp(1, 2)));
            packet = packet.options(&options).unwrap();
        }
        let mut frame = Vec::new();
        packet
            .write(&mut frame, &vec![0; usize::from(sent.payload)])
            .unwrap();
        if from.is_ipv4() {
            frame[15] |= sent.ecn;
        } else {
            frame[15] |= sent.ecn << 4;
        }
        frame
    }

    fn segment(&self, sent: &Sent) -> Segment {
        let mut segment = Segment {
            seq: sent.seq,
            ack: sent.ack,
            payload_bytes: sent.payload.into(),
            wire_payload_bytes: sent.payload,
            window: sent.window,
            flags: sent.flags as u8,
            ecn: sent.ecn,
            direction: if sent.to_guest {
                consts::TO_GUEST as u8
            } else {
                consts::FROM_GUEST as u8
            },
            ..Segment::default()
        };
        if let Some((mss, wscale, timestamps)) = sent.offers {
            segment.options |= consts::OPT_MSS as u8;
            segment.mss_bytes = mss;
            if let Some(wscale) = wscale {
                segment.options |= consts::OPT_WSCALE as u8;
                segment.wscale = wscale;
            }
            if timestamps {
                segment.options |= consts::OPT_TIMESTAMPS as u8;
            }
        }
        segment
    }

    fn probe(&mut self, index: u8, ecn: u8) {
        let probe = Probe {
            source: self.remote,
            destination: self.guest,
            index,
            ecn,
            connection: REMOTE_ISN,
            ..Probe::new(false)
        };
        run(self.programs, Direction::ToGuest, &probe.frame());
        self.start.probe(index, probe.count, ecn);
    }

    fn arrives(&mut self, sent: &Sent) -> Result<(), TestCaseError> {
        let frame = self.frame(sent);
        let run = run(self.programs, Direction::ToGuest, &frame);
        prop_assert!(run.packet == frame, "changed on its way to the guest");
        self.start.arrives(&self.segment(sent));
        Ok(())
    }

    /// Checks that the kernel wrote a window that the native core would write.
    fn leaves(&mut self, sent: &Sent) -> Result<(), TestCaseError> {
        let frame = self.frame(sent);
        let run = run(self.programs, Direction::FromGuest, &frame);
        prop_assert_eq!(run.verdict, kernel::NEXT);
        let tcp = if self.guest.is_ipv4() { 34 } else { 54 };
        let window = u16::from_be_bytes([run.packet[tcp + 14], run.packet[tcp + 15]]);
        let segment = self.segment(sent);
        let natives = [0, 1, 2, 3].map(|random| {
            let (mut start, mut path) = (self.start, self.path);
            let bucket = Bucket::default();
            let now_ns = 1 + u64::from(segment.ack);
            let policy = &self.policy;
            let answer = start.leaves(policy, (&mut path, &bucket), &segment, now_ns, random);
            (answer.window, start, path)
        });
        let found = natives.iter().find(|native| native.0 == window);
        let windows = natives.map(|native| native.0);
        prop_assert!(found.is_some(), "kernel {window}, native {windows:?}");
        if let Some((_, start, path)) = found {
            (self.start, self.path) = (*start, *path);
        }
        self.window = sent.window;
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let plain = Sent {
            to_guest: false,
            flags: consts::ACK,
            seq: GUEST_ISN + 1,
            ack: self.ack,
            window: self.window,
            ecn: 0,
            payload: 0,
            offers: None,
        };
        match *step {
            Step::Probe { index, ecn } => self.probe(index, ecn),
            Step::Data { bytes, ecn } => {
                self.arrives(&Sent {
                    to_guest: true,
                    seq: self.next,
                    ack: GUEST_ISN + 1,
                    ecn,
                    payload: bytes,
                    ..plain
                })?;
                self.next = self.next.wrapping_add(bytes.into());
            }
            Step::Ack { window } => {
                self.ack = self.next;
                self.leaves(&Sent {
                    ack: self.ack,
                    window,
                    ..plain
                })?;
            }
            Step::Duplicate => self.leaves(&plain)?,
        }
        Ok(())
    }
}

fn settings() -> Settings {
    Settings {
        policy: StartPolicy {
            fresh_us: 3_600_000_000,
            idle_us: 3_600_000_000,
            pace_bytes_per_s: 0,
            ..StartPolicy::usual()
        },
        sends: Data::Nobodys,
        receives: Data::FromClient,
        per_second: 1_000_000,
        burst: 1_000_000,
    }
}

fn compare(programs: &Programs, case: u32, opening: &Opening) -> Result<u8, TestCaseError> {
    // Each case has a remote, and so a path, of its own.
    let address = Ipv4Addr::from(0x0a4e_0000 + case);
    let (guest, remote) = if opening.ipv6 {
        let remote = format!("[fd78::{case:x}]:40000").parse().unwrap();
        ("[fd77::2]:80".parse().unwrap(), remote)
    } else {
        (
            GUEST.parse().unwrap(),
            SocketAddr::new(address.into(), 40_000),
        )
    };
    let mut arms = Arms {
        programs,
        policy: settings().policy,
        start: Start::default(),
        path: Path::default(),
        guest,
        remote,
        next: REMOTE_ISN.wrapping_add(1),
        ack: REMOTE_ISN.wrapping_add(1),
        window: WINDOW,
    };
    for step in &opening.early {
        arms.step(step)?;
    }
    let offers = |end: usize| {
        let (mss, wscale) = (opening.mss[end], opening.wscale[end]);
        Some((mss, wscale, opening.timestamps[end]))
    };
    arms.arrives(&Sent {
        to_guest: true,
        flags: consts::SYN,
        seq: REMOTE_ISN,
        ack: 0,
        window: WINDOW,
        ecn: opening.syn_ecn,
        payload: 0,
        offers: offers(0),
    })?;
    arms.leaves(&Sent {
        to_guest: false,
        flags: consts::SYN | consts::ACK,
        seq: GUEST_ISN,
        ack: REMOTE_ISN.wrapping_add(1),
        window: WINDOW,
        ecn: 0,
        payload: 0,
        offers: offers(1),
    })?;
    for step in &opening.then {
        arms.step(step)?;
    }
    Ok(arms.start.stage)
}

#[test]
fn live_programs_and_native_core_give_equal_windows() {
    let Some((programs, _watched)) = watched(&settings()) else {
        return;
    };
    programs.be_alive(0).unwrap();
    for prefix in ["10.0.0.0/8", "fd78::/16"] {
        programs.add_peer(prefix.parse().unwrap()).unwrap();
    }
    let (cases, left) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(Config {
        cases: 400,
        ..Config::default()
    });
    let ran = runner.run(&opening(), |opening| {
        cases.set(cases.get() + 1);
        let stage = compare(&programs, cases.get(), &opening)?;
        left.set(left.get() + u32::from(u32::from(stage) == watch::LEFT));
        Ok(())
    });
    ran.unwrap_or_else(|error| {
        panic!("{error}\nrepeat: cargo test -p uc-watch --test differential")
    });
    let (cases, left) = (cases.get(), left.get());
    assert!(
        left > cases / 10 && left < cases,
        "{left} of {cases} starts ended"
    );
}
