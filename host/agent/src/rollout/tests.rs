use uc_policy::Policy;

use super::*;

pub const MINUTE: Duration = Duration::from_secs(60);

/// Returns the canary table of a policy, and its checksum.
pub fn canary(hosts: &str) -> Canary {
    let text = format!(
        "[[tenant]]\nname = \"t\"\nports = \"v*\"\n[canary]\nhosts = [{hosts}]\nminutes = 1\nworse = {{ no_handshake = 2, table_full = 1 }}\n"
    );
    Policy::parse_fleet("t.toml", &text)
        .unwrap()
        .canary
        .unwrap()
}

pub fn tally(translated: u64, no_handshake: u64) -> Tally {
    let counts = [("translated", translated), ("no_handshake", no_handshake)];
    counts
        .map(|(reason, count)| (reason.to_owned(), count))
        .into_iter()
        .collect()
}

pub fn kept(text: &str) -> Kept {
    Kept {
        key: "/policy".to_owned(),
        revision: 1,
        text: text.to_owned(),
    }
}

pub fn hash(text: &str) -> String {
    kept(text).hash()
}

impl Rollout {
    /// Follows a policy that has just come from etcd.
    pub fn hear_policy(
        &mut self,
        (canary, text): (Option<&Canary>, &str),
        former: Option<&str>,
        counters: &Tally,
        now: Instant,
    ) {
        let next = Next {
            hash: &hash(text),
            is_canary: canary.is_some_and(|canary| self.is_canary(canary)),
            former: former.map(kept),
            is_kept: false,
        };
        self.follow(canary, next, Some(counters), now, &mut || true)
            .unwrap();
    }

    /// Starts the next agent, which finds a policy stored, and whose ports have it.
    pub fn next(
        &self,
        (canary, text): (Option<&Canary>, &str),
        counters: &Tally,
        now: Instant,
    ) -> Self {
        let mut next = Self::new(self.host.clone(), self.path.parent().unwrap()).unwrap();
        let policy = Next {
            hash: &hash(text),
            is_canary: canary.is_some_and(|canary| next.is_canary(canary)),
            former: None,
            is_kept: true,
        };
        next.follow(canary, policy, Some(counters), now, &mut || true)
            .unwrap();
        next.begin(canary, counters.clone(), now);
        next
    }

    pub fn trial(&self) -> Option<&memory::Trial> {
        self.memory.trial.as_ref()
    }
}

/// Returns host `a`, which has followed policy `old` without canaries for a minute and 100,000 packets,
/// 1,000 of them without a handshake.
pub fn before_trial(folder: &Path, now: Instant) -> Rollout {
    let mut rollout = Rollout::new("a".to_owned(), folder).unwrap();
    let start = tally(500, 500);
    rollout.hear_policy((None, "old"), None, &start, now - MINUTE);
    rollout.begin(None, start, now - MINUTE);
    rollout.count(Some(&tally(99_500, 1_500)), now);
    rollout
}

/// Returns that host when its ports have policy `new`, which it tries.
pub fn trying(folder: &Path, now: Instant) -> Rollout {
    let mut rollout = before_trial(folder, now);
    let canary = canary("\"a\"");
    let counters = tally(99_500, 1_500);
    assert_eq!(
        rollout.check(&canary, &hash("new"), Some(&hash("old"))),
        Ok(())
    );
    rollout.hear_policy((Some(&canary), "new"), Some("old"), &counters, now);
    rollout.begin(Some(&canary), counters, now);
    rollout
}

pub fn verdict(text: &str, worse: Option<&str>) -> Verdict {
    Verdict {
        hash: hash(text),
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
    let (canary, hash) = (canary("\"a\""), hash("new"));
    let newest = Some((&canary, hash.as_str()));
    let state = |rollout: &Rollout| rollout.state(newest, Some(&hash)).unwrap();
    assert_eq!(state(&rollout).stage, CanaryStage::Tries);
    let counters = tally(198_500, 2_500);
    rollout.judge(&canary, counters.clone(), now + MINUTE, None);
    assert_eq!(state(&rollout).stage, CanaryStage::InForce);
    assert_eq!(state(&rollout).said, [verdict("new", None)]);
    // the next agent follows it without a trial
    let next = rollout.next((Some(&canary), "new"), &counters, now);
    assert_eq!(state(&next), state(&rollout));
    // and what the trial counted is what the next trial compares with
    assert_eq!(next.check(&canary, "newer", Some(&hash)), Ok(()));
}

#[test]
fn a_canary_goes_back_from_a_worse_policy_and_tries_it_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = trying(folder.path(), now);
    let canary = canary("\"a\"");
    let counters = tally(190_000, 11_500);
    rollout.judge(&canary, counters.clone(), now + MINUTE, None);
    assert_eq!(rollout.goes_back_to(), Some(kept("old")));
    rollout.hear_policy((None, "old"), Some("new"), &counters, now);
    rollout.begin(None, counters.clone(), now);
    let next = rollout.next((None, "old"), &counters, now);
    let (new, old) = (hash("new"), hash("old"));
    for rollout in [rollout, next] {
        assert_eq!(rollout.goes_back_to(), None);
        let why = rollout.memory.said_of(&new).unwrap().worse.clone().unwrap();
        let refused = rollout.check(&canary, &new, Some(&old)).unwrap_err();
        assert_eq!(
            refused,
            Halt::Worse(format!(
                "this host, a canary, tried the policy and it was worse: {why}"
            ))
        );
        let state = rollout.state(Some((&canary, &new)), Some(&old)).unwrap();
        assert_eq!(state.stage, CanaryStage::Worse);
        assert_eq!(state.said, [verdict("new", Some(&why))]);
        // What was counted before the trial still counts: the corrected policy is tried at once.
        let base = rollout.memory.base.as_ref().unwrap();
        assert_eq!(base.counted, tally(99_000, 1_000));
        assert_eq!(rollout.check(&canary, &hash("newer"), Some(&old)), Ok(()));
    }
}

#[test]
fn a_newer_policy_replaces_the_one_on_trial_and_is_compared_with_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = trying(folder.path(), now);
    let canary = canary("\"a\"");
    let later = now + MINUTE / 2;
    let counters = tally(160_000, 1_600);
    assert_eq!(
        rollout.check(&canary, &hash("newer"), Some(&hash("new"))),
        Ok(())
    );
    rollout.hear_policy((Some(&canary), "newer"), Some("new"), &counters, later);
    rollout.begin(Some(&canary), counters, later);
    // The programs were loaded again: their counters begin at 0.
    rollout.judge(&canary, tally(5, 5), later + MINUTE, None);
    assert!(!rollout.is_due(later + MINUTE + MINUTE / 2));
    rollout.judge(&canary, tally(5_005, 5_005), later + 2 * MINUTE, None);
    assert_eq!(rollout.goes_back_to(), Some(kept("old")));
}

#[test]
fn a_canary_without_a_policy_before_has_nothing_to_go_back_to() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
    let canary = canary("\"a\"");
    assert_eq!(rollout.check(&canary, &hash("new"), None), Ok(()));
    rollout.hear_policy((Some(&canary), "new"), None, &tally(100, 0), now);
    rollout.begin(Some(&canary), tally(100, 0), now);
    rollout.judge(&canary, tally(100, 9_999), now + MINUTE, None);
    assert_eq!(rollout.goes_back_to(), None);
    assert_eq!(rollout.memory.said, [verdict("new", None)]);
}

#[test]
fn time_of_a_trial_begins_when_ports_have_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = before_trial(folder.path(), now);
    let (canary, counters) = (canary("\"a\""), tally(99_500, 1_500));
    rollout.hear_policy((Some(&canary), "new"), Some("old"), &counters, now);
    assert!(rollout.awaits_ports());
    let later = now + MINUTE / 2;
    rollout.begin(Some(&canary), counters, later);
    assert!(!rollout.awaits_ports() && !rollout.is_due(now + MINUTE));
    assert!(rollout.is_due(later + MINUTE));
}

#[test]
fn a_policy_that_ports_never_get_is_worse() {
    let now = Instant::now();
    let canary = canary("\"a\"");
    for former in [Some("old"), None] {
        let folder = tempfile::tempdir().unwrap();
        let mut rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
        let nothing = Tally::default();
        rollout.hear_policy((Some(&canary), "new"), former, &nothing, now);
        assert!(!rollout.is_due(now + MINUTE / 2) && rollout.is_due(now + MINUTE));
        rollout.judge(&canary, nothing, now + MINUTE, Some("tap7: no room"));
        let why = "ports did not get the policy within 1 min: tap7: no room";
        assert_eq!(rollout.memory.said, [verdict("new", Some(why))]);
        assert_eq!(rollout.goes_back_to(), former.map(kept));
    }
}

#[test]
fn other_hosts_wait_until_all_canaries_say_that_a_policy_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::new("c".to_owned(), folder.path()).unwrap();
    let canary = canary("\"a\", \"b\"");
    let waits = |who: &str| {
        Err(Halt::Waits(format!(
            "{who} must try the new policy first, as canaries"
        )))
    };
    let of = |a: &[Verdict], b: &[Verdict]| {
        BTreeMap::from([("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())])
    };
    let good = &[verdict("new", None)];
    let bad = verdict("new", Some("many"));
    assert_eq!(rollout.check(&canary, &hash("new"), None), waits("a, b"));
    assert!(rollout.hear(of(&[verdict("old", None)], &[])));
    assert_eq!(rollout.check(&canary, &hash("new"), None), waits("a, b"));
    assert!(rollout.hear(of(&[verdict("old", Some("few")), good[0].clone()], &[])));
    assert_eq!(rollout.check(&canary, &hash("new"), None), waits("b"));
    let state = rollout.state(Some((&canary, &hash("new"))), None).unwrap();
    assert_eq!((state.stage, state.said), (CanaryStage::Waits, Vec::new()));
    assert!(rollout.hear(of(good, &[bad])));
    assert_eq!(
        rollout.check(&canary, &hash("new"), None),
        Err(Halt::Worse(
            "the canary b tried the policy and it was worse: many".to_owned()
        ))
    );
    assert!(rollout.hear(of(good, good)));
    assert!(!rollout.hear(of(good, good)));
    assert_eq!(rollout.check(&canary, &hash("new"), None), Ok(()));
}

#[test]
fn only_the_last_verdicts_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let now = Instant::now();
    let mut rollout = Rollout::new("a".to_owned(), folder.path()).unwrap();
    let canary = canary("\"a\"");
    let policy = |number: u32| (Some(&canary), number.to_string());
    for number in 1..=20 {
        let (canary, text) = policy(number);
        let nothing = Tally::default();
        rollout.hear_policy((canary, &text), None, &nothing, now);
        rollout.begin(canary, nothing.clone(), now);
        rollout.judge(canary.unwrap(), nothing, now + MINUTE, None);
    }
    let last: Vec<Verdict> = (13..=20)
        .map(|number: u32| verdict(&number.to_string(), None))
        .collect();
    assert_eq!(rollout.memory.said, last);
    // That of the policy in force stays, whatever is tried without success.
    for number in 21..=40 {
        let base = Some(Base::new(&hash("20")));
        rollout.memory.base = base;
        rollout
            .memory
            .say(&hash(&number.to_string()), Some("many".to_owned()));
    }
    assert_eq!(rollout.memory.said.len(), 8);
    assert_eq!(rollout.memory.said[0], verdict("20", None));
}

#[test]
fn a_verdict_that_says_nothing_of_the_policy_is_not_read_as_good() {
    let read = |text: &str| serde_json::from_str::<Vec<Verdict>>(text).ok();
    assert_eq!(
        read(r#"[{"hash":"a","worse":null}]"#),
        Some(vec![Verdict {
            hash: "a".to_owned(),
            worse: None
        }])
    );
    for text in [
        r#"[{"hash":"a"}]"#,
        r#"[{"hash":"a","wrose":"many","worse":null}]"#,
        r#"{"hash":"a","worse":null}"#,
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
