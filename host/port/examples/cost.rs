//! Measures the cost of a packet in the port programs, in nanoseconds, side by side in one run: a
//! packet that is not TCP (parse only), one of an unknown flow (parse and look up), and both
//! directions of a translated flow. A flow whose packet is repeated does not advance, so the
//! segments of an advancing flow follow, each a run of its own with the cost of starting it.
//! `cargo run --release -p uc-port --example cost [rings]`; needs root.

use std::error::Error;

use etherparse::PacketBuilder;
use uc_core::{Policy, consts};
use uc_port::cost::{Case, Costs, median};
use uc_port::{Direction, PacketContext, PortCoupling, PortPlan, Programs, RINGS_MAX};

/// The loopback interface, which every network namespace has.
const IFINDEX: u32 = 1;
/// Number of runs of one packet whose mean is one time.
const REPEAT: u32 = 1_000_000;

/// Remote ports of the flows.
const TRANSLATED: u16 = 5001;
const COUPLED: u16 = 5002;
const MOVING: u16 = 5003;

/// Number of segments of the advancing flow, each with its ACK.
const SEGMENTS: u32 = 50_000;
const SEGMENT_BYTES: u32 = 1448;

const GUEST: [u8; 4] = [10, 77, 0, 1];
const REMOTE: [u8; 4] = [10, 77, 0, 2];

fn main() -> Result<(), Box<dyn Error>> {
    let rings = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => RINGS_MAX,
    };
    let programs = Programs::load_with(65536, rings)?;
    let policy = Policy {
        ecn_syns: 2,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    };
    programs.set_plan(IFINDEX, &policy.into())?;
    connect(&programs, TRANSLATED)?;
    connect(&programs, MOVING)?;
    programs.set_plan(
        IFINDEX,
        &PortPlan {
            coupling: Some(PortCoupling::default()),
            ..Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX).into()
        },
    )?;
    connect(&programs, COUPLED)?;
    // Data in flight, so that there is something to report. The packet that repeats is the second
    // segment: each repetition of the first would look like a timeout of the guest.
    for port in [TRANSLATED, COUPLED] {
        run(&programs, Direction::FromGuest, &data(port, 0)?)?;
    }

    let program = |direction| programs.program(direction);
    let costs = Costs::measure(program, (IFINDEX, REPEAT), &cases()?)?;
    let mut single = Costs::default();
    single.push("one run of UDP", each_udp(&programs)?);
    let (sent, answered) = each_segment(&programs)?;
    single.push("one run of the next data", sent);
    single.push("one run of their ACK", answered);
    print!("{costs}{single}");
    Ok(())
}

fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    use Direction::{FromGuest, ToGuest};
    Ok(vec![
        Case::new("UDP: parsed, passed", FromGuest, udp()?),
        Case::new("unknown flow: parsed, looked up", FromGuest, data(9, 0)?),
        Case::new(
            "translated data from the guest",
            FromGuest,
            data(TRANSLATED, 1)?,
        ),
        Case::new("translated ACK to the guest", ToGuest, ack(TRANSLATED, 0)?),
        Case::new("coupled ACK to the guest", ToGuest, ack(COUPLED, 0)?),
    ])
}

/// Measures the cost of a run of its own.
fn each_udp(programs: &Programs) -> Result<u128, Box<dyn Error>> {
    let packet = udp()?;
    let times: Result<Vec<_>, _> = (0..SEGMENTS)
        .map(|_| run(programs, Direction::FromGuest, &packet))
        .collect();
    Ok(median(&mut times?))
}

/// Measures an advancing flow: new data in each run, and its ACK.
fn each_segment(programs: &Programs) -> Result<(u128, u128), Box<dyn Error>> {
    let (mut sent, mut answered) = (Vec::new(), Vec::new());
    for number in 0..SEGMENTS {
        let segment = data(MOVING, number)?;
        sent.push(run(programs, Direction::FromGuest, &segment)?);
        let answer = ack(MOVING, number + 1)?;
        answered.push(run(programs, Direction::ToGuest, &answer)?);
    }
    Ok((median(&mut sent), median(&mut answered)))
}

fn connect(programs: &Programs, port: u16) -> Result<(), Box<dyn Error>> {
    run(programs, Direction::FromGuest, &syn(port)?)?;
    run(programs, Direction::ToGuest, &syn_ack(port)?)?;
    Ok(())
}

fn run(programs: &Programs, direction: Direction, packet: &[u8]) -> Result<u128, Box<dyn Error>> {
    let context = PacketContext {
        ifindex: IFINDEX,
        gso_segs: 0,
        gso_size: 0,
        repeat: 1,
    };
    Ok(programs
        .test_run(direction, packet, context)?
        .duration
        .as_nanos())
}

fn from_guest(port: u16, seq: u32) -> etherparse::PacketBuilderStep<etherparse::TcpHeader> {
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(GUEST, REMOTE, 64)
        .tcp(40000, port, seq, 29200)
}

fn to_guest(port: u16, seq: u32) -> etherparse::PacketBuilderStep<etherparse::TcpHeader> {
    PacketBuilder::ethernet2([4; 6], [2; 6])
        .ipv4(REMOTE, GUEST, 64)
        .tcp(port, 40000, seq, 65535)
}

fn syn(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    from_guest(port, 1000).syn().write(&mut bytes, &[])?;
    Ok(bytes)
}

fn syn_ack(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    let mut step = to_guest(port, 9000).syn().ack(1001);
    step = step.ece();
    step.write(&mut bytes, &[])?;
    Ok(bytes)
}

/// Returns the sequence number of the guest's segment with this number.
fn seq_of(number: u32) -> u32 {
    1001 + number * SEGMENT_BYTES
}

fn data(port: u16, number: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    from_guest(port, seq_of(number))
        .ack(9001)
        .write(&mut bytes, &[0; SEGMENT_BYTES as usize])?;
    Ok(bytes)
}

/// Returns an ACK of all data before the segment with this number.
fn ack(port: u16, number: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    to_guest(port, 9001)
        .ack(seq_of(number))
        .write(&mut bytes, &[])?;
    Ok(bytes)
}

fn udp() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(GUEST, REMOTE, 64)
        .udp(40000, 5001)
        .write(&mut bytes, &[0; 1448])?;
    Ok(bytes)
}
