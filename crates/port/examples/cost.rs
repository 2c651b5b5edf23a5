//! What a packet costs in the port programs, in nanoseconds, side by side in one run: a packet that
//! is not TCP (parse only), one of an unknown flow (parse and look up), and both directions of a
//! translated flow. `cargo run --release -p uc-port --example cost`; needs root.

use std::error::Error;

use etherparse::PacketBuilder;
use uc_core::{Policy, consts};
use uc_port::{Direction, PacketContext, PortCoupling, PortPolicy, Programs};

/// The loopback interface: it is in every network namespace.
const IFINDEX: u32 = 1;
/// Runs of one packet that a time is the mean of, and how often that is done.
const REPEAT: u32 = 1_000_000;
const ROUNDS: usize = 7;

/// The remote ports of the flows.
const TRANSLATED: u16 = 5001;
const COUPLED: u16 = 5002;

const GUEST: [u8; 4] = [10, 77, 0, 1];
const REMOTE: [u8; 4] = [10, 77, 0, 2];

fn main() -> Result<(), Box<dyn Error>> {
    let programs = Programs::load(65536)?;
    programs.set_policy(
        IFINDEX,
        &Policy {
            ecn_syns: 2,
            ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
        },
    )?;
    connect(&programs, TRANSLATED)?;
    programs.set_port(
        IFINDEX,
        &PortPolicy {
            flows: Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX),
            coupling: Some(PortCoupling::default()),
        },
    )?;
    connect(&programs, COUPLED)?;
    // in flight, so that there is something to report
    run(&programs, Direction::FromGuest, &data(COUPLED)?, 1)?;

    let cases = [
        ("UDP: parsed, passed", Direction::FromGuest, udp()?),
        (
            "unknown flow: parsed, looked up",
            Direction::FromGuest,
            data(9)?,
        ),
        (
            "translated data from the guest",
            Direction::FromGuest,
            data(TRANSLATED)?,
        ),
        (
            "translated ACK to the guest",
            Direction::ToGuest,
            ack(TRANSLATED)?,
        ),
        (
            "coupled ACK to the guest",
            Direction::ToGuest,
            ack(COUPLED)?,
        ),
    ];
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, direction, packet), times) in cases.iter().zip(&mut times) {
            times.push(run(&programs, *direction, packet, REPEAT)?);
        }
    }
    println!("{:<34}{:>12}{:>12}", "", "median ns", "of UDP's");
    let median = |times: &mut Vec<u128>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let base = median(&mut times[0]).max(1);
    for ((name, _, _), times) in cases.iter().zip(&mut times) {
        let ns = median(times);
        println!("{name:<34}{ns:>12}{:>11.1}×", ns as f64 / base as f64);
    }
    Ok(())
}

fn connect(programs: &Programs, port: u16) -> Result<(), Box<dyn Error>> {
    run(programs, Direction::FromGuest, &syn(port)?, 1)?;
    run(programs, Direction::ToGuest, &syn_ack(port)?, 1)?;
    Ok(())
}

fn run(
    programs: &Programs,
    direction: Direction,
    packet: &[u8],
    repeat: u32,
) -> Result<u128, Box<dyn Error>> {
    let context = PacketContext {
        ifindex: IFINDEX,
        gso_segs: 0,
        gso_size: 0,
        repeat,
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

fn data(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    from_guest(port, 1001)
        .ack(9001)
        .write(&mut bytes, &[0; 1448])?;
    Ok(bytes)
}

fn ack(port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    to_guest(port, 9001).ack(1001).write(&mut bytes, &[])?;
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
