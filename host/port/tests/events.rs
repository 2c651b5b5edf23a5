//! Events that the programs in the kernel record of a flow: each when it occurs, in order, and no
//! others.

mod kernel;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kernel::frame::{PLAIN, frame};
use kernel::{IFINDEX, context, now_ns, policy, programs, reason};
use uc_core::{Policy, Segment, consts};
use uc_port::{
    Agreed, Closing, Direction, Event, EventKind, PacketContext, PortCoupling, PortPlan, Programs,
};

const MSS: u32 = 1000;

fn guest() -> SocketAddr {
    "10.77.0.1:40000".parse().unwrap()
}

fn remote() -> SocketAddr {
    "10.77.0.2:5001".parse().unwrap()
}

/// One connection of the guest, by its sequence numbers.
struct Connection<'a> {
    programs: &'a Programs,
    sent: u32,
    acked: u32,
}

impl<'a> Connection<'a> {
    fn new(programs: &'a Programs, policy: &Policy) -> Self {
        programs.set_plan(IFINDEX, &(*policy).into()).unwrap();
        Connection {
            programs,
            sent: 1000,
            acked: 1000,
        }
    }

    fn pass(&self, direction: Direction, segment: &Segment) {
        let bytes = frame(segment, guest(), remote(), &PLAIN);
        let context = PacketContext {
            gso_size: segment.wire_payload_bytes.into(),
            ..context()
        };
        self.programs.test_run(direction, &bytes, context).unwrap();
    }

    fn syn(&self) {
        let syn = Segment {
            seq: self.sent - 1,
            mss_bytes: MSS as u16,
            window: 65535,
            options: consts::OPT_MSS as u8,
            flags: consts::SYN as u8,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        };
        self.pass(Direction::FromGuest, &syn);
    }

    fn answer(&self, flags: u32) {
        let answer = Segment {
            seq: 9000,
            ack: self.sent,
            mss_bytes: 1460,
            window: 65535,
            options: consts::OPT_MSS as u8,
            flags: (consts::SYN | consts::ACK | flags) as u8,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        };
        self.pass(Direction::ToGuest, &answer);
    }

    fn open(&self) {
        self.syn();
        self.answer(consts::ECE);
    }

    fn data_at(&self, seq: u32, flags: u32, payload_bytes: u32) {
        let data = Segment {
            seq,
            ack: 9001,
            window: 65535,
            payload_bytes,
            flags: (consts::ACK | flags) as u8,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        };
        self.pass(Direction::FromGuest, &data);
    }

    fn send(&mut self, segments: u32) {
        for _ in 0..segments {
            self.data_at(self.sent, 0, MSS);
            self.sent += MSS;
        }
    }

    fn ack(&mut self, segments: u32, flags: u32, window: u16) {
        self.acked += segments * MSS;
        let ack = Segment {
            seq: 9001,
            ack: self.acked,
            window,
            flags: (consts::ACK | flags) as u8,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        };
        self.pass(Direction::ToGuest, &ack);
    }

    fn events(&self) -> Vec<Event> {
        let flow = self.programs.flow(IFINDEX, guest(), remote()).unwrap();
        self.programs.events(&flow.expect("the flow")).unwrap()
    }

    fn labels(&self) -> Vec<&'static str> {
        let events = self.events();
        for (event, number) in events.iter().zip(events[0].number..) {
            assert_eq!(event.number, number, "{events:?}");
        }
        assert!(
            events.is_sorted_by_key(|event| event.at_ns),
            "in order: {events:?}"
        );
        events.iter().map(|event| event.kind.label()).collect()
    }
}

#[test]
fn live_a_handshake_records_the_agreed_parameters() {
    let Some(programs) = programs(4) else { return };
    let connection = Connection::new(&programs, &policy());
    let before_ns = now_ns();
    connection.open();
    let events = connection.events();
    assert_eq!(connection.labels(), ["opened", "agreed", "below_receiver"]);
    let agreed = Agreed {
        mss_bytes: MSS as u16,
        wscale: 0,
        ecn: true,
        sack: false,
        timestamps: false,
    };
    assert_eq!(events[0].kind, EventKind::Opened { by_guest: true });
    assert_eq!(events[1].kind, EventKind::Agreed(agreed));
    assert_eq!(events[1].after_bytes, 10 * MSS);
    let below = EventKind::Below {
        receiver_bytes: 65535,
        given_bytes: 10 * MSS,
    };
    assert_eq!(events[2].kind, below);
    for event in &events {
        assert!(
            (before_ns..=now_ns()).contains(&event.at_ns),
            "{event:?} since {before_ns}"
        );
        assert_eq!(event.times, 1);
    }
}

#[test]
fn live_a_reduction_on_a_mark_records_both_windows_once_per_window() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    connection.send(10);
    connection.ack(1, consts::ECE, 65535);
    connection.ack(1, consts::ECE, 65535);
    let events = connection.events();
    assert_eq!(connection.labels()[3..], ["cut"]);
    assert_eq!(
        (events[3].before_bytes, events[3].after_bytes),
        (10 * MSS, 5 * MSS)
    );
}

#[test]
fn live_a_reduction_of_law_dctcp_records_the_marked_fraction() {
    let Some(programs) = programs(4) else { return };
    let law = Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
    let mut connection = Connection::new(&programs, &law);
    connection.open();
    connection.send(10);
    connection.ack(1, consts::ECE, 65535);
    let cut = *connection.events().last().unwrap();
    let EventKind::Cut { signal } = cut.kind else {
        panic!("{cut:?}");
    };
    // RFC 8257 §4.2: α begins at 1, so the first window reduction is by half.
    assert_eq!(signal, 1 << 30);
    assert_eq!((cut.before_bytes, cut.after_bytes), (10 * MSS, 5 * MSS));
}

#[test]
fn live_a_fast_retransmit_and_its_end_are_recorded() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    connection.send(10);
    for _ in 0..3 {
        connection.ack(0, 0, 65535);
    }
    connection.data_at(connection.acked, 0, MSS);
    connection.ack(10, 0, 65535);
    let events = connection.events();
    assert_eq!(connection.labels()[3..], ["fast_retransmit", "recovered"]);
    let fast = EventKind::FastRetransmit {
        flight_bytes: 10 * MSS,
    };
    assert_eq!(events[3].kind, fast);
    assert_eq!(
        (events[3].before_bytes, events[3].after_bytes),
        (10 * MSS, 5 * MSS)
    );
    assert_eq!(events[4].after_bytes, 5 * MSS);
}

#[test]
fn live_a_timeout_is_recorded_with_a_window_of_one_segment() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    connection.send(10);
    connection.data_at(connection.acked, 0, MSS);
    let timeout = *connection.events().last().unwrap();
    let kind = EventKind::Timeout {
        flight_bytes: 10 * MSS,
    };
    assert_eq!(timeout.kind, kind);
    assert_eq!(timeout.after_bytes, MSS);
}

#[test]
fn live_a_window_that_alternates_with_every_ack_does_not_fill_the_ring() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    connection.send(10);
    for turn in 0..40 {
        let window = if turn % 2 == 0 { 3000 } else { 65535 };
        connection.ack(0, 0, window);
    }
    let labels = connection.labels();
    assert_eq!(labels[..2], ["opened", "agreed"]);
    assert_eq!(labels.len(), 8, "{labels:?}");
    assert_eq!(labels[2..4], ["below_receiver", "returned"]);
}

#[test]
fn live_consecutive_guard_drops_are_one_counted_event() {
    let Some(programs) = programs(4) else { return };
    let guarded = Policy {
        guard_segments: 1,
        ..policy()
    };
    let mut connection = Connection::new(&programs, &guarded);
    connection.open();
    connection.send(10);
    for _ in 0..7 {
        connection.data_at(connection.sent + 5 * MSS, 0, MSS);
    }
    let drops = *connection.events().last().unwrap();
    let kind = EventKind::Guarded {
        beyond_bytes: 6 * MSS,
    };
    assert_eq!((drops.kind, drops.times), (kind, 7));
    let dropped = programs.counters().unwrap().get(reason("beyond_edge"));
    assert_eq!(dropped, 7, "and each is counted, once");
}

#[test]
fn live_guarded_flow_goes_on_where_the_port_has_missed_data_and_acks() {
    let Some(programs) = programs(4) else { return };
    let guarded = Policy {
        guard_segments: 1,
        ..policy()
    };
    let mut connection = Connection::new(&programs, &guarded);
    connection.open();
    connection.send(2);
    let counted = |label| programs.counters().unwrap().get(reason(label));
    let numbers = || {
        let view = programs.flow(IFINDEX, guest(), remote()).unwrap();
        let state = view.expect("the flow").state;
        (state.snd_una, state.snd_nxt)
    };
    // an ACK of three segments that went past the port
    connection.ack(5, 0, 65535);
    assert_eq!(counted("resynced"), 1);
    assert_eq!(numbers(), (1000 + 5 * MSS, 1000 + 5 * MSS));
    // answers that the port does not see have let the guest go on for a thousand segments
    let far = 1000 + 1000 * MSS;
    connection.data_at(1000 + 5 * MSS, 0, MSS);
    connection.data_at(far, 0, MSS);
    assert_eq!(counted("beyond_edge"), 1);
    let since = Instant::now();
    while counted("resynced") == 1 && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
        connection.data_at(far, 0, MSS);
    }
    assert_eq!(counted("resynced"), 2);
    assert_eq!(numbers(), (far, far + MSS));
}

#[test]
fn live_a_close_names_its_ends_and_the_next_connection_has_a_new_ring() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    connection.send(2);
    connection.data_at(connection.sent, consts::FIN, 0);
    connection.ack(2, consts::FIN, 65535);
    let closed = *connection.events().last().unwrap();
    let both = Closing {
        guest: true,
        peer: true,
        reset: false,
    };
    assert_eq!(closed.kind, EventKind::Closed(both));
    let again = Connection::new(&programs, &policy());
    again.open();
    assert_eq!(again.labels(), ["opened", "agreed", "below_receiver"]);
    let first = again.events()[0];
    let kind = EventKind::Opened { by_guest: true };
    assert_eq!((first.number, first.kind), (1, kind));
}

#[test]
fn live_a_retransmitted_syn_records_its_count() {
    let Some(programs) = programs(4) else { return };
    let connection = Connection::new(&programs, &policy());
    for _ in 0..4 {
        connection.syn();
    }
    let events = connection.events();
    assert_eq!(connection.labels(), ["opened", "syn_again"]);
    assert_eq!(events[1].kind, EventKind::SynAgain { syns: 4 });
    assert_eq!(events[1].times, 3);
}

#[test]
fn live_the_ring_holds_the_last_16_events() {
    let Some(programs) = programs(4) else { return };
    let mut connection = Connection::new(&programs, &policy());
    connection.open();
    for _ in 0..30 {
        connection.send(4);
        connection.ack(1, consts::ECE, 65535);
        connection.ack(3, 0, 65535);
    }
    let events = connection.events();
    assert_eq!(connection.labels().len(), 16);
    let flow = programs.flow(IFINDEX, guest(), remote()).unwrap().unwrap();
    assert!(flow.state.cuts > 20, "{}", flow.state.cuts);
    assert_eq!(u32::from(events[15].number), 3 + flow.state.cuts);
}

#[test]
fn live_a_passing_flow_is_recorded_with_its_reason() {
    let Some(programs) = programs(4) else { return };
    let connection = Connection::new(&programs, &policy());
    connection.syn();
    connection.answer(0); // an answer without ECE refuses
    let found = programs.flow(IFINDEX, guest(), remote()).unwrap();
    assert!(found.is_none());
    let passed = programs.passed().unwrap();
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!(passed[0].reason, reason("peer_refused_ecn"));
    assert_eq!(
        (passed[0].ifindex, passed[0].guest, passed[0].remote),
        (IFINDEX, guest(), remote())
    );
}

#[test]
fn live_flows_of_one_port_that_pass_displace_no_other_ports() {
    let Some(programs) = programs(4) else { return };
    let connection = Connection::new(&programs, &policy());
    connection.syn();
    connection.answer(0);
    // The same connection, at a port without a plan.
    programs.clear_plan(IFINDEX).unwrap();
    (0..100).for_each(|_| connection.syn());
    assert_eq!(
        programs.passed().unwrap().len(),
        32,
        "of ports without a plan"
    );
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    let passed = programs.passed().unwrap();
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!(passed[0].reason, reason("peer_refused_ecn"));
}

#[test]
fn live_without_rings_nothing_is_recorded_and_flows_are_translated_alike() {
    let Some(_) = programs(4) else { return };
    let run = |programs: &Programs| {
        let mut connection = Connection::new(programs, &policy());
        connection.open();
        connection.send(10);
        connection.ack(1, consts::ECE, 65535);
        connection.ack(9, 0, 65535);
        let flow = programs.flow(IFINDEX, guest(), remote()).unwrap().unwrap();
        let reno = flow.state.reno;
        let state = (reno.cwnd, reno.ssthresh, flow.state.given_window);
        (state, connection.events().len())
    };
    let (with, remembered) = run(&Programs::load_with(4, 4).unwrap());
    let (without, none) = run(&Programs::load_with(4, 0).unwrap());
    assert_eq!(with, without);
    assert_eq!((remembered, none), (4, 0));
}

#[test]
fn live_without_rings_nothing_is_recorded_of_a_coupled_flow() {
    let Some(_) = programs(4) else { return };
    let run = |programs: &Programs| {
        let policy = Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX);
        let mut connection = Connection::new(programs, &policy);
        let plan = PortPlan::of_all(policy, Some(PortCoupling::default()));
        programs.set_plan(IFINDEX, &plan).unwrap();
        connection.open();
        connection.send(10);
        connection.ack(1, consts::ECE, 65535);
        connection.ack(9, 0, 65535);
        let flow = programs.flow(IFINDEX, guest(), remote()).unwrap().unwrap();
        assert!(programs.member(&flow).unwrap().is_some());
        connection.events().len()
    };
    assert!(run(&Programs::load_with(4, 4).unwrap()) > 3);
    assert_eq!(run(&Programs::load_with(4, 0).unwrap()), 0);
}
