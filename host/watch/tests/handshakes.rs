//! Which handshakes wait and which pass: whatever prevents waiting, they pass unmodified.

mod kernel;

use etherparse::{PacketBuilder, TcpOptionElement};
use kernel::{NEXT, SHOT, crowd, map_with, run, since, watched};
use libbpf_rs::MapCore;
use uc_core::watch::StartPolicy;
use uc_port::Direction::{FromGuest, ToGuest};
use uc_watch::{Data, Event, Programs, Settings};

const FOREVER_NS: u64 = 3_600_000_000_000;

/// Settings with which every path is probed before every flow, and no handshake waits for a pacing
/// slot.
fn settings(sends: Data) -> Settings {
    Settings {
        policy: StartPolicy {
            fresh_us: 0,
            idle_us: 0,
            wait_us: 0,
            pace_bytes_per_s: 0,
            ..StartPolicy::usual()
        },
        sends,
        receives: Data::Nobodys,
        per_second: 1_000_000,
        burst: 1_000_000,
    }
}

/// Returns a SYN of 10.77.0.1, or with `ack` the SYN-ACK that answers one.
fn opening(remote: [u8; 4], port: u16, ack: bool) -> Vec<u8> {
    let packet = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 77, 0, 1], remote, 64)
        .tcp(port, 80, 1_000, 64_240)
        .syn();
    let packet = if ack { packet.ack(77) } else { packet };
    let options = [TcpOptionElement::MaximumSegmentSize(1_460)];
    let mut frame = Vec::new();
    let packet = packet.options(&options).unwrap();
    packet.write(&mut frame, &[]).unwrap();
    frame
}

fn syn(port: u16) -> Vec<u8> {
    opening([10, 77, 0, 2], port, false)
}

/// Returns the event of a guest's frame; a frame that does not wait must be unmodified.
fn event(programs: &Programs, frame: &[u8]) -> Option<Event> {
    let before = programs.events().unwrap();
    let run = run(programs, FromGuest, frame);
    let seen = since(programs, &before);
    assert!(seen.len() <= 1, "{seen:?}");
    let event = seen.first().map(|(event, _)| *event);
    let verdict = if event == Some(Event::HELD) {
        SHOT
    } else {
        NEXT
    };
    assert_eq!((run.verdict, &run.packet[..]), (verdict, frame), "{seen:?}");
    event
}

fn with_programs(settings: &Settings, test: impl FnOnce(&Programs)) {
    if let Some((programs, _watched)) = watched(settings) {
        programs.be_alive(FOREVER_NS).unwrap();
        test(&programs);
    }
}

#[test]
fn live_the_senders_handshake_waits_and_its_copies_pass() {
    with_programs(&settings(Data::FromClient), |programs| {
        assert_eq!(event(programs, &syn(1)), Some(Event::HELD));
        assert_eq!(event(programs, &syn(1)), Some(Event::REPEATED));
        assert_eq!(event(programs, &opening([10, 77, 0, 2], 2, true)), None);
    });
    with_programs(&settings(Data::FromServer), |programs| {
        let syn_ack = opening([10, 77, 0, 2], 2, true);
        assert_eq!(event(programs, &syn_ack), Some(Event::HELD));
        assert_eq!(event(programs, &syn_ack), Some(Event::REPEATED));
        assert_eq!(event(programs, &syn(1)), None);
    });
}

#[test]
fn live_handshakes_pass_without_a_holder_or_with_an_unknown_host() {
    with_programs(&settings(Data::FromBoth), |programs| {
        let stranger = opening([10, 78, 0, 2], 1, false);
        assert_eq!(event(programs, &stranger), Some(Event::NOT_A_PEER));
        programs.be_alive(1).unwrap();
        assert_eq!(event(programs, &syn(1)), Some(Event::NOBODY));
        programs.be_alive(0).unwrap();
        assert_eq!(event(programs, &syn(1)), Some(Event::NOBODY));
        programs.be_alive(FOREVER_NS).unwrap();
        assert_eq!(event(programs, &syn(1)), Some(Event::HELD));
    });
}

#[test]
fn live_handshakes_above_a_guests_rate_pass() {
    let settings = Settings {
        per_second: 1,
        burst: 5,
        ..settings(Data::FromClient)
    };
    with_programs(&settings, |programs| {
        let events: Vec<_> = (0..50).map(|port| event(programs, &syn(port))).collect();
        let held = events.iter().filter(|event| **event == Some(Event::HELD));
        let over = events
            .iter()
            .filter(|event| **event == Some(Event::OVER_RATE));
        let (held, over) = (held.count(), over.count());
        assert_eq!(held + over, 50);
        // The bucket's capacity, and what a second more or less of this machine's time adds.
        assert!((5..20).contains(&held), "{held}");
    });
}

#[test]
fn live_handshakes_above_a_guests_rate_make_no_path_records() {
    let settings = Settings {
        per_second: 1,
        burst: 1,
        ..settings(Data::FromClient)
    };
    with_programs(&settings, |programs| {
        for host in 2..52 {
            event(programs, &opening([10, 77, 0, host], 1, false));
        }
        // One more may be allowed while this runs.
        assert!(programs.paths().len() <= 2, "{}", programs.paths().len());
    });
}

#[test]
fn live_port_with_paths_to_many_hosts_leaves_half_of_the_table_to_others() {
    with_programs(&settings(Data::FromClient), |programs| {
        let other = std::process::Command::new("ip")
            .args(["link", "add", "d0", "index", "7", "type", "veth"])
            .status();
        assert!(other.unwrap().success());
        let alone = opening([10, 77, 0, 200], 1, false);
        assert_eq!(event(programs, &alone), Some(Event::HELD));
        let own = programs.paths();
        let paths = map_with("paths", &own[0]);
        let half = paths.max_entries() / 2;
        let remote_at = own[0].len() - 4;
        crowd(&paths, &own[0], 7, remote_at, half - 1);
        programs.sweep(0);
        assert_eq!(programs.paths().len(), half as usize);
        crowd(&paths, &own[0], 7, remote_at, half + 500);
        programs.sweep(0);
        assert_eq!(programs.paths().len(), half as usize / 2 + 1);
        assert!(programs.paths().contains(&own[0]));
    });
}

#[test]
fn live_a_path_under_measurement_is_not_probed_again() {
    let mut settings = settings(Data::FromClient);
    settings.policy.fresh_us = 3_600_000_000;
    with_programs(&settings, |programs| {
        assert_eq!(event(programs, &syn(1)), Some(Event::HELD));
        assert_eq!(event(programs, &syn(2)), Some(Event::RECENT));
        let elsewhere = opening([10, 77, 0, 3], 3, false);
        assert_eq!(event(programs, &elsewhere), Some(Event::HELD));
    });
}

#[test]
fn live_handshakes_beyond_a_full_table_and_too_long_frames_pass() {
    with_programs(&settings(Data::FromClient), |programs| {
        let mut long = syn(1);
        long.resize(145, 0);
        assert_eq!(event(programs, &long), Some(Event::NO_ROOM));
        let held = (0..=u16::MAX)
            .take_while(|port| event(programs, &syn(*port)) == Some(Event::HELD))
            .count();
        assert_eq!(held, 4_096);
        assert_eq!(event(programs, &syn(60_000)), Some(Event::NO_ROOM));
    });
}

#[test]
fn live_a_handshake_from_the_network_never_waits() {
    with_programs(&settings(Data::FromBoth), |programs| {
        let before = programs.events().unwrap();
        for frame in [syn(1), opening([10, 77, 0, 2], 2, true)] {
            let run = run(programs, ToGuest, &frame);
            assert_eq!((run.verdict, run.packet), (NEXT, frame));
        }
        assert_eq!(since(programs, &before), []);
    });
}
