//! A SYN is believed when it was answered: whose place a flow keeps, and whose it takes.

use uc_core::{Edit, Flow, Policy, Reason, Segment, consts};

const SYN: u8 = consts::SYN as u8;
const ACK: u8 = consts::ACK as u8;
const ECE: u8 = consts::ECE as u8;
const CWR: u8 = consts::CWR as u8;
const FROM_GUEST: u8 = consts::FROM_GUEST as u8;
const TO_GUEST: u8 = consts::TO_GUEST as u8;

const SECOND_NS: u64 = 1_000_000_000;
const ISS: u32 = 1_000;
const IRS: u32 = 9_000;

fn policy() -> Policy {
    Policy {
        guard_segments: 1,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    }
}

/// A host with one flow, and what the ends say.
struct Host {
    flow: Flow,
    now_ns: u64,
    policy: Policy,
}

impl Host {
    fn new() -> Host {
        Host {
            flow: Flow::default(),
            now_ns: SECOND_NS,
            policy: policy(),
        }
    }

    fn pass(&mut self, segment: &Segment) -> (Reason, Edit) {
        self.now_ns += 1_000_000;
        if uc_core::is_syn(segment) {
            return uc_core::open(&mut self.flow, &self.policy, segment, self.now_ns);
        }
        uc_core::translate(&mut self.flow, segment, self.now_ns)
    }

    fn is_stale_after(&self, seconds: u64) -> bool {
        uc_core::is_stale(&self.flow, self.now_ns + seconds * SECOND_NS)
    }
}

fn segment(direction: u8, flags: u8, seq: u32, ack: u32) -> Segment {
    let is_syn = flags & SYN != 0;
    Segment {
        seq,
        ack,
        flags,
        direction,
        window: 60_000,
        mss_bytes: if is_syn { 1_000 } else { 0 },
        options: if is_syn { consts::OPT_MSS as u8 } else { 0 },
        ..Segment::default()
    }
}

fn syn_to_guest(irs: u32) -> Segment {
    segment(TO_GUEST, SYN | ECE | CWR, irs, 0)
}

fn answer_from_guest(iss: u32, irs: u32) -> Segment {
    segment(FROM_GUEST, SYN | ACK, iss, irs + 1)
}

fn ack_to_guest(iss: u32, irs: u32) -> Segment {
    segment(TO_GUEST, ACK, irs + 1, iss + 1)
}

#[test]
fn a_flow_whose_peer_has_not_shown_that_it_is_there_goes_stale_like_an_unanswered_syn() {
    let mut host = Host::new();
    host.pass(&syn_to_guest(IRS));
    host.pass(&answer_from_guest(ISS, IRS));
    assert_eq!(u32::from(host.flow.stage), consts::TRANSLATING);
    let seconds = consts::IDLE_HANDSHAKE_NS / SECOND_NS;
    assert!(!host.is_stale_after(seconds));
    assert!(host.is_stale_after(seconds + 1), "two minutes, not hours");
    // who forges a SYN doesn't see the guest's number
    for guess in [0, ISS, ISS + 2, ISS.wrapping_sub(70_000)] {
        host.pass(&segment(TO_GUEST, ACK, IRS + 1, guess));
    }
    assert!(host.is_stale_after(seconds + 1));
    host.pass(&ack_to_guest(ISS, IRS));
    assert!(!host.is_stale_after(seconds + 1));
    let seconds = consts::IDLE_TRANSLATED_NS / SECOND_NS;
    assert!(!host.is_stale_after(seconds) && host.is_stale_after(seconds + 1));
}

#[test]
fn the_answer_to_the_guests_own_syn_shows_that_the_peer_is_there() {
    let mut host = Host::new();
    host.pass(&segment(FROM_GUEST, SYN, ISS, 0));
    assert!(host.is_stale_after(121), "no answer yet");
    host.pass(&segment(TO_GUEST, SYN | ACK | ECE, IRS, ISS + 1));
    assert!(!host.is_stale_after(121));
}
