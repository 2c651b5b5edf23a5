//! Operations for a host whose CPU is taken away, segment by segment.

use uc_net::Nanos;
use uc_tcp::{Config, Connection, RttSample, Segment};

const RTT: Nanos = Nanos::from_millis(2);

fn ms(milliseconds: u64) -> Nanos {
    Nanos::from_millis(milliseconds)
}

fn config(timestamps: bool) -> Config {
    Config {
        sack: false,
        timestamps,
        delayed_ack: None,
        rto_min: ms(10),
        ..Config::default()
    }
}

/// Returns the segments that an end sends while `what` runs.
fn said(what: impl FnOnce(&mut dyn FnMut(Segment))) -> Vec<Segment> {
    let mut segments = Vec::new();
    what(&mut |segment| segments.push(segment));
    segments
}

/// Builds two ends after a handshake that takes 2 ms from time 0.
fn established(timestamps: bool) -> (Connection, Connection) {
    let mut client = Connection::client(&config(timestamps), 100);
    let mut server = Connection::server(&config(timestamps), 900);
    let syn = said(|mut out| client.open(ms(0), &mut out));
    let answer = said(|mut out| server.receive(ms(1), &syn[0], &mut out));
    assert_eq!(client.timed_since(RTT, &answer[0]), Some(ms(0)), "the SYN");
    let last = said(|mut out| client.receive(RTT, &answer[0], &mut out));
    server.receive(ms(3), &last[0], &mut |_| ());
    assert!(client.is_established() && server.is_established());
    (client, server)
}

/// Sends one segment at `now` and returns its ACK, not yet delivered.
fn answered(client: &mut Connection, server: &mut Connection, now: Nanos) -> Segment {
    let data = said(|mut out| client.write(now, 1_000, &mut out));
    let acks = said(|mut out| server.receive(now + ms(1), &data[0], &mut out));
    acks[0]
}

#[test]
fn timed_since_returns_the_send_time_by_the_timer_or_by_the_timestamp() {
    for timestamps in [false, true] {
        let (mut client, mut server) = established(timestamps);
        let ack = answered(&mut client, &mut server, ms(20));
        assert!(client.acknowledges_new(&ack));
        assert_eq!(client.timed_since(ms(90), &ack), Some(ms(20)));
        client.receive(ms(90), &ack, &mut |_| ());
        assert!(!client.acknowledges_new(&ack), "twice");
        assert_eq!(client.timed_since(ms(91), &ack), None);
    }
}

#[test]
fn a_sample_taken_as_smoothed_keeps_srtt_and_a_measured_one_changes_it() {
    for (sample, expected) in [
        (RttSample::Measured, ms(7 * 2 + 70)),
        (RttSample::Smoothed, ms(8 * 2)),
        (RttSample::Ignored, ms(8 * 2)),
    ] {
        let (mut client, mut server) = established(false);
        assert_eq!(client.info().srtt, RTT);
        let ack = answered(&mut client, &mut server, ms(20));
        client.receive_judged(ms(90), &ack, sample, &mut |_| ());
        let srtt = client.info().srtt;
        assert_eq!(srtt.0, expected.0 / 8, "{sample:?}");
        // The setting applies to that segment alone.
        let next = answered(&mut client, &mut server, ms(100));
        client.receive(ms(172), &next, &mut |_| ());
        assert!(client.info().srtt > srtt, "{sample:?}");
    }
}

#[test]
fn a_deferred_timer_fires_then_and_the_timeout_is_unchanged() {
    let (mut client, _) = established(false);
    assert_eq!(
        client.retransmission_deadline(),
        None,
        "nothing is in flight"
    );
    client.put_off_retransmission(ms(50));
    assert_eq!(client.deadline(), None, "no timer runs");
    let data = said(|mut out| client.write(ms(20), 1_000, &mut out));
    let (rto, due) = (client.info().rto, client.retransmission_deadline());
    assert_eq!(due, Some(ms(20) + rto));
    client.put_off_retransmission(ms(91));
    assert_eq!(client.deadline(), Some(ms(91)));
    assert_eq!(client.info().rto, rto);
    let early = said(|mut out| client.expire(ms(90), &mut out));
    let again = said(|mut out| client.expire(ms(91), &mut out));
    assert!(early.is_empty());
    assert_eq!((again.len(), again[0].seq), (1, data[0].seq));
    assert_eq!(client.totals().timeouts, 1);
}

#[test]
fn a_clock_that_lags_runs_only_the_timers_due_by_its_time() {
    let (mut client, _) = established(false);
    said(|mut out| client.write(ms(20), 1_000, &mut out));
    let due = client.retransmission_deadline().expect("a timer runs");
    let before = Nanos(due.0 - 1);
    assert!(said(|mut out| client.expire_due(before, due, &mut out)).is_empty());
    assert_eq!(client.retransmission_deadline(), Some(due));
    let again = said(|mut out| client.expire_due(due, due + ms(3), &mut out));
    assert_eq!(again.len(), 1);
    assert!(client.retransmission_deadline() > Some(due + ms(3)));
}

#[test]
fn a_duplicate_segment_is_counted_at_the_receiver() {
    let (mut client, mut server) = established(false);
    let data = said(|mut out| client.write(ms(20), 3 * 1_460, &mut out));
    for place in [0, 2, 2, 0, 1, 1] {
        server.receive(ms(21), &data[place], &mut |_| ());
    }
    assert_eq!(server.totals().needless_received, 3);
    assert_eq!(server.totals().delivered_bytes, 3 * 1_460);
}

#[test]
fn repeated_timeouts_of_the_same_data_count_as_backoffs() {
    let (mut client, mut server) = established(false);
    let data = said(|mut out| client.write(ms(20), 1_000, &mut out));
    for _ in 0..3 {
        let due = client.deadline().expect("a timer runs");
        client.expire(due, &mut |_| ());
    }
    assert_eq!((client.totals().timeouts, client.totals().backoffs), (3, 2));
    let ack = said(|mut out| server.receive(ms(500), &data[0], &mut out));
    client.receive(ms(501), &ack[0], &mut |_| ());
    answered(&mut client, &mut server, ms(600));
    client.expire(ms(900), &mut |_| ());
    assert_eq!(client.totals().timeouts, 4);
}
