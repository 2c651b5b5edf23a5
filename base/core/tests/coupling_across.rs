//! A group that follows a host: an answer counts once, while it is fresh, and when it knows of the
//! group's last cut; and the counters of its reports say what the window did.

use proptest::collection::vec;
use proptest::prelude::*;
use uc_core::coupling::across::{Link, RTO_MIN_NS, Told};
use uc_core::coupling::{Answer, Group, GroupPolicy, Guest, Member, Report, consts};

const MSS: u32 = 1448;
const MS: u64 = 1_000_000;
const ROUND_NS: u64 = 100 * MS;

/// A group of one flow.
struct Home {
    group: Group,
    guest: Guest,
    flow: Member,
    link: Link,
    now_ns: u64,
    given: Answer,
}

impl Home {
    fn new(window_bytes: u32) -> Self {
        let now_ns = 1000 * MS;
        let mut home = Self {
            group: Group::open(&GroupPolicy::default(), now_ns),
            guest: Guest::default(),
            flow: Member::default(),
            link: Link::default(),
            now_ns,
            given: Answer::default(),
        };
        let first = Report {
            cwnd_bytes: window_bytes,
            ssthresh_bytes: window_bytes,
            ..home.report(consts::AVOIDANCE, 0)
        };
        let (guest, flow) = (&mut home.guest, &mut home.flow);
        home.given = home.group.register(guest, flow, 1, &first, now_ns);
        home
    }

    fn report(&self, state: u32, grown_bytes: u32) -> Report {
        Report {
            cwnd_bytes: self.given.cwnd_bytes + grown_bytes,
            ssthresh_bytes: self.given.ssthresh_bytes,
            flight_bytes: self.given.cwnd_bytes,
            used_bytes: self.given.cwnd_bytes,
            acked_bytes: grown_bytes,
            srtt_us: (ROUND_NS / 1000 * 8) as u32,
            mss_bytes: MSS as u16,
            state: state as u8,
            ..Report::default()
        }
    }

    /// An ACK, as a guest's kernel hears it.
    fn hears(&mut self, after_ns: u64, state: u32, grown_bytes: u32, told: Option<&Told>) {
        self.now_ns += after_ns;
        let mut report = self.report(state, grown_bytes);
        if state == consts::RECOVERY {
            report.ssthresh_bytes = report.cwnd_bytes / 2;
        }
        if let Some(told) = told {
            self.link.follow(&mut self.group, told, self.now_ns);
        }
        let was = self.group;
        let (guest, flow) = (&mut self.guest, &mut self.flow);
        self.given = self.group.update(guest, flow, &report, self.now_ns);
        self.link.note(&self.group, &was, &report, self.now_ns);
    }

    fn told(&self, age_ns: u64, window_bytes: u32) -> Told {
        Told {
            at_ns: self.now_ns - age_ns,
            window_bytes,
            ssthresh_bytes: window_bytes,
            cuts: self.group.cuts,
            ..Told::default()
        }
    }
}

#[test]
fn an_answer_becomes_the_window_once_and_what_flows_add_stays() {
    let mut home = Home::new(80 * MSS);
    let told = home.told(10 * MS, 40 * MSS);
    home.hears(MS, consts::AVOIDANCE, 0, Some(&told));
    assert_eq!(home.group.window_bytes(), 40 * MSS);
    assert_eq!(home.group.ssthresh_bytes, 40 * MSS);
    assert_eq!(home.given.cwnd_bytes, 40 * MSS);
    home.hears(MS, consts::AVOIDANCE, MSS, Some(&told));
    assert_eq!(home.group.window_bytes(), 41 * MSS);
    home.hears(MS, consts::AVOIDANCE, MSS, Some(&told));
    assert_eq!(home.group.window_bytes(), 42 * MSS);
    assert_eq!(home.link.grown_q16 >> 16, u64::from(2 * MSS));
    assert_eq!(home.link.taken_ns, told.at_ns);
}

#[test]
fn an_answer_that_does_not_know_of_the_last_cut_waits_for_one_that_does() {
    let mut home = Home::new(80 * MSS);
    let before = home.told(MS, 80 * MSS);
    home.hears(2 * ROUND_NS, consts::RECOVERY, 0, None);
    assert_eq!(home.group.window_bytes(), 40 * MSS);
    assert_eq!(home.link.cut_from_bytes, 80 * MSS);
    assert_eq!(home.link.cut_to_bytes, 40 * MSS);
    assert_eq!(home.link.cut_ns, home.now_ns);
    home.hears(MS, consts::AVOIDANCE, 0, Some(&before));
    assert_eq!(home.group.window_bytes(), 40 * MSS);
    let after = home.told(0, 50 * MSS);
    home.hears(MS, consts::AVOIDANCE, 0, Some(&after));
    assert_eq!(home.group.window_bytes(), 50 * MSS);
}

#[test]
fn loss_of_data_sent_before_the_host_cut_is_no_loss_event_of_the_group() {
    for (cut_age_ns, cuts) in [(Some(ROUND_NS / 2), 0), (Some(3 * ROUND_NS), 1), (None, 1)] {
        let mut home = Home::new(80 * MSS);
        home.now_ns += 10 * ROUND_NS;
        let told = Told {
            cut_ns: cut_age_ns.map_or(0, |age_ns| home.now_ns - age_ns),
            ..home.told(0, 40 * MSS)
        };
        home.hears(MS, consts::AVOIDANCE, 0, Some(&told));
        home.hears(MS, consts::RECOVERY, 0, Some(&told));
        assert_eq!(home.group.cuts, cuts, "{cut_age_ns:?}");
    }
}

#[test]
fn loss_of_data_sent_before_the_guest_heard_of_the_hosts_cut_is_no_loss_event() {
    // The host reduced its window 60 ms ago, as the report was made, and the guest hears of it now. What it
    // finds lost after a round trip was sent 25 ms ago; what it finds lost a round trip later, in 75 ms.
    for (later_ns, cuts) in [(ROUND_NS, 0), (2 * ROUND_NS, 1)] {
        let mut home = Home::new(80 * MSS);
        home.now_ns += 10 * ROUND_NS;
        let told = Told {
            cut_ns: home.now_ns - 60 * MS,
            ..home.told(60 * MS, 40 * MSS)
        };
        home.hears(0, consts::AVOIDANCE, 0, Some(&told));
        home.hears(later_ns, consts::RECOVERY, 0, Some(&told));
        assert_eq!(home.group.cuts, cuts, "{later_ns}");
    }
}

proptest! {
    #[test]
    fn no_stale_answer_and_none_from_the_future_changes_anything(
        window in 1..1_u32 << 30, stale_ns in 1..u64::MAX / 4, cuts in any::<u32>(),
    ) {
        let mut home = Home::new(80 * MSS);
        home.now_ns += u64::MAX / 4;
        let rto_ns = ROUND_NS + RTO_MIN_NS;
        for told in [
            home.told(rto_ns + stale_ns, window),
            Told { at_ns: home.now_ns + stale_ns, ..home.told(0, window) },
            Told { cuts, ..home.told(0, window) },
        ] {
            if told.cuts == home.group.cuts && told.at_ns == home.now_ns {
                continue; // the number of cuts that there were, by chance
            }
            let (was, link) = (home.group, home.link);
            home.link.follow(&mut home.group, &told, home.now_ns);
            prop_assert_eq!(home.group, was);
            prop_assert_eq!(home.link, link);
        }
        let told = home.told(rto_ns, window);
        home.link.follow(&mut home.group, &told, home.now_ns);
        prop_assert_eq!(home.group.window_bytes(), window);
    }

    #[test]
    fn without_answers_the_window_is_what_the_counters_say(
        acks in vec((0..200_u64, 0..3 * MSS, prop::bool::weighted(0.05)), 1..200),
    ) {
        let mut home = Home::new(80 * MSS);
        let mut cuts = 0;
        let (mut since_q16, mut grown_q16) = (home.group.window_q16, 0);
        for (after_ms, grown_bytes, lost) in acks {
            let state = if lost { consts::RECOVERY } else { consts::AVOIDANCE };
            let before = home.link;
            home.hears(after_ms * MS, state, grown_bytes, None);
            prop_assert!(home.link.grown_q16 >= before.grown_q16);
            prop_assert_eq!(home.link.acked_bytes, before.acked_bytes + u64::from(grown_bytes));
            if home.group.cuts != cuts {
                prop_assert_eq!(home.link.cut_ns, home.now_ns);
                let from = (since_q16 + before.grown_q16 - grown_q16) >> 16;
                prop_assert_eq!(u64::from(home.link.cut_from_bytes), from);
                prop_assert_eq!(home.link.cut_to_bytes, home.group.window_bytes());
                (since_q16, grown_q16) = (home.group.window_q16, home.link.grown_q16);
                cuts = home.group.cuts;
            }
            prop_assert_eq!(home.group.window_q16, since_q16 + home.link.grown_q16 - grown_q16);
        }
    }

    #[test]
    fn whatever_a_host_says_the_group_s_window_stays_within_bounds(
        told in vec((any::<[u64; 2]>(), any::<[u32; 3]>()), 1..50),
    ) {
        let mut home = Home::new(80 * MSS);
        for ([at_ns, cut_ns], [window_bytes, ssthresh_bytes, cuts]) in told {
            let told = Told {
                at_ns: home.now_ns - at_ns % (2 * RTO_MIN_NS),
                cut_ns,
                window_bytes,
                ssthresh_bytes,
                cuts: cuts % 2,
                ..Told::default()
            };
            home.hears(MS, consts::AVOIDANCE, MSS, Some(&told));
            prop_assert!((1..=consts::WINDOW_MAX_BYTES).contains(&home.group.window_bytes()));
            prop_assert!(home.given.cwnd_bytes >= MSS);
            prop_assert!(home.group.cut_ns <= home.now_ns);
        }
    }
}
