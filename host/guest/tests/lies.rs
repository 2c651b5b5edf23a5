//! The effect of false reports of a guest: nothing beyond its weight's share.

use uc_core::coupling::consts;
use uc_guest::coupling::host::{GuestId, Host, Policy};
use uc_guest::coupling::validate::Impossible;
use uc_guest::coupling::wire::{GROUPS_MAX, GroupAnswer, GroupName, GroupReport};

const MSS: u32 = 1448;
const ROUND_NS: u64 = 100_000_000;
/// Bytes of one guest that the path holds, whatever the guest is given.
const PATH_BYTES: u32 = 60 * MSS;
/// Interval of reports: ten in a round trip.
const STEP_NS: u64 = ROUND_NS / 10;

/// A guest whose packets go where the host expects: an honest one, or the starting point of a liar.
struct Honest {
    id: GuestId,
    said: GroupReport,
    given_bytes: u32,
    owed_bytes: u64,
}

impl Honest {
    fn new(host: &mut Host, weight: u8) -> Self {
        let window = 10 * MSS;
        Self {
            id: host.add(weight),
            said: GroupReport {
                opened_ns: 1,
                window_bytes: window,
                ssthresh_bytes: window,
                flight_bytes: window,
                used_bytes: window,
                srtt_us: (ROUND_NS / 1000 * 8) as u32,
                mss_bytes: MSS as u16,
                ..GroupReport::default()
            },
            given_bytes: window,
            owed_bytes: 0,
        }
    }

    /// Returns its report a tenth of a round trip later: a tenth of the window was acknowledged,
    /// and the window is a tenth of a segment larger.
    fn says(&mut self) -> GroupReport {
        self.owed_bytes += u64::from(MSS) / 10;
        self.said.acked_bytes += u64::from(self.given_bytes) / 10;
        self.said.grown_bytes = self.owed_bytes;
        self.said.window_bytes = self.given_bytes;
        self.said.flight_bytes = self.given_bytes.min(PATH_BYTES);
        self.said.used_bytes = self.said.flight_bytes;
        self.said
    }

    /// Halves its window by a loss.
    fn loses(&mut self) {
        self.said.cuts += 1;
        self.said.cut_age_us = 1000;
        self.said.cut_from_bytes = self.given_bytes;
        self.said.cut_to_bytes = self.given_bytes / 2;
    }
}

/// Simulates two guests of weight 1 and one of weight 2, of which the first reports what `lie`
/// makes of the truth; the others lose now and then. Returns each guest's final part, and the
/// window.
fn after(rounds: u64, lie: impl Fn(u64, &mut GroupReport)) -> ([u32; 3], u32) {
    let mut host = Host::new(Policy::default());
    let mut guests = [1, 1, 2].map(|weight| Honest::new(&mut host, weight));
    let mut window = 0;
    for step in 1..=10 * rounds {
        let now_ns = step * STEP_NS;
        for (number, guest) in guests.iter_mut().enumerate() {
            // Every forty round trips, one of the two honest guests loses a packet.
            if number > 0 && step % 800 == 400 * number as u64 % 800 {
                guest.loses();
            }
            let mut said = guest.says();
            if number == 0 {
                lie(step, &mut said);
            }
            let answers = host.hear(guest.id, now_ns, &[said], now_ns).unwrap();
            guest.given_bytes = answers[0].window_bytes;
        }
        window = host.shares()[0].window_bytes;
    }
    (guests.map(|guest| guest.given_bytes), window)
}

/// Checks that the first guest has a quarter of the window, whatever it reports, and the others
/// their shares.
fn assert_no_more_than_its_share(lie: impl Fn(u64, &mut GroupReport)) -> u32 {
    let (given, window) = after(300, lie);
    println!("{given:?} of {window}");
    assert!(given[0] <= window / 4 + 1, "{given:?} of {window}");
    let sum = given[1] + given[2];
    assert!(sum >= window / 4 * 3 - 2 * MSS, "{given:?} of {window}");
    assert!(
        given[2].abs_diff(2 * given[1]) <= 2 * MSS,
        "{given:?} of {window}"
    );
    window
}

#[test]
fn honest_guests_share_by_weight_and_grow_by_a_segment_in_a_round_trip_all_together() {
    let window = assert_no_more_than_its_share(|_, _| {});
    // One TCP halved every forty round trips has a window of at most twice forty segments.
    assert!((20 * MSS..=85 * MSS).contains(&window), "{window}");
}

#[test]
fn claiming_growth_gives_no_larger_share() {
    let window = assert_no_more_than_its_share(|step, said| said.grown_bytes = step << 24);
    assert!(window <= 400 * MSS, "{window}");
    let window = assert_no_more_than_its_share(|step, said| {
        said.grown_bytes = step << 24;
        said.acked_bytes = step << 24;
    });
    // The sum is at most what it would be if the liar used its share.
    assert!(window <= 400 * MSS, "{window}");
}

#[test]
fn claiming_never_to_have_lost_gives_no_larger_share() {
    assert_no_more_than_its_share(|_, said| (said.cuts, said.cut_age_us) = (0, 0));
}

#[test]
fn claiming_to_be_idle_gives_a_smaller_share() {
    let (given, window) = after(300, |_, said| {
        said.limited = true;
        (said.used_bytes, said.flight_bytes) = (0, 0);
    });
    assert!(given[0] <= window / 20 + MSS, "{given:?} of {window}");
    // After it wakes up it gets its own share back, and no more.
    assert_no_more_than_its_share(|step, said| {
        if step < 1500 {
            said.limited = true;
            (said.used_bytes, said.flight_bytes) = (0, 0);
        }
    });
}

#[test]
fn claiming_to_be_window_limited_with_nothing_in_flight_gives_no_larger_share() {
    assert_no_more_than_its_share(|_, said| (said.used_bytes, said.flight_bytes) = (0, 0));
}

#[test]
fn claiming_huge_windows_gives_no_larger_share_and_takes_no_room_from_others() {
    let huge = consts::WINDOW_MAX_BYTES;
    let window = assert_no_more_than_its_share(|_, said| {
        (said.window_bytes, said.ssthresh_bytes) = (huge, huge);
        (said.used_bytes, said.flight_bytes) = (huge, huge);
    });
    assert!(window <= 200 * MSS, "{window}");
}

#[test]
fn claiming_odd_times_gives_no_larger_share() {
    for srtt_us in [0, 1, 7, u32::MAX] {
        assert_no_more_than_its_share(|_, said| said.srtt_us = srtt_us);
    }
    for cut_age_us in [0, u32::MAX] {
        assert_no_more_than_its_share(|step, said| {
            said.cuts = (step / 400) as u32;
            said.cut_age_us = cut_age_us;
            (said.cut_from_bytes, said.cut_to_bytes) = (0, u32::MAX);
        });
    }
    assert_no_more_than_its_share(|step, said| said.taken_ns = u64::MAX - step);
}

#[test]
fn claiming_a_different_segment_size_gives_no_larger_share() {
    for mss_bytes in [0, 1, u16::MAX] {
        let (given, window) = after(300, |_, said| said.mss_bytes = mss_bytes);
        // Every group may have one segment.
        assert!(
            given[0] <= (window / 4).max(mss_bytes.into()) + 1,
            "{given:?} of {window}"
        );
    }
}

#[test]
fn many_groups_of_a_guest_count_as_one_guest() {
    let mut host = Host::new(Policy::default());
    let mut honest = Honest::new(&mut host, 1);
    let liar = host.add(1);
    let (mut window, mut sum) = (0, 0);
    for step in 1..=1000 {
        let now_ns = step * STEP_NS;
        let said = honest.says();
        let answers = host.hear(honest.id, now_ns, &[said], now_ns).unwrap();
        honest.given_bytes = answers[0].window_bytes;
        let many: Vec<_> = (0..GROUPS_MAX as u64)
            .map(|space| GroupReport {
                name: GroupName {
                    space,
                    ..GroupName::default()
                },
                ..said
            })
            .collect();
        let answers = host.hear(liar, now_ns, &many, now_ns).unwrap();
        sum = answers
            .iter()
            .map(|answer: &GroupAnswer| answer.window_bytes)
            .sum();
        window = host.shares()[0].window_bytes;
    }
    assert!(
        honest.given_bytes + MSS >= window / 2,
        "{}",
        honest.given_bytes
    );
    // Every group may have one segment.
    assert!(
        sum <= (window / 2).max(GROUPS_MAX as u32 * MSS),
        "{sum} of {window}"
    );
}

#[test]
fn prefixes_of_length_zero_put_all_remotes_into_one_group() {
    let mut host = Host::new(Policy::default());
    let mut guest = Honest::new(&mut host, 1);
    let to = |remote: &str| {
        let remote: std::net::Ipv6Addr = remote.parse().unwrap();
        let name = GroupName {
            remote: remote.octets(),
            ..GroupName::default()
        };
        GroupReport {
            name,
            ..guest.says()
        }
    };
    let said = ["::ffff:10.1.0.0", "fd00:1::"].map(to);
    host.hear(guest.id, 1, &said, 1).unwrap();
    let groups: Vec<_> = host.shares().iter().map(|share| share.remote).collect();
    assert_eq!(groups, [std::net::Ipv6Addr::UNSPECIFIED]);
}

#[test]
fn an_impossible_report_closes_the_channel_and_is_not_applied() {
    let mut host = Host::new(Policy::default());
    let mut guest = Honest::new(&mut host, 1);
    let said = guest.says();
    host.hear(guest.id, 5, &[said], 1).unwrap();
    let mut refused = |at_ns, reports: &[GroupReport]| {
        let refusal = host.hear(guest.id, at_ns, reports, 2).unwrap_err();
        assert_eq!(host.shares()[0].window_bytes, 10 * MSS);
        refusal
    };
    assert_eq!(refused(5, &[said]), Impossible::Clock);
    assert_eq!(refused(6, &[said, said]), Impossible::Twice);
    let huge = GroupReport {
        flight_bytes: u32::MAX,
        ..said
    };
    assert_eq!(refused(7, &[huge]), Impossible::Size);
    let backwards = GroupReport {
        acked_bytes: said.acked_bytes - 1,
        ..said
    };
    assert_eq!(refused(8, &[backwards]), Impossible::Counter);
    let cuts = GroupReport {
        cuts: said.cuts.wrapping_sub(1),
        ..said
    };
    assert_eq!(refused(9, &[cuts]), Impossible::Counter);
    // Groups before the impossible one in a report are not applied either: growth, and a new group.
    let grown = GroupReport {
        acked_bytes: said.acked_bytes + u64::from(MSS),
        grown_bytes: said.grown_bytes + u64::from(MSS),
        ..said
    };
    let new = |space| GroupReport {
        name: GroupName { space, ..said.name },
        ..said
    };
    host.hear(guest.id, 10, &[said, new(1)], 2).unwrap();
    let before = format!("{host:?}");
    let backwards = GroupReport {
        acked_bytes: said.acked_bytes - 1,
        ..new(1)
    };
    let refusal = host.hear(guest.id, 11, &[grown, new(2), backwards], 100_000_000);
    assert_eq!(refusal.unwrap_err(), Impossible::Counter);
    assert_eq!(format!("{host:?}"), before);
    host.leave(guest.id, 3);
    assert!(host.shares().is_empty());
}
