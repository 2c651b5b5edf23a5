//! The guest's end: when it reports, and what it accepts from a host that lies, repeats itself or
//! is silent.

use uc_guest::coupling::guest::{GuestEnd, INTERVAL_NS};
use uc_guest::coupling::wire::{
    Frame, GROUPS_MAX, GroupAnswer, GroupName, GroupReport, Parts, WireError,
};

const MS: u64 = 1_000_000;
const MSS: u32 = 1448;
const USED: u32 = 20 * MSS;

fn group(srtt_us: u32) -> GroupReport {
    GroupReport {
        opened_ns: 7,
        window_bytes: USED,
        used_bytes: USED,
        flight_bytes: USED / 2,
        srtt_us: srtt_us * 8,
        mss_bytes: MSS as u16,
        ..GroupReport::default()
    }
}

fn answer(at_ns: u64, window_bytes: u32) -> Vec<u8> {
    let answer = GroupAnswer {
        opened_ns: 7,
        window_bytes,
        ssthresh_bytes: window_bytes,
        cuts: 3,
        cut_age_us: 5000,
        ..GroupAnswer::default()
    };
    let parts = Parts::Answer(vec![answer]);
    Frame { at_ns, parts }.encode()
}

#[test]
fn reports_go_out_four_times_in_the_shortest_round_trip_within_bounds() {
    for (rounds_us, interval_ns) in [
        (&[100_000][..], *INTERVAL_NS.end()),
        (&[20_000, 100_000], 5 * MS),
        (&[0, 20_000], 5 * MS),
        (&[50, 20_000], *INTERVAL_NS.start()),
        (&[0], *INTERVAL_NS.end()),
        (&[], *INTERVAL_NS.end()),
    ] {
        let mut end = GuestEnd::default();
        let groups = rounds_us.iter().map(|&srtt_us| group(srtt_us));
        end.report(groups.collect(), 1000 * MS);
        assert_eq!(end.due_ns(), 1000 * MS + interval_ns, "{rounds_us:?}");
    }
}

#[test]
fn a_silent_host_gets_five_reports_a_second_until_it_answers() {
    let mut end = GuestEnd::default();
    let mut now_ns = 1000 * MS;
    let mut count = 0;
    while now_ns < 11_000 * MS {
        end.report(vec![group(8000)], now_ns);
        (now_ns, count) = (end.due_ns(), count + 1);
    }
    assert!((50..70).contains(&count), "{count} in ten seconds");
    let last_ns = now_ns;
    end.report(vec![group(8000)], last_ns);
    end.hear(&answer(last_ns, USED), last_ns).unwrap();
    assert_eq!(end.due_ns(), last_ns + 2 * MS);
}

#[test]
fn an_answer_is_dated_by_the_guests_own_clock() {
    let mut end = GuestEnd::default();
    end.report(vec![group(100_000)], 1000 * MS);
    let told = end.hear(&answer(1000 * MS, 2 * USED), 1030 * MS).unwrap();
    let [(name, told)] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(name, GroupName::default());
    assert_eq!((told.at_ns, told.cut_ns), (1000 * MS, 1025 * MS));
    assert_eq!((told.window_bytes, told.cuts), (2 * USED, 3));
}

#[test]
fn a_window_is_at_most_twice_the_used_one_plus_a_first_burst() {
    let mut end = GuestEnd::default();
    for (number, (window, taken)) in (1..).zip([
        (u32::MAX, 2 * USED + 10 * MSS),
        (2 * USED + 10 * MSS, 2 * USED + 10 * MSS),
        (USED, USED),
        (0, MSS),
    ]) {
        end.report(vec![group(100_000)], number);
        let told = end.hear(&answer(number, window), number).unwrap();
        assert_eq!(told[0].1.window_bytes, taken, "{window}");
        assert!(told[0].1.ssthresh_bytes >= MSS);
    }
}

#[test]
fn unsolicited_and_repeated_answers_are_ignored() {
    let mut end = GuestEnd::default();
    assert_eq!(end.hear(&answer(1, USED), 5).unwrap(), []);
    assert!(!end.is_answered());
    end.report(vec![group(100_000)], 10);
    end.report(vec![group(100_000)], 20);
    assert_eq!(end.hear(&answer(21, USED), 25).unwrap(), []);
    // Of two answers at once, the newer counts; neither counts again.
    let both = [answer(10, USED), answer(20, 2 * USED)].concat();
    let told = end.hear(&both, 25).unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1.window_bytes, 2 * USED);
    assert_eq!(end.hear(&both, 26).unwrap(), []);
}

#[test]
fn answers_to_ended_groups_are_ignored() {
    let mut end = GuestEnd::default();
    let made_anew = GroupReport {
        opened_ns: 8,
        ..group(100_000)
    };
    end.report(vec![made_anew], 10);
    assert_eq!(end.hear(&answer(10, USED), 11).unwrap(), []);
    end.report(Vec::new(), 20);
    assert_eq!(end.hear(&answer(20, USED), 21).unwrap(), []);
}

#[test]
fn a_host_with_another_protocol_closes_the_channel() {
    let report = Frame {
        at_ns: 1,
        parts: Parts::Report(Vec::new()),
    };
    let mut end = GuestEnd::default();
    end.report(vec![group(100_000)], 1);
    assert_eq!(end.hear(&report.encode(), 2), Err(WireError::Garbage));
    let mut end = GuestEnd::default();
    end.report(vec![group(100_000)], 1);
    let mut damaged = answer(1, USED);
    damaged[40] ^= 4;
    assert_eq!(end.hear(&damaged, 2), Err(WireError::Checksum));
}

#[test]
fn with_too_many_groups_those_with_the_largest_windows_are_reported() {
    let mut end = GuestEnd::default();
    let groups = (0..100).map(|space| GroupReport {
        name: GroupName {
            space,
            ..GroupName::default()
        },
        window_bytes: (space as u32 * 37 % 100) * MSS,
        ..group(100_000)
    });
    let bytes = end.report(groups.collect(), 1);
    let (frame, _) = Frame::decode(&bytes).unwrap().unwrap();
    let Parts::Report(groups) = frame.parts else {
        panic!("{frame:?}");
    };
    assert_eq!(groups.len(), GROUPS_MAX);
    assert!(groups.iter().all(|group| group.window_bytes >= 84 * MSS));
}
