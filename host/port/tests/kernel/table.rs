//! Segments of the flows of one guest and one peer, which the guest's TCP port tells apart.

use std::net::SocketAddr;

use uc_core::{Flow, Reason, Segment, consts};
use uc_port::{Direction, PacketContext, PortPlan, Programs};

use super::frame::{PLAIN, frame};
use super::{IFINDEX, context, policy};

pub fn remote() -> SocketAddr {
    "10.77.0.2:5001".parse().unwrap()
}

pub fn guest(port: u16) -> SocketAddr {
    SocketAddr::new("10.77.0.1".parse().unwrap(), port)
}

/// Returns a segment of the handshake, or without SYN one that follows it without data.
pub fn segment(direction: u32, flags: u32) -> Segment {
    let after_syn = u32::from(flags & consts::SYN == 0);
    Segment {
        seq: after_syn
            + if direction == consts::FROM_GUEST {
                1000
            } else {
                9000
            },
        ack: if direction == consts::FROM_GUEST {
            9001
        } else {
            1001
        },
        window: 65535,
        mss_bytes: 1460,
        options: if flags & consts::SYN != 0 {
            consts::OPT_MSS as u8
        } else {
            0
        },
        flags: flags as u8,
        direction: direction as u8,
        ..Segment::default()
    }
}

/// Passes a segment on the guest's port; returns the reason that was counted, and whether the frame
/// changed.
pub fn pass(programs: &Programs, port: u16, segment: &Segment, gso_size: u32) -> (Reason, bool) {
    let bytes = frame(segment, guest(port), remote(), &PLAIN);
    pass_sized(programs, segment, &bytes, gso_size)
}

/// Passes the frame of a segment; returns the reason that was counted, and whether the frame
/// changed.
pub fn pass_frame(programs: &Programs, segment: &Segment, bytes: &[u8]) -> (Reason, bool) {
    pass_sized(programs, segment, bytes, 0)
}

pub fn pass_sized(
    programs: &Programs,
    segment: &Segment,
    bytes: &[u8],
    gso_size: u32,
) -> (Reason, bool) {
    let context = PacketContext {
        gso_size,
        ..context()
    };
    pass_in(programs, segment, bytes, context)
}

/// Passes a segment of a guest on this port; returns the reason that was counted.
pub fn pass_on(programs: &Programs, ifindex: u32, port: u16, segment: &Segment) -> Reason {
    let bytes = frame(segment, guest(port), remote(), &PLAIN);
    let context = PacketContext {
        ifindex,
        ..context()
    };
    pass_in(programs, segment, &bytes, context).0
}

fn pass_in(
    programs: &Programs,
    segment: &Segment,
    bytes: &[u8],
    context: PacketContext,
) -> (Reason, bool) {
    let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
        Direction::FromGuest
    } else {
        Direction::ToGuest
    };
    let before = programs.counters().unwrap();
    let run = programs.test_run(direction, bytes, context).unwrap();
    let after = programs.counters().unwrap();
    let counted = after
        .iter()
        .find(|(reason, packets)| *packets > before.get(*reason));
    (
        counted.expect("every packet is counted").0,
        run.packet != bytes,
    )
}

/// Returns a plan whose port may fill the whole table.
pub fn filling() -> PortPlan {
    PortPlan {
        flows_max: 1 << 24,
        ..policy().into()
    }
}

pub fn syn(programs: &Programs, port: u16) -> (Reason, bool) {
    pass(programs, port, &segment(consts::FROM_GUEST, consts::SYN), 0)
}

pub fn connect(programs: &Programs, port: u16) {
    assert_eq!(syn(programs, port), (Reason::TRANSLATED, true));
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
    assert_eq!(pass(programs, port, &answer, 0).0, Reason::TRANSLATED);
}

pub fn flow(programs: &Programs, port: u16) -> Option<Flow> {
    let view = programs.flow(IFINDEX, guest(port), remote()).unwrap();
    view.map(|view| view.state)
}

/// Passes a peer's SYN that asks for ECN.
pub fn syn_of_peer(programs: &Programs, port: u16) -> Reason {
    let asks = consts::SYN | consts::ECE | consts::CWR;
    pass(programs, port, &segment(consts::TO_GUEST, asks), 0).0
}

/// Passes the guest's answer to a peer's SYN.
pub fn accept(programs: &Programs, port: u16) -> (Reason, bool) {
    let answer = segment(consts::FROM_GUEST, consts::SYN | consts::ACK);
    pass(programs, port, &answer, 0)
}
