//! Probes that reach a port: valid ones are counted, invalid ones dropped without any state.

mod kernel;

use std::time::Duration;

use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader};
use kernel::siphash::siphash_2_4;
use kernel::{CE, ECT0, NEXT, Probe, SHOT, map_with, run, since, slot, watched};
use libbpf_rs::{MapCore, MapFlags};
use uc_port::Direction::{FromGuest, ToGuest};
use uc_watch::{Event, Programs, Settings};

/// Runs a test with programs that have the time, which a holder would write.
fn with_programs(test: impl FnOnce(&Programs)) {
    let Some((programs, _watched)) = watched(&Settings::default()) else {
        return;
    };
    programs.be_alive(0).unwrap();
    test(&programs);
}

/// Returns the event of a probe; the probe must not pass.
fn event(programs: &Programs, probe: &Probe) -> Event {
    let before = programs.events().unwrap();
    let verdict = run(programs, ToGuest, &probe.frame()).verdict;
    let seen = since(programs, &before);
    assert_eq!(verdict, SHOT, "{seen:?} of {probe:?}");
    assert_eq!(seen.len(), 1, "{seen:?} of {probe:?}");
    assert_eq!(seen[0].1, 1);
    seen[0].0
}

#[test]
fn siphash_of_the_tests_matches_its_authors_vector() {
    let key = std::array::from_fn(|at| at as u8);
    let text: Vec<u8> = (0..15).collect();
    assert_eq!(siphash_2_4(&key, &text), 0xa129_ca61_49be_45e5);
}

#[test]
fn live_a_probe_fills_the_minimum_frame_and_is_counted_by_its_mark() {
    with_programs(|programs| {
        assert_eq!(Probe::new(false).frame().len() + 4, 64);
        assert_eq!(Probe::new(true).frame().len() + 4, 84);
        for ipv6 in [false, true] {
            let probe = Probe::new(ipv6);
            assert_eq!(event(programs, &probe), Event::PROBE);
            let marked = Probe {
                index: 1,
                ecn: CE,
                ..probe
            };
            assert_eq!(event(programs, &marked), Event::PROBE_CE);
        }
        assert_eq!(programs.starts().len(), 2);
    });
}

#[test]
fn live_a_forged_replayed_or_truncated_probe_is_counted_and_makes_no_start() {
    with_programs(|programs| {
        for ipv6 in [false, true] {
            let good = Probe::new(ipv6);
            let bad = |change: &dyn Fn(&mut Probe)| {
                let mut probe = good.clone();
                change(&mut probe);
                event(programs, &probe)
            };
            assert_eq!(bad(&|probe| probe.key[3] ^= 1), Event::FORGED);
            assert_eq!(bad(&|probe| probe.slot -= 100), Event::LATE);
            assert_eq!(bad(&|probe| probe.slot += 100), Event::LATE);
            assert_eq!(bad(&|probe| probe.slot -= 1 << 16), Event::FORGED);
            assert_eq!(bad(&|probe| probe.count = 0), Event::UNKNOWN);
            assert_eq!(bad(&|probe| probe.count = 33), Event::UNKNOWN);
            assert_eq!(bad(&|probe| probe.index = 10), Event::UNKNOWN);
            assert_eq!(bad(&|probe| probe.ecn = 0), Event::UNKNOWN);
            for bytes in [6, 7, 16, 25, 27, 200] {
                assert_eq!(bad(&|probe| probe.bytes = bytes), Event::TRUNCATED);
            }
            assert_eq!(programs.starts().len(), usize::from(ipv6), "no place taken");
            assert_eq!(event(programs, &good), Event::PROBE);
            assert_eq!(event(programs, &good), Event::REPLAYED);
            assert_eq!(bad(&|probe| probe.index = 1), Event::PROBE);
            assert_eq!(
                bad(&|probe| (probe.index, probe.count) = (2, 9)),
                Event::UNKNOWN
            );
            assert_eq!(
                bad(&|probe| probe.connection += 1),
                Event::PROBE,
                "another connection"
            );
        }
    });
}

#[test]
fn live_probes_with_either_of_two_keys_are_counted() {
    with_programs(|programs| {
        let own = Probe::new(false);
        let also = Probe {
            index: 1,
            key: kernel::ALSO,
            ..own.clone()
        };
        let neither = Probe {
            index: 2,
            key: [0; 16],
            ..own.clone()
        };
        assert_eq!(event(programs, &own), Event::PROBE);
        assert_eq!(event(programs, &also), Event::PROBE);
        assert_eq!(event(programs, &neither), Event::FORGED);
    });
}

#[test]
fn live_a_probe_of_another_connection_does_not_reset_a_live_start() {
    with_programs(|programs| {
        let first = Probe::new(false);
        assert_eq!(event(programs, &first), Event::PROBE);
        // The guest's SYN-ACK has its first window.
        let guest =
            |change: &dyn Fn(PacketBuilderStep<TcpHeader>) -> PacketBuilderStep<TcpHeader>| {
                let step = PacketBuilder::ethernet2([2; 6], [4; 6])
                    .ipv4([10, 77, 0, 2], [10, 77, 0, 1], 64)
                    .tcp(80, 40_000, 9_000, 64_240)
                    .ack(first.connection + 1);
                let mut frame = Vec::new();
                change(step).write(&mut frame, &[]).unwrap();
                assert_eq!(run(programs, FromGuest, &frame).verdict, NEXT);
            };
        guest(&|step| step.syn());
        let other = Probe {
            connection: first.connection + 1_000,
            ..first.clone()
        };
        assert_eq!(event(programs, &other), Event::REPLAYED);
        // The start still exists: a copy of its own probe is a replay.
        assert_eq!(event(programs, &first), Event::REPLAYED);
        guest(&|step| step.fin());
        assert_eq!(
            event(programs, &other),
            Event::PROBE,
            "on ports that are free"
        );
    });
}

#[test]
fn live_a_flip_of_any_signed_bit_of_a_probe_is_detected() {
    with_programs(|programs| {
        let good = Probe::new(false).frame();
        let before = programs.events().unwrap();
        // The addresses, and the bytes after the IP header except the magic number.
        for at in (26..38).chain(40..60) {
            for bit in 0..8 {
                let mut frame = good.clone();
                frame[at] ^= 1 << bit;
                assert_eq!(
                    run(programs, ToGuest, &frame).verdict,
                    SHOT,
                    "byte {at}, bit {bit}"
                );
            }
        }
        let seen = since(programs, &before);
        let counted = |(event, _): &(Event, u64)| [Event::PROBE, Event::PROBE_CE].contains(event);
        assert!(!seen.iter().any(counted), "{seen:?}");
        assert_eq!(programs.starts().len(), 0);
    });
}

/// Returns the events of five probes of one connection. The second's sending time is 20 ms before
/// the first's, the third's 20 ms after it, the others' are equal to it. `None`: the machine paused
/// meanwhile.
fn timed(programs: &Programs, start: u16, connection: u32) -> Option<[Event; 5]> {
    const TWENTY_MS: u16 = 19_531; // of 1,024 ns
    let began = std::time::Instant::now();
    let left = [
        start,
        start.wrapping_sub(TWENTY_MS),
        start.wrapping_add(TWENTY_MS),
        start,
        start,
    ];
    let events = std::array::from_fn(|index| {
        let probe = Probe {
            index: index as u8,
            left: left[index],
            ecn: if index == 4 { CE } else { ECT0 },
            connection,
            ..Probe::new(false)
        };
        event(programs, &probe)
    });
    (began.elapsed() < Duration::from_millis(5)).then_some(events)
}

#[test]
fn live_a_delayed_probe_counts_as_marked_if_the_policy_sets_a_bound() {
    for (late_ns, behind) in [(10_000_000, Event::PROBE_SLOW), (0, Event::PROBE)] {
        let mut settings = Settings::default();
        settings.policy.late_ns = late_ns;
        let Some((programs, _watched)) = watched(&settings) else {
            return;
        };
        programs.be_alive(0).unwrap();
        let mut connection = 0;
        // Wherever the clock is when it wraps.
        for start in [0, 20_000, 40_000, 60_000] {
            let seen = std::iter::repeat_with(|| {
                connection += 1;
                timed(&programs, start, connection)
            });
            let seen = seen
                .take(1_000)
                .flatten()
                .next()
                .expect("5 ms without a pause");
            // The third was the fastest, and the fourth is delayed relative to it.
            let expected = [Event::PROBE, behind, Event::PROBE, behind, Event::PROBE_CE];
            assert_eq!(seen, expected, "{late_ns} {start}");
        }
    }
}

#[test]
fn live_other_packets_of_the_protocol_and_a_guests_own_pass() {
    with_programs(|programs| {
        let before = programs.events().unwrap();
        let mut other = Probe::new(false).frame();
        other[38] ^= 1; // the magic
        let mut fragment = Probe::new(false).frame();
        fragment[20] = 0x20;
        let tiny = Probe {
            bytes: 5,
            ..Probe::new(false)
        };
        let tiny = [tiny.frame(), vec![]].concat();
        for frame in [&other, &fragment, &tiny] {
            let run = run(programs, ToGuest, frame);
            assert_eq!((run.verdict, &run.packet), (NEXT, frame));
        }
        let probe = Probe::new(true).frame();
        let run = run(programs, FromGuest, &probe);
        assert_eq!((run.verdict, &run.packet), (NEXT, &probe));
        assert_eq!(since(programs, &before), []);
    });
}

/// A pointer shows such a start if another CPU cleared the flow after the lookup and its element
/// was reused.
#[test]
fn live_a_start_reused_by_another_flow_is_ignored_and_unchanged() {
    with_programs(|programs| {
        let mut probe = Probe::new(false);
        probe.destination.set_port(54_321);
        assert_eq!(event(programs, &probe), Event::PROBE);
        let [key] = &programs.starts()[..] else {
            panic!("one start")
        };
        let starts = map_with("starts", key);
        assert_eq!(event(programs, &Probe::new(false)), Event::PROBE);
        let others = programs.starts().into_iter().find(|other| other != key);
        let others = starts.lookup(&others.unwrap(), MapFlags::ANY).unwrap();
        let others = others.unwrap();
        starts.update(key, &others, MapFlags::EXIST).unwrap();

        probe.index = 1;
        assert_eq!(event(programs, &probe), Event::TABLE_FULL);
        let after = starts.lookup(key, MapFlags::ANY).unwrap();
        assert_eq!(after, Some(others));
    });
}

#[test]
fn live_state_of_a_deleted_port_is_removed() {
    with_programs(|programs| {
        let mut probe = Probe::new(false);
        probe.destination.set_port(54_322);
        assert_eq!(event(programs, &probe), Event::PROBE);
        let there = programs.starts();
        let starts = map_with("starts", &there[0]);
        let start = starts.lookup(&there[0], MapFlags::ANY).unwrap().unwrap();
        // An index that no interface of this namespace has.
        let gone = [&4_000_000u32.to_ne_bytes(), &there[0][4..]].concat();
        starts.update(&gone, &start, MapFlags::ANY).unwrap();
        assert_eq!(programs.starts().len(), 2);
        programs.sweep(0);
        assert_eq!(programs.starts(), there);
    });
}

#[test]
fn live_a_probe_counts_without_a_holder() {
    if let Some((programs, _watched)) = watched(&Settings::default()) {
        assert_eq!(event(&programs, &Probe::new(false)), Event::PROBE);
    }
}

#[test]
fn live_a_flood_of_probes_is_limited_by_the_table() {
    with_programs(|programs| {
        let room = programs.starts_max() as usize;
        let mut counts = (0, 0);
        for flow in 0..room as u32 + 500 {
            let mut probe = Probe::new(false);
            probe.source.set_port((flow & 0xffff) as u16);
            probe.connection = flow;
            probe.slot = slot();
            match event(programs, &probe) {
                Event::PROBE => counts.0 += 1,
                Event::TABLE_FULL => counts.1 += 1,
                other => panic!("{}", other.label()),
            }
        }
        assert_eq!(counts, (room, 500), "{} flows", programs.starts().len());
        programs.sweep(u64::MAX);
        assert_eq!(
            programs.starts().len(),
            0,
            "finished starts must be removed"
        );
    });
}
