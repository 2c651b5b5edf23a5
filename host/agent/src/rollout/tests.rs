use uc_policy::Policy;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the canary table of a policy, and its checksum.
fn canary(hosts: &str) -> Canary {
    let text = format!(
        "[[tenant]]\nname = \"t\"\nports = \"v*\"\n[canary]\nhosts = [{hosts}]\nminutes = 1\nworse = {{ no_handshake = 2, table_full = 1 }}\n"
    );
    Policy::parse_fleet("t.toml", &text)
        .unwrap()
        .canary
        .unwrap()
}

fn tally(translated: u64, no_handshake: u64) -> Tally {
    let counts = [("translated", translated), ("no_handshake", no_handshake)];
    counts
        .map(|(reason, count)| (reason.to_owned(), count))
        .into_iter()
        .collect()
}

fn kept(text: &str) -> Kept {
    Kept {
        key: "/policy".to_owned(),
        revision: 1,
        text: text.to_owned(),
    }
}

/// Returns host `a`, which has followed a policy without canaries for 100,000 packets, 1,000 of them
/// without a handshake, and then policy `new`, which it tries.
fn trying(folder: &Path, now: Instant) -> Rollout {
    let mut rollout = Rollout::new("a".to_owned(), folder);
    rollout.follow(1, (None, "old"), None, Tally::default(), now);
    let canary = canary("\"a\"");
    assert_eq!(rollout.check(&canary, "new"), Ok(()));
    let trial = (Some(&canary), "new");
    rollout.follow(2, trial, Some(kept("old")), tally(99_000, 1_000), now);
    rollout
}

fn verdict(hash: &str, worse: Option<&str>) -> Verdict {
    Verdict {
        hash: hash.to_owned(),
        worse: worse.map(str::to_owned),
    }
}

#[test]
fn a_share_that_rises_by_more_than_the_factor_is_worse() {
    let canary = canary("\"a\"");
    let before = tally(99_000, 1_000);
    for (after, is_worse) in [
        (tally(99_000, 1_000), false),
        (tally(98_000, 2_000), false),
        (tally(97_000, 3_000), true),
        (tally(990, 30), false),
        (tally(900, 100), true),
        (tally(0, 5), false),
        (tally(1_000_000, 0), false),
    ] {
        let why = after.worse_than(&before, &canary);
        assert_eq!(why.is_some(), is_worse, "{after:?}: {why:?}");
    }
    let why = tally(97_000, 3_000).worse_than(&before, &canary).unwrap();
    assert_eq!(
        why,
        "no_handshake: 3000 of 100000 packets, before 1000 of 100000, and canary.worse allows 2 \
         times the share"
    );
    let nothing = Tally::default();
    assert_eq!(tally(0, 9_999).worse_than(&nothing, &canary), None);
    assert_eq!(before.since(&tally(99_001, 0)), None);
}

#[test]
fn a_canary_says_that_a_policy_is_good_after_its_time_and_not_earlier() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = trying(folder.path(), now);
    assert!(!rollout.is_due(now + MINUTE / 2));
    assert!(rollout.is_due(now + MINUTE));
    let canary = canary("\"a\"");
    let newest = Some((&canary, "new"));
    assert_eq!(
        rollout.state(newest, "new").unwrap().stage,
        CanaryStage::Tries
    );
    assert_eq!(
        rollout.judge(&canary, tally(198_000, 2_000), now + MINUTE),
        None
    );
    let state = rollout.state(newest, "new").unwrap();
    assert_eq!(state.stage, CanaryStage::InForce);
    assert_eq!(state.said, [verdict("new", None)]);
    // the next agent follows it without a trial
    let mut next = Rollout::new("a".to_owned(), folder.path());
    next.follow(
        1,
        newest.map(|(c, h)| (Some(c), h)).unwrap(),
        None,
        tally(0, 0),
        now,
    );
    assert_eq!(next.state(newest, "new").unwrap(), state);
}

#[test]
fn a_canary_goes_back_from_a_worse_policy_and_tries_it_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = trying(folder.path(), now);
    let canary = canary("\"a\"");
    let judged = rollout.judge(&canary, tally(190_000, 10_000), now + MINUTE);
    let (former, why) = judged.expect("it is worse");
    assert_eq!(former, kept("old"));
    rollout.say(Some(why.clone()));
    rollout.follow(3, (None, "old"), None, tally(190_000, 10_000), now);
    for rollout in [rollout, Rollout::new("a".to_owned(), folder.path())] {
        let refused = rollout.check(&canary, "new").unwrap_err();
        assert_eq!(refused, Halt::Worse(format!("was worse here: {why}")));
        let state = rollout.state(Some((&canary, "new")), "old").unwrap();
        assert_eq!(state.stage, CanaryStage::Worse);
        assert_eq!(state.said, [verdict("new", Some(&why))]);
    }
}

#[test]
fn an_interrupted_trial_begins_again_and_compares_with_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    drop(trying(folder.path(), now));
    let mut next = Rollout::new("a".to_owned(), folder.path());
    let canary = canary("\"a\"");
    let later = now + MINUTE / 2;
    next.follow(
        1,
        (Some(&canary), "new"),
        None,
        tally(150_000, 1_500),
        later,
    );
    assert!(!next.is_due(now + MINUTE));
    // A newer policy replaces the one on trial: the host may go back to the last good one.
    next.follow(
        2,
        (Some(&canary), "newer"),
        Some(kept("new")),
        tally(160_000, 1_600),
        later,
    );
    // The programs were loaded again: their counters begin at 0.
    assert_eq!(next.judge(&canary, tally(5, 5), later + MINUTE), None);
    assert!(!next.is_due(later + MINUTE + MINUTE / 2));
    let judged = next.judge(&canary, tally(5_005, 5_005), later + 2 * MINUTE);
    assert_eq!(judged.unwrap().0, kept("old"));
}

#[test]
fn a_canary_without_a_policy_before_has_nothing_to_go_back_to() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = Rollout::new("a".to_owned(), folder.path());
    let canary = canary("\"a\"");
    rollout.follow(1, (Some(&canary), "new"), None, tally(100, 0), now);
    assert_eq!(
        rollout.judge(&canary, tally(100, 9_999), now + MINUTE),
        None
    );
    let state = rollout.state(Some((&canary, "new")), "new").unwrap();
    assert_eq!(state.said, [verdict("new", None)]);
}

#[test]
fn other_hosts_wait_until_all_canaries_say_that_a_policy_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::new("c".to_owned(), folder.path());
    let canary = canary("\"a\", \"b\"");
    let waits = |who: &str| Err(Halt::Waits(format!("{who} must try it first")));
    let of = |a: &[Verdict], b: &[Verdict]| {
        BTreeMap::from([("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())])
    };
    let good = &[verdict("new", None)];
    let bad = verdict("new", Some("many"));
    assert_eq!(rollout.check(&canary, "new"), waits("a, b"));
    assert!(rollout.hear(of(&[verdict("old", None)], &[])));
    assert_eq!(rollout.check(&canary, "new"), waits("a, b"));
    assert!(rollout.hear(of(&[verdict("old", Some("few")), good[0].clone()], &[])));
    assert_eq!(rollout.check(&canary, "new"), waits("b"));
    let state = rollout.state(Some((&canary, "new")), "old").unwrap();
    assert_eq!((state.stage, state.said), (CanaryStage::Waits, Vec::new()));
    assert!(rollout.hear(of(good, &[bad])));
    assert_eq!(
        rollout.check(&canary, "new"),
        Err(Halt::Worse("was worse on the canary b: many".to_owned()))
    );
    assert!(rollout.hear(of(good, good)));
    assert!(!rollout.hear(of(good, good)));
    assert_eq!(rollout.check(&canary, "new"), Ok(()));
}

#[test]
fn only_the_last_verdicts_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = Rollout::new("a".to_owned(), folder.path());
    let canary = canary("\"a\"");
    for generation in 1..=20 {
        let hash = format!("{generation}");
        rollout.follow(
            generation,
            (Some(&canary), &hash),
            None,
            Tally::default(),
            now,
        );
        rollout.judge(&canary, Tally::default(), now + MINUTE);
    }
    let said = rollout.state(Some((&canary, "20")), "20").unwrap().said;
    let hashes: Vec<&str> = said.iter().map(|said| said.hash.as_str()).collect();
    assert_eq!(hashes, ["13", "14", "15", "16", "17", "18", "19", "20"]);
}

#[test]
fn a_verdict_that_says_nothing_of_the_policy_is_not_read_as_good() {
    let read = |text: &str| serde_json::from_str::<Vec<Verdict>>(text).ok();
    assert_eq!(
        read(r#"[{"hash":"a","worse":null}]"#),
        Some(vec![verdict("a", None)])
    );
    for text in [
        r#"[{"hash":"a"}]"#,
        r#"[{"hash":"a","wrose":"many","worse":null}]"#,
        r#"{"hash":"a","worse":null}"#,
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
