//! A SYN into a live flow opens a new connection only when it is answered.

use uc_core::{Asked, COMPILED, Edit, Flow, Policy, Reason, Segment, consts};

const SYN: u8 = consts::SYN as u8;
const ACK: u8 = consts::ACK as u8;
const RST: u8 = consts::RST as u8;
const FIN: u8 = consts::FIN as u8;
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
        if uc_core::is_syn(segment) || uc_core::is_answer(segment) {
            return crate::steps::open(&mut self.flow, &self.policy, segment, self.now_ns);
        }
        COMPILED.translate(&mut self.flow, segment, self.now_ns)
    }

    /// A guest that has connected to a peer, which has answered.
    fn connected() -> Host {
        let mut host = Host::new();
        host.pass(&syn_from_guest(ISS));
        host.pass(&answer_to_guest(IRS, ISS));
        host.pass(&data(ISS + 1, IRS + 1));
        host.pass(&segment(TO_GUEST, ACK, IRS + 1, ISS + 1_001));
        host
    }

    /// A peer that has connected to a guest.
    fn accepted() -> Host {
        let mut host = Host::new();
        host.pass(&syn_to_guest(IRS));
        host.pass(&answer_from_guest(ISS, IRS));
        host.pass(&ack_to_guest(ISS, IRS));
        host.pass(&data(ISS + 1, IRS + 1));
        host
    }

    /// Returns the flow without the fields that store a SYN.
    fn without_kept(&self) -> Flow {
        let mut flow = self.flow;
        flow.bits &= !(consts::FLOW_GUEST_ASKED | consts::FLOW_PEER_ASKED);
        flow.policy = flow.policy.with_dctcp(flow.policy.dctcp());
        flow.annex_at = 0;
        flow
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

fn syn_from_guest(iss: u32) -> Segment {
    segment(FROM_GUEST, SYN, iss, 0)
}

fn answer_to_guest(irs: u32, iss: u32) -> Segment {
    segment(TO_GUEST, SYN | ACK | ECE, irs, iss + 1)
}

/// A full segment of the guest.
fn data(seq: u32, ack: u32) -> Segment {
    Segment {
        payload_bytes: 1_000,
        wire_payload_bytes: 1_000,
        ..segment(FROM_GUEST, ACK, seq, ack)
    }
}

#[test]
fn a_flow_whose_peer_has_not_shown_that_it_is_there_goes_stale_after_a_minute() {
    let mut host = Host::new();
    host.pass(&syn_to_guest(IRS));
    host.pass(&answer_from_guest(ISS, IRS));
    assert_eq!(u32::from(host.flow.stage), consts::TRANSLATING);
    let seconds = consts::IDLE_ANSWERED_NS / SECOND_NS;
    assert!(!host.is_stale_after(seconds));
    assert!(host.is_stale_after(seconds + 1), "a minute, not hours");
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
fn a_flow_that_the_peer_has_half_closed_is_stale_after_two_silent_minutes() {
    let mut host = Host::connected();
    host.pass(&segment(TO_GUEST, ACK | FIN, IRS + 1, ISS + 1_001));
    let seconds = consts::IDLE_CLOSING_NS / SECOND_NS;
    assert!(!host.is_stale_after(seconds) && host.is_stale_after(seconds + 1));
}

#[test]
fn a_flow_with_data_in_flight_is_stale_when_its_sender_stopped_retransmitting() {
    let mut host = Host::connected();
    host.pass(&data(ISS + 1_001, IRS + 1));
    let seconds = consts::IDLE_UNACKED_NS / SECOND_NS;
    assert!(!host.is_stale_after(seconds) && host.is_stale_after(seconds + 1));
    host.pass(&ack_to_guest(ISS + 2_000, IRS));
    assert!(!host.is_stale_after(seconds + 1), "all is acknowledged");
}

#[test]
fn a_flow_opened_at_the_guests_answer_is_the_one_opened_at_the_peers_syn() {
    let policy = Host::new().policy;
    let (syn, answer) = (syn_to_guest(IRS), answer_from_guest(ISS, IRS));
    let (mut early, mut late) = (Flow::default(), Flow::default());
    assert_eq!(
        crate::steps::open(&mut early, &policy, &syn, 1_000).0,
        Reason::TRANSLATED
    );
    let expected = COMPILED.translate(&mut early, &answer, 2_000);
    let mut asked = Asked::default();
    let mut unknown = |flow: &mut Flow, segment: &Segment| {
        let given = (&policy, 0);
        let (step, edit) = COMPILED.unknown(flow, given, &mut asked, segment, 2_000);
        ((step.reason(), edit), step.enters())
    };
    let ((reason, _), enters) = unknown(&mut Flow::default(), &syn);
    assert_eq!(
        (reason, enters),
        (Reason::TRANSLATED, false),
        "it is stored"
    );
    let (refused, enters) = unknown(&mut Flow::default(), &answer_from_guest(ISS, IRS + 1));
    assert_eq!((refused.0, enters), (Reason::NO_HANDSHAKE, false));
    let (got, enters) = unknown(&mut late, &answer);
    assert_eq!((got, late, enters), (expected, early, true));
}

#[test]
fn stored_syn_of_the_peer_is_forgotten_when_a_syn_of_the_guest_meets_it() {
    let (policy, mut asked) = (policy(), Asked::default());
    let mut unknown = |segment| {
        let given = (&policy, 0);
        let (step, _) =
            COMPILED.unknown(&mut Flow::default(), given, &mut asked, &segment, SECOND_NS);
        (step.enters(), asked.stored)
    };
    assert_eq!(unknown(syn_to_guest(IRS)), (false, 1));
    assert_eq!(unknown(syn_from_guest(ISS)), (true, 0));
}

#[test]
fn the_answer_to_the_guests_own_syn_shows_that_the_peer_is_there() {
    let mut host = Host::new();
    host.pass(&segment(FROM_GUEST, SYN, ISS, 0));
    assert!(host.is_stale_after(121), "no answer yet");
    host.pass(&segment(TO_GUEST, SYN | ACK | ECE, IRS, ISS + 1));
    assert!(!host.is_stale_after(121));
}

#[test]
fn a_syn_into_a_live_flow_changes_nothing_in_it() {
    for mut host in [Host::connected(), Host::accepted()] {
        let before = host.without_kept();
        for irs in [IRS, 70_000, IRS.wrapping_sub(5)] {
            let (reason, edit) = host.pass(&syn_to_guest(irs));
            assert_eq!(reason, Reason::NO_HANDSHAKE);
            assert_eq!(edit, uc_core::no_edit(&syn_to_guest(irs)));
            assert_eq!(host.without_kept(), before);
        }
        // nor does the guest's own, until it is answered
        let (reason, edit) = host.pass(&syn_from_guest(5_000_000));
        assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ECE | CWR));
        assert_eq!(host.without_kept(), before);
    }
}

#[test]
fn a_reset_and_then_a_syn_out_of_the_network_end_no_translation() {
    let mut host = Host::connected();
    host.pass(&segment(TO_GUEST, RST | ACK, 123, 456));
    let before = host.without_kept();
    host.pass(&syn_to_guest(70_000));
    assert_eq!(host.without_kept(), before);
    let (reason, edit) = host.pass(&data(ISS + 1_001, IRS + 1));
    assert_eq!((reason, edit.ecn), (Reason::TRANSLATED, consts::ECT0 as u8));
    let mut ack = segment(TO_GUEST, ACK | ECE, IRS + 1, ISS + 2_001);
    ack.window = 65_000;
    let (_, edit) = host.pass(&ack);
    assert!(edit.window < 20_000, "{edit:?}");
}

#[test]
fn a_guest_that_connects_anew_is_translated_from_the_answer_on_and_loses_nothing_to_its_guard() {
    let (iss, irs) = (3_000_000_000, 50);
    let mut host = Host::connected();
    host.pass(&syn_from_guest(iss));
    // the peer still has the old connection: its ACK makes the guest reset that
    let (reason, _) = host.pass(&segment(TO_GUEST, ACK, IRS + 1, ISS + 1_001));
    assert_eq!(reason, Reason::TRANSLATED);
    host.pass(&segment(FROM_GUEST, RST, ISS + 1_001, 0));
    let (_, edit) = host.pass(&syn_from_guest(iss));
    assert_eq!(edit.flags, SYN | ECE | CWR);
    host.now_ns += 39_000_000;
    let (reason, edit) = host.pass(&answer_to_guest(irs, iss));
    assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK));
    assert_eq!(edit.window, 10_000, "ten segments, as any to begin with");
    assert_eq!((host.flow.snd_una, host.flow.snd_nxt), (iss + 1, iss + 1));
    assert_eq!((host.flow.syns(), host.flow.srtt_us), (2, 0), "Karn's rule");
    for number in 0..10 {
        let (reason, edit) = host.pass(&data(iss + 1 + 1_000 * number, irs + 1));
        assert_eq!((reason, edit.ecn), (Reason::TRANSLATED, consts::ECT0 as u8));
    }
    let beyond = host.pass(&data(iss + 1 + 11_000, irs + 1));
    assert_eq!(beyond.0, Reason::BEYOND_EDGE, "the guard goes on, too");
}

#[test]
fn the_first_round_trip_of_a_new_connection_is_timed_by_its_data() {
    let mut host = Host::connected();
    host.pass(&syn_from_guest(5_000_000));
    host.now_ns += 39_000_000;
    host.pass(&answer_to_guest(50, 5_000_000));
    assert_eq!(host.flow.srtt_us, 0, "the SYN's time is not stored");
    host.pass(&data(5_000_001, 51));
    host.now_ns += 39_000_000;
    host.pass(&segment(TO_GUEST, ACK, 51, 5_001_001));
    assert_eq!(host.flow.srtt_us >> 3, 40_000);
}

#[test]
fn a_peer_that_connects_anew_is_translated_from_the_guests_answer_on() {
    let (iss, irs) = (4_000_000, 6_000_000);
    let mut host = Host::accepted();
    let mut syn = syn_to_guest(irs);
    (syn.options, syn.wscale, syn.window) =
        ((consts::OPT_MSS | consts::OPT_WSCALE) as u8, 7, 4_321);
    host.pass(&syn);
    let mut answer = answer_from_guest(iss, irs);
    answer.options |= consts::OPT_WSCALE as u8;
    let (reason, edit) = host.pass(&answer);
    assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK | ECE));
    assert_eq!((host.flow.snd_una, host.flow.wscale()), (iss + 1, 7));
    assert_eq!(host.flow.edge, iss + 1 + 4_321);
    assert!(host.is_stale_after(121), "not before the peer has answered");
    host.pass(&ack_to_guest(iss, irs));
    assert!(
        host.is_stale_after(121),
        "not before the guest has taken the answer"
    );
    host.pass(&segment(FROM_GUEST, ACK, iss + 1, irs + 1));
    assert!(!host.is_stale_after(121));
}

#[test]
fn stranger_who_guesses_no_number_settles_no_flow_by_a_second_syn() {
    // two SYNs that the guest answers with two numbers: SYN cookies, or a listener that was reset
    let forge = || {
        let mut host = Host::new();
        host.pass(&syn_to_guest(IRS));
        host.pass(&answer_from_guest(ISS, IRS));
        host.pass(&syn_to_guest(70_000));
        host.pass(&answer_from_guest(ISS + 1_000_000, 70_000));
        host.pass(&segment(TO_GUEST, ACK, 70_001, 123_456_789));
        host
    };
    let host = forge();
    assert!(uc_core::is_half_open(&host.flow) && host.is_stale_after(61));
    // the guest refuses that number, or asks what is going on (RFC 5961 section 5)
    for challenge in [
        segment(FROM_GUEST, RST, 123_456_789, 0),
        segment(FROM_GUEST, ACK, ISS + 1_000_001, 70_001),
    ] {
        let mut host = forge();
        host.pass(&challenge);
        assert!(uc_core::is_half_open(&host.flow) && host.is_stale_after(61));
    }
    // the peer whose SYN it was
    let mut host = forge();
    host.pass(&segment(TO_GUEST, ACK, 70_001, ISS + 1_000_001));
    host.pass(&data(ISS + 1_000_001, 70_001));
    assert!(!uc_core::is_half_open(&host.flow));
    assert_eq!(host.flow.snd_una, ISS + 1_000_001);
    let (_, edit) = host.pass(&segment(TO_GUEST, ACK, 70_001, ISS + 1_001_001));
    assert!(edit.window < 20_000, "{edit:?}");
}

#[test]
fn only_the_answer_to_that_very_syn_begins_a_flow_anew() {
    let iss = 5_000_000;
    for (ack, data_bytes, begins) in [
        (iss, 0, false),
        (iss + 1, 0, true),
        (iss + 2, 0, false),
        (ISS + 1, 0, false),
        (iss + 1, 300, true), // RFC 7413: a server may take none of the data
        (iss + 301, 300, true),
        (iss + 302, 300, false),
    ] {
        let mut host = Host::connected();
        let mut syn = syn_from_guest(iss);
        (syn.payload_bytes, syn.wire_payload_bytes) = (data_bytes, data_bytes as u16);
        host.pass(&syn);
        host.pass(&segment(TO_GUEST, SYN | ACK | ECE, 50, ack));
        let una = if begins { ack } else { ISS + 1_001 };
        assert_eq!(host.flow.snd_una, una, "{ack} {data_bytes}");
    }
    // nor that answer, when the guest has gone on: then it waits for none
    let mut host = Host::connected();
    host.pass(&syn_from_guest(iss));
    host.pass(&data(ISS + 1_001, IRS + 1));
    host.pass(&answer_to_guest(50, iss));
    assert_eq!(host.flow.snd_una, ISS + 1_001);
}

#[test]
fn a_copy_of_the_first_syn_and_a_copy_of_the_answer_to_it_let_the_flow_go_on() {
    let mut host = Host::new();
    host.pass(&syn_to_guest(IRS));
    host.pass(&answer_from_guest(ISS, IRS));
    // RFC 7413: the guest has data to send before it is acknowledged
    host.pass(&data(ISS + 1, IRS + 1));
    let mut before = host.without_kept();
    host.pass(&syn_to_guest(IRS));
    let (reason, edit) = host.pass(&answer_from_guest(ISS, IRS));
    assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK | ECE));
    before.seen_ns = host.flow.seen_ns;
    assert_eq!(before, host.without_kept());
    // a guest that keeps no state of its answers may have made another
    host.pass(&answer_from_guest(ISS + 77, IRS));
    assert_eq!(host.flow.snd_una, ISS + 78);
}

#[test]
fn syn_of_the_network_does_not_replace_a_stored_syn_of_the_guest() {
    let iss = 5_000_000;
    let mut host = Host::connected();
    host.pass(&syn_from_guest(iss));
    host.pass(&syn_to_guest(70_000));
    host.pass(&segment(TO_GUEST, RST | ACK, 123, 456));
    host.pass(&answer_to_guest(50, iss));
    assert_eq!(host.flow.snd_una, iss + 1);
    // a guest that answers a SYN while its own waits: the peer's answer opens the connection
    let mut host = Host::connected();
    host.pass(&syn_from_guest(iss));
    host.pass(&syn_to_guest(70_000));
    let before = host.without_kept();
    let (reason, _) = host.pass(&answer_from_guest(iss, 70_000));
    assert_eq!(reason, Reason::NO_HANDSHAKE);
    assert_eq!(host.without_kept().snd_una, before.snd_una);
    host.pass(&answer_to_guest(70_000, iss));
    assert_eq!(host.flow.snd_una, iss + 1);
}

#[test]
fn a_new_connection_is_by_the_policy_of_its_own_time() {
    let iss = 5_000_000;
    // asked for ECN, and then policy wants nothing of it any more: the guest hears no answer to a
    // question that it never asked
    let mut host = Host::connected();
    host.pass(&syn_from_guest(iss));
    host.policy.law = consts::LAW_PASS as u8;
    let (reason, edit) = host.pass(&answer_to_guest(50, iss));
    assert_eq!((reason, edit.flags), (Reason::NO_POLICY, SYN | ACK));
    // a new law, whose state lies where SYNs of the old one's flows were kept
    for (old, new) in [
        (consts::LAW_DELAY, consts::LAW_DCTCP),
        (consts::LAW_DCTCP, consts::LAW_DELAY),
    ] {
        let mut host = Host::new();
        host.policy = Policy::new(old, consts::PROFILE_LINUX);
        host.pass(&syn_from_guest(ISS));
        host.pass(&answer_to_guest(IRS, ISS));
        host.policy = Policy::new(new, consts::PROFILE_LINUX);
        host.pass(&syn_from_guest(iss));
        let (reason, _) = host.pass(&answer_to_guest(50, iss));
        assert_eq!(reason, Reason::TRANSLATED);
        assert_eq!(host.flow.policy.law, new as u8);
        assert_eq!((host.flow.snd_una, host.flow.mss_bytes), (iss + 1, 1_000));
        // the old law's SYN has left nothing in either room
        let alpha_q30 = match new {
            consts::LAW_DCTCP => 1 << 30,
            _ => 0,
        };
        let near = host.flow.dctcp;
        assert_eq!(near.alpha_q30, alpha_q30, "the one to begin with");
        assert_eq!((near.acked_bytes, near.marked_bytes), (0, 0));
    }
    // a new connection that negotiates ECN itself, and one that signs
    for odd in [(SYN | ECE | CWR, 0), (SYN, consts::OPT_SIGNED as u8)] {
        let mut host = Host::connected();
        let mut syn = syn_from_guest(iss);
        (syn.flags, syn.options) = (odd.0, syn.options | odd.1);
        let (reason, edit) = host.pass(&syn);
        assert_eq!(
            (reason, edit),
            (Reason::NO_HANDSHAKE, uc_core::no_edit(&syn))
        );
        let answer = answer_to_guest(50, iss);
        let (reason, edit) = host.pass(&answer);
        assert!(reason.forgets(), "{reason}");
        assert_eq!(edit.flags & ECE, if odd.0 & ECE != 0 { ECE } else { 0 });
    }
}

#[test]
fn a_syn_on_the_ports_of_a_stale_flow_opens_one_at_once() {
    let mut host = Host::connected();
    host.pass(&segment(FROM_GUEST, RST, ISS + 1_001, 0));
    host.now_ns += consts::IDLE_CLOSED_NS;
    host.pass(&syn_to_guest(70_000));
    assert_eq!(u32::from(host.flow.stage), consts::SYN_RECEIVED);
}

#[test]
fn syn_with_fin_and_without_ack_passes_unmodified_and_changes_nothing() {
    let mut host = Host::new();
    host.pass(&syn_from_guest(ISS));
    for mut host in [host, Host::connected(), Host::accepted()] {
        for direction in [FROM_GUEST, TO_GUEST] {
            let mut before = host.flow;
            let flags = SYN | consts::FIN as u8 | ECE | CWR;
            let odd = segment(direction, flags, IRS, ISS + 1);
            let (reason, edit) = host.pass(&odd);
            assert_eq!(reason, Reason::NO_HANDSHAKE);
            assert_eq!(edit, uc_core::no_edit(&odd));
            before.seen_ns = host.flow.seen_ns;
            assert_eq!(host.flow, before);
        }
    }
}
