//! A port with one flow between a guest and a peer, for tests that send it single segments.

use uc_core::slot::Slot;
use uc_core::{Edit, Flow, Policy, Reason, Segment, consts};

pub const SYN: u8 = consts::SYN as u8;
pub const ACK: u8 = consts::ACK as u8;
pub const ECE: u8 = consts::ECE as u8;
pub const CWR: u8 = consts::CWR as u8;
pub const FROM_GUEST: u8 = consts::FROM_GUEST as u8;
pub const TO_GUEST: u8 = consts::TO_GUEST as u8;
pub const ISS: u32 = 1_000;
pub const IRS: u32 = 9_000;
pub const MSS: u32 = 1_000;

/// Law `ecn` under a guard of one segment.
pub fn guarded() -> Policy {
    Policy {
        guard_segments: 1,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    }
}

pub struct Port {
    slot: Slot,
    now_ns: u64,
}

impl Port {
    pub fn new(policy: Policy) -> Port {
        Port {
            slot: Slot::new(policy),
            now_ns: 1_000_000_000,
        }
    }

    /// Returns a port whose guest has connected, and has sent and got acknowledged one segment.
    pub fn connected(policy: Policy) -> Port {
        let mut port = Port::new(policy);
        port.pass(&syn(FROM_GUEST, ISS));
        port.pass(&answer(TO_GUEST, IRS, ISS));
        port.pass(&data(ISS + 1));
        port.pass(&ack(ISS + 1 + MSS));
        port
    }

    pub fn pass(&mut self, segment: &Segment) -> (Reason, Edit) {
        self.now_ns += 1_000_000;
        self.slot.pass(segment, self.now_ns, &mut |_| None)
    }

    pub fn reason(&mut self, segment: &Segment) -> Reason {
        self.pass(segment).0
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    pub fn flow(&self) -> Option<&Flow> {
        self.slot.flow()
    }

    /// Forgets the flow, as a table does with one that was idle for too long.
    pub fn forget(&mut self) {
        self.slot.forget();
    }

    /// Returns the flow that the port has.
    pub fn flow_mut(&mut self) -> &mut Flow {
        self.slot.flow_mut().unwrap()
    }

    /// Sends segments of new data from `seq` on until one is dropped; returns how many passed, and
    /// 1,000 if none is.
    pub fn blast(&mut self, seq: u32) -> u32 {
        (0..1_000)
            .find(|&nth| self.reason(&data(seq + nth * MSS)).drops())
            .unwrap_or(1_000)
    }
}

pub fn segment(direction: u8, flags: u8, seq: u32, ack: u32) -> Segment {
    let is_syn = flags & SYN != 0;
    Segment {
        seq,
        ack,
        flags,
        direction,
        window: 60_000,
        mss_bytes: if is_syn { MSS as u16 } else { 0 },
        options: if is_syn { consts::OPT_MSS as u8 } else { 0 },
        ..Segment::default()
    }
}

/// A SYN; the peer's offers ECN.
pub fn syn(direction: u8, seq: u32) -> Segment {
    let offer = if direction == TO_GUEST { ECE | CWR } else { 0 };
    segment(direction, SYN | offer, seq, 0)
}

/// A SYN-ACK to the SYN with the number `to`; the peer's agrees to ECN.
pub fn answer(direction: u8, seq: u32, to: u32) -> Segment {
    let agrees = if direction == TO_GUEST { ECE } else { 0 };
    segment(direction, SYN | ACK | agrees, seq, to + 1)
}

/// A full segment of the guest.
pub fn data(seq: u32) -> Segment {
    Segment {
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ..segment(FROM_GUEST, ACK, seq, IRS + 1)
    }
}

/// An ACK of the peer.
pub fn ack(number: u32) -> Segment {
    segment(TO_GUEST, ACK, IRS + 1, number)
}

/// The segment with options in addition.
pub fn with(segment: Segment, options: u32) -> Segment {
    Segment {
        options: segment.options | options as u8,
        ..segment
    }
}
