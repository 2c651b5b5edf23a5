//! Measures the cost of a packet in the watch programs, in turn with an empty program and with the
//! packet of an unwatched flow, which is parsed and looked up: both directions of a started flow and
//! of one whose windows are set. `cargo run --release -p uc-watch --example watch_cost`; needs root. For
//! the port's own programs: the example `cost` of `host/port`.

use std::error::Error;
use std::os::fd::AsFd;

use etherparse::PacketBuilder;
use nix::sched::{CloneFlags, unshare};
use uc_core::watch::StartPolicy;
use uc_port::cost::{Case, Report, null_program, times};
use uc_port::{AttachVia, Direction, PacketContext, run_packet};
use uc_watch::{ProbeKey, Programs, Settings};

/// Index of the loopback interface in a network namespace of this process's own.
const IFINDEX: u32 = 1;
/// Number of runs of a packet whose mean is one measurement; next line: number of measurements.
const REPEAT: u32 = 10_000;
const ROUNDS: usize = 51;

const GUEST: [u8; 4] = [10, 77, 0, 1];
const REMOTE: [u8; 4] = [10, 77, 0, 2];
/// Remote ports: of an unwatched flow, of a started one, of a starting one.
const UNKNOWN: u16 = 9;
const STARTED: u16 = 5001;
const STARTING: u16 = 5002;

fn main() -> Result<(), Box<dyn Error>> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let programs = Programs::load(ProbeKey::from_bytes(*b"sixteen bytes ok"))?;
    let settings = Settings {
        policy: StartPolicy {
            pace_bytes_per_s: 1_250_000_000,
            ..StartPolicy::usual()
        },
        ..Settings::default()
    };
    let _watched = programs.watch(IFINDEX, &settings, AttachVia::Auto)?;
    programs.add_peer("10.77.0.0/24".parse()?)?;
    prepare(&programs)?;
    let null = null_program()?;
    let case = |name, direction, packet| Case {
        name,
        program: programs.program(direction),
        packet,
        context: context(REPEAT),
    };
    let mut cases = vec![Case {
        name: "empty program",
        program: null.as_fd(),
        packet: data(STARTED, 64)?,
        context: context(REPEAT),
    }];
    for (name, direction, packet) in packets()? {
        cases.push(case(name, direction, packet));
    }
    let times = times(&cases, ROUNDS)?;
    let mut report = Report::new("packet in the watch programs");
    for (case, figures) in cases.iter().zip(&times).skip(1) {
        report.add((case.name, figures), "ns", (cases[0].name, &times[0]));
    }
    // ACKs and data alternate; those of the unwatched flow come first.
    for (index, case) in cases.iter().enumerate().skip(3) {
        let looked_up = &times[2 - index % 2];
        report.add(
            (case.name, &times[index]),
            "ns",
            ("parsed, looked up", looked_up),
        );
    }
    report.finish()?;
    Ok(())
}

fn context(repeat: u32) -> PacketContext {
    PacketContext {
        ifindex: IFINDEX,
        gso_segs: 0,
        gso_size: 0,
        repeat,
    }
}

/// Prepares a flow whose start is over, and one that is starting.
fn prepare(programs: &Programs) -> Result<(), Box<dyn Error>> {
    for port in [STARTED, STARTING] {
        run(programs, Direction::ToGuest, &syn(port)?)?;
        run(programs, Direction::FromGuest, &syn_ack(port)?)?;
    }
    // Two rounds without a mark end its start.
    for number in 0..64 {
        run(programs, Direction::ToGuest, &data(STARTED, number)?)?;
        run(programs, Direction::FromGuest, &ack(STARTED, number + 1)?)?;
    }
    Ok(())
}

/// A packet whose cost is measured: its name, direction and frame.
type Packet = (&'static str, Direction, Vec<u8>);

fn packets() -> Result<[Packet; 6], Box<dyn Error>> {
    use Direction::{FromGuest, ToGuest};
    Ok([
        ("ACK of an unwatched flow", FromGuest, ack(UNKNOWN, 0)?),
        ("data of an unwatched flow", ToGuest, data(UNKNOWN, 0)?),
        ("ACK of a started flow", FromGuest, ack(STARTED, 64)?),
        ("data of a started flow", ToGuest, data(STARTED, 64)?),
        ("ACK whose window is set", FromGuest, ack(STARTING, 0)?),
        ("data of a starting flow", ToGuest, data(STARTING, 0)?),
    ])
}

fn run(programs: &Programs, direction: Direction, packet: &[u8]) -> Result<(), Box<dyn Error>> {
    run_packet(programs.program(direction), packet, context(1), 0)?;
    Ok(())
}

type Step = etherparse::PacketBuilderStep<etherparse::TcpHeader>;

/// Builds the peer's segment after this number of segments of 1,448 bytes.
fn to_guest(port: u16, segments: u32) -> Step {
    PacketBuilder::ethernet2([4; 6], [2; 6])
        .ipv4(REMOTE, GUEST, 64)
        .tcp(port, 40000, 9001 + segments * 1448, 65535)
}

fn from_guest(port: u16) -> Step {
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(GUEST, REMOTE, 64)
        .tcp(40000, port, 1001, 65535)
}

fn written(step: Step, payload: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    step.write(&mut bytes, payload)?;
    Ok(bytes)
}

fn syn(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let step = PacketBuilder::ethernet2([4; 6], [2; 6])
        .ipv4(REMOTE, GUEST, 64)
        .tcp(port, 40000, 9000, 65535);
    written(step.syn(), &[])
}

fn syn_ack(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let step = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(GUEST, REMOTE, 64)
        .tcp(40000, port, 1000, 65535);
    written(step.syn().ack(9001), &[])
}

fn data(port: u16, segments: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    written(to_guest(port, segments).ack(1001), &[0; 1448])
}

fn ack(port: u16, segments: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    written(from_guest(port).ack(9001 + segments * 1448), &[])
}
