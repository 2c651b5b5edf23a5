//! Tests of trials that agents' ends cut short, at any point between two files.

use super::tests::*;
use super::*;

fn canary_json(rollout: &Rollout) -> Memory {
    Memory::read(&rollout.path).unwrap()
}

#[test]
fn an_interrupted_trial_begins_again_and_compares_with_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let first = trying(folder.path(), now);
    let canary = canary("\"a\"");
    let later = now + MINUTE / 2;
    let new = (Some(&canary), "new");
    let mut next = first.next(new, &tally(150_000, 1_500), later);
    assert!(!next.is_due(now + MINUTE));
    next.judge(&canary, tally(151_000, 2_500), later + MINUTE, None);
    assert_eq!(next.goes_back_to(), Some(kept("old")));
}

#[test]
fn packets_counted_by_earlier_agents_count() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let (canary, new) = (canary("\"a\""), hash("new"));
    let old = (None, "old");
    let mut rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
    rollout.hear_policy(old, None, &Tally::default(), now);
    rollout.begin(None, Tally::default(), now);
    let waits = |rollout: &Rollout| rollout.check(&canary, &new, Some(&hash("old"))).is_err();
    let mut at = now;
    // Agents that end in order, and some that are killed: these lose less than half of their time.
    for life in 1..=4 {
        assert!(waits(&rollout), "{life}");
        for _ in 0..2 {
            at += Duration::from_secs(10);
            rollout.count(Some(&tally(990 * life, 10 * life)), at);
        }
        if life % 2 == 0 {
            rollout.store();
        }
        rollout = rollout.next(old, &tally(990 * life + 99, 10 * life + 1), at);
    }
    assert!(!waits(&rollout));
    let counters = tally(4_059, 41);
    let (tried, former) = ((Some(&canary), "new"), Some("old"));
    rollout.hear_policy(tried, former, &counters, at);
    assert_eq!(rollout.trial().unwrap().before, counters);
}

#[test]
fn without_enough_counted_a_canary_waits_until_it_has_counted_for_as_long_as_a_trial() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
    let (canary, new, old) = (canary("\"a\""), hash("new"), hash("old"));
    rollout.hear_policy((None, "old"), None, &Tally::default(), now);
    let check = |rollout: &Rollout| rollout.check(&canary, &new, Some(&old));
    let waits = Err(Halt::Waits(
        "this host counts packets under the policy in force for 1 min before it tries the new one"
            .to_owned(),
    ));
    // Ports do not have the policy: nothing is counted.
    rollout.count(Some(&tally(1, 1)), now + 2 * MINUTE);
    assert_eq!(check(&rollout), waits);
    rollout.begin(None, tally(5, 5), now + 2 * MINUTE);
    rollout.count(Some(&tally(15, 5)), now + 2 * MINUTE + MINUTE / 2);
    assert_eq!(check(&rollout), waits);
    rollout.count(Some(&tally(25, 5)), now + 3 * MINUTE);
    assert_eq!(check(&rollout), Ok(()));
    let counted = &rollout.memory.base.as_ref().unwrap().counted;
    assert_eq!(*counted, tally(20, 0));
}

#[test]
fn a_trial_is_stored_before_its_policy_and_removed_after_the_policy_that_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = before_trial(folder.path(), now);
    let canary = canary("\"a\"");
    let path = rollout.path.clone();
    let mut follow = |text: &str, is_canary, former: &str| {
        let mut on_disk = None;
        let next = Next {
            hash: &hash(text),
            is_canary,
            former: Some(kept(former)),
            is_kept: false,
        };
        let canary = is_canary.then_some(&canary);
        let mut keep = || {
            on_disk = Memory::read(&path).unwrap().trial;
            true
        };
        rollout.follow(canary, next, None, now, &mut keep).unwrap();
        (on_disk, canary_json(&rollout).trial)
    };
    let (before, after) = follow("new", true, "old");
    assert_eq!(before.as_ref().unwrap().hash, hash("new"));
    assert_eq!(before, after);
    let (before, after) = follow("newest", false, "new");
    assert_eq!(before.unwrap().hash, hash("new"));
    assert_eq!(after, None);
}

#[test]
fn an_agent_that_ends_before_the_policy_on_trial_is_stored_has_tried_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let canary = canary("\"a\"");
    let cut = trying(folder.path(), now);
    let mut next = cut.next((None, "old"), &tally(0, 0), now);
    assert_eq!(next.memory.said, []);
    assert_eq!(
        next.check(&canary, &hash("new"), Some(&hash("old"))),
        Ok(())
    );
    let counters = tally(99_500, 1_500);
    next.hear_policy((Some(&canary), "new"), Some("old"), &counters, now);
    assert_eq!(next.trial().unwrap().former, Some(kept("old")));
    let before = &next.trial().unwrap().before;
    assert_eq!(*before, {
        let mut all = tally(99_000, 1_000);
        all.add(&counters);
        all
    });
}

#[test]
fn a_policy_whose_trial_cannot_be_stored_does_not_come_into_force() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = before_trial(folder.path(), now);
    let canary = canary("\"a\"");
    std::fs::create_dir(folder.path().join("canary.json.new")).unwrap();
    let next = |hash, is_canary| Next {
        hash,
        is_canary,
        former: Some(kept("old")),
        is_kept: false,
    };
    let (new, newer) = (hash("new"), hash("newer"));
    let mut is_kept = false;
    let tried = rollout.follow(Some(&canary), next(&new, true), None, now, &mut || {
        is_kept = true;
        true
    });
    assert!(tried.is_err() && !is_kept);
    // One that is not tried does.
    let followed = rollout.follow(None, next(&newer, false), None, now, &mut || {
        is_kept = true;
        true
    });
    assert!(followed.is_ok() && is_kept);
}

#[test]
fn an_agent_that_ends_before_it_has_gone_back_leaves_that_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let canary = canary("\"a\"");
    let mut rollout = trying(folder.path(), now);
    rollout.judge(&canary, tally(100_000, 9_999), now + MINUTE, None);
    let (new, counters) = ((Some(&canary), "new"), tally(100_000, 9_999));
    let next = rollout.next(new, &counters, now);
    assert_eq!(next.goes_back_to(), Some(kept("old")));
    assert_eq!(next.wait(now), Duration::MAX);
    // The former policy is stored, the verdict's last part is not.
    let next = next.next((None, "old"), &counters, now);
    assert_eq!((next.goes_back_to(), next.trial()), (None, None));
    assert!(next.memory.said[0].worse.is_some());
}

#[test]
fn a_policy_found_in_force_whose_trial_is_lost_is_not_good() {
    let now = Instant::now();
    let canary = canary("\"a\"");
    for text in [None, Some("{"), Some(r#"{"said":[],"trial":null}"#)] {
        let folder = tempfile::tempdir().unwrap();
        let rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
        if let Some(text) = text {
            std::fs::write(&rollout.path, text).unwrap();
        }
        let next = rollout.next((Some(&canary), "new"), &Tally::default(), now);
        assert!(next.memory.said[0].worse.is_some(), "{text:?}");
        assert_eq!((next.goes_back_to(), next.trial()), (None, None));
    }
}

#[test]
fn an_agent_does_not_start_while_the_file_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("canary.json")).unwrap();
    let error = Rollout::new("a".to_owned(), folder.path()).unwrap_err();
    assert!(error.to_string().contains("canary.json"), "{error}");
}

#[test]
fn a_policy_is_compared_with_the_one_before_also_if_that_cannot_be_read_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let canary = canary("\"a\"");
    drop(before_trial(folder.path(), now));
    let mut next = Rollout::new("a".to_owned(), folder.path()).unwrap();
    let counters = tally(99_500, 1_500);
    next.hear_policy((Some(&canary), "new"), None, &counters, now);
    next.begin(Some(&canary), counters, now);
    next.judge(&canary, tally(100_000, 9_999), now + MINUTE, None);
    assert!(next.memory.said[0].worse.is_some());
    assert_eq!(next.goes_back_to(), None);
}

#[test]
fn a_trial_stays_stored_until_the_policy_that_ends_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = trying(folder.path(), now);
    let next = Next {
        hash: &hash("newest"),
        is_canary: false,
        former: Some(kept("new")),
        is_kept: false,
    };
    rollout
        .follow(None, next, None, now, &mut || false)
        .unwrap();
    rollout.begin(None, tally(1, 1), now);
    let stored = |rollout: &Rollout| canary_json(rollout).trial.map(|trial| trial.hash);
    assert_eq!(stored(&rollout), Some(hash("new")));
    rollout.take_stored();
    rollout.count(None, now);
    assert_eq!(stored(&rollout), None);
}
