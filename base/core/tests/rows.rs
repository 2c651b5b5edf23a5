//! The core's tables as user space reads them.

use std::collections::BTreeSet;
use std::fmt::Debug;

use uc_core::law::{Trait, profiles};
use uc_core::parameter::{Kind, Row, keys, parameters, start_keys, start_settings};
use uc_core::watch::{self, StartPolicy};
use uc_core::{DctcpParameters, Law, Policy, consts};

#[test]
fn every_key_that_code_names_is_a_row() {
    let all: Vec<_> = parameters().iter().map(|row| row.key).collect();
    for key in keys::ALL {
        assert!(all.contains(&key), "{key}: not in UC_PARAMETERS");
    }
    let all: Vec<_> = start_settings().iter().map(|row| row.key).collect();
    for key in start_keys::ALL {
        assert!(all.contains(&key), "{key}: not in UC_START_SETTINGS");
    }
}

fn are_sound<Of: Default + Debug>(rows: &[Row<Of>]) {
    let keys: BTreeSet<_> = rows.iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), rows.len(), "a key is there twice");
    for row in rows {
        let key = row.key;
        assert!(!row.what.is_empty() && !row.what.ends_with('.'), "{key}");
        assert!(row.range.start() <= row.range.end(), "{key}");
        match row.kind {
            Kind::Fraction => assert_eq!(row.range, 0..=128, "{key}"),
            Kind::Flag => assert_eq!((&row.range, row.usual), (&(0..=1), Some(0)), "{key}"),
            Kind::Word => assert_eq!(row.range, 0..=row.words.len() as u64 - 1, "{key}"),
            _ => {}
        }
        assert_eq!(row.words.is_empty(), row.kind != Kind::Word, "{key}");
        // every field holds all of its range, and none moves with it but those of other laws
        let of_others = |other: &Row<Of>| {
            row.laws().next().is_some() && !row.laws().any(|law| other.is_of(law))
        };
        let mut of = Of::default();
        for value in [*row.range.start(), *row.range.end(), row.usual.unwrap_or(0)] {
            row.set(&mut of, value);
            assert_eq!(row.get(&of), value, "{key}");
            let others = rows.iter().filter(|other| other.key != key);
            for other in others.filter(|other| !of_others(other)) {
                assert_eq!(other.get(&of), 0, "{key} and {}", other.key);
            }
        }
    }
}

#[test]
fn rows_have_keys_of_their_own_and_fields_that_hold_their_range() {
    are_sound(parameters());
    are_sound(start_settings());
}

#[test]
fn usual_values_are_those_of_the_rfcs_and_the_papers() {
    let policy = Policy::new(consts::LAW_DCTCP, consts::PROFILE_RFC);
    let expected = Policy {
        law: consts::LAW_DCTCP as u8,
        profile: consts::PROFILE_RFC as u8,
        ecn_syns: 255,
        initial_window_segments: 10,
        ..Policy::default()
    };
    let parameters = DctcpParameters {
        gain_shift: 4,
        initial_alpha_q7: 128,
        beta_q7: 128,
        minimum_window_segments: 2,
    };
    assert_eq!(policy, expected.with_dctcp(parameters));
    let expected = StartPolicy {
        probes: 10,
        least_segments: 2,
        rounds: 8,
        span_us: 16,
        fresh_us: 100_000,
        idle_us: 1_000_000,
        wait_us: 800_000,
        burst_bytes: 32 * 1_514,
        span_part: 32,
        marked_part: 4,
        ..StartPolicy::default()
    };
    assert_eq!(StartPolicy::usual(), expected);
}

#[test]
fn ranges_are_what_the_core_keeps_to() {
    let most = |key| {
        let mut rows = start_settings().iter();
        *rows.find(|row| row.key == key).unwrap().range.end()
    };
    assert_eq!(most("probes"), u64::from(watch::consts::PROBES_MAX));
    assert_eq!(most("span"), u64::from(watch::consts::SPAN_MAX_US));
    assert_eq!(most("wait"), u64::from(watch::consts::WAIT_MAX_US));
}

#[test]
fn words_have_the_numbers_of_their_enumerations() {
    let words = |key| {
        let row = parameters().iter().find(|row| row.key == key).unwrap();
        let words = row.words.iter().map(|word| word.word);
        words.collect::<Vec<_>>()
    };
    assert_eq!(words("echo")[consts::ECHO_EXACT as usize], "exact");
    assert_eq!(words("echo")[consts::ECHO_CLASSIC as usize], "classic");
    let pass = consts::GUEST_ECN_PASS as usize;
    assert_eq!(words("guest_ecn")[pass], "pass");
    let translate = consts::GUEST_ECN_TRANSLATE as usize;
    assert_eq!(words("guest_ecn")[translate], "translate");
    assert_eq!(profiles()[consts::PROFILE_LINUX as usize].word, "linux");
    assert_eq!(profiles()[consts::PROFILE_RFC as usize].word, "rfc");
}

#[test]
fn parameters_belong_to_their_laws() {
    let of = |law: Law| {
        let rows = parameters().iter().filter(|row| row.is_of(law));
        rows.map(|row| row.key).collect::<Vec<_>>()
    };
    let any = [
        "guest_ecn",
        "guard",
        "strict",
        "no_window_scale",
        "no_sack",
        "no_timestamps",
        "trust_ecn",
        "pass_unanswered",
        "observe",
    ];
    assert_eq!(of(Law::PASS), [""; 0]);
    assert_eq!(of(Law::ECN), any);
    assert_eq!(of(Law::COUPLED), any);
    let dctcp = ["beta", "gain", "alpha", "min_window", "echo"];
    assert_eq!(of(Law::DCTCP), [&dctcp[..], &any].concat());
    assert_eq!(
        of(Law::DELAY),
        [&["target", "target_range"][..], &any].concat()
    );
    for row in parameters() {
        assert_eq!(row.is_of_any_law(), any.contains(&row.key));
        let named: Vec<_> = row.laws().filter(|law| !row.is_of(*law)).collect();
        assert_eq!(named, []);
    }
}

#[test]
fn laws_have_names_numbers_and_traits() {
    let laws: Vec<_> = Law::all().collect();
    let expected = [Law::PASS, Law::ECN, Law::DCTCP, Law::DELAY, Law::COUPLED];
    assert_eq!(laws, expected);
    let names: Vec<_> = Law::all().map(Law::name).collect();
    assert_eq!(names, ["pass", "ecn", "dctcp", "delay", "coupled"]);
    for law in Law::all() {
        assert_eq!(Law::named(law.name()), Some(law));
        assert!(!law.what().is_empty());
    }
    assert_eq!(Law::named("cubic"), None);
    assert!(Law::DCTCP.has(Trait::EXACT) && !Law::ECN.has(Trait::EXACT));
    let wanting: Vec<_> = Law::all().filter(|law| law.has(Trait::WANTS_ECN)).collect();
    assert_eq!(wanting, [Law::ECN, Law::DCTCP, Law::COUPLED]);
    let needing: Vec<_> = Law::all().filter(|law| law.has(Trait::NEEDS_ECN)).collect();
    assert_eq!(needing, [Law::ECN, Law::DCTCP]);
}
