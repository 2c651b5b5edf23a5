use super::*;
use crate::stored_policy::hash_of;

const GOOD: &str = "[[tenant]]\nname = \"acme\"\nports = [\"v*\"]\n";
const BAD: &str = "[[tenant]]\nnmae = \"acme\"\n";

/// Writes a host's own file that names etcd, and returns its path.
fn config_of_fleet(folder: &tempfile::TempDir) -> PathBuf {
    let config = folder.path().join("undercurrent.toml");
    let own = format!(
        "[agent]\nstate = {:?}\n[agent.etcd]\nendpoints = [\"http://127.0.0.1:9\"]\n",
        folder.path()
    );
    std::fs::write(&config, own).unwrap();
    config
}

fn follows(_: (&Valid, Option<Kept>, bool), keep: &mut dyn FnMut() -> bool) -> Result<(), String> {
    assert!(keep());
    Ok(())
}

#[test]
fn reading_the_file_leaves_etcds_result_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_of_fleet(&folder);
    let own = std::fs::read_to_string(&config).unwrap();
    let write = |text: &str| std::fs::write(&config, text).unwrap();
    let mut source = Source::open(config.clone()).unwrap();
    let reader = Reader {
        notify: &Notify::default(),
        judge: &|_, _| Ok(()),
        turn: &|_, _| Ok(()),
        follow: &follows,
    };
    let mut state = AgentState::default();
    source.begin(&mut state, &reader);
    let accepted = |state: &AgentState| state.reads().map(|read| read.accepted).collect();
    let said: Vec<bool> = accepted(&state);
    assert_eq!(said, [true, false], "of etcd's nothing is known yet");

    let put = |revision, text: &str| Heard::Policy {
        text: text.to_owned(),
        revision,
    };
    for (news, expected) in [(GOOD, true), (BAD, false)] {
        source.hear(put(1, news), &mut state, &reader);
        source.read_file(true, &mut state, &reader);
        let said: Vec<bool> = accepted(&state);
        assert_eq!(said, [true, expected]);
    }
    write("[agent]\nsokcet = \"\"\n");
    source.read_file(false, &mut state, &reader);
    source.hear(put(2, GOOD), &mut state, &reader);
    let said: Vec<bool> = accepted(&state);
    assert_eq!(said, [false, true], "the file is refused still");
    write(&own);
    source.read_file(false, &mut state, &reader);
    let said: Vec<bool> = accepted(&state);
    assert_eq!(said, [true, true]);
}

#[test]
fn a_policy_that_must_be_confirmed_is_in_force_after_that_only() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("undercurrent.toml");
    let write = |text: &str| std::fs::write(&config, text).unwrap();
    write(GOOD);
    let mut source = Source::open(config.clone()).unwrap();
    let mut state = AgentState::default();
    let notify = Notify::default();
    let lenient = Reader {
        notify: &notify,
        judge: &|_, _| Ok(()),
        turn: &|_, _| Ok(()),
        follow: &follows,
    };
    source.begin(&mut state, &lenient);
    let new = GOOD.replace("v*", "w*");
    write(&new);
    let strict = Reader {
        notify: &notify,
        judge: &|_, text| match text.contains("w*") {
            true => Err("would detach 4 of 4 ports".to_owned()),
            false => Ok(()),
        },
        turn: &|_, _| Ok(()),
        follow: &follows,
    };
    for _ in 0..2 {
        assert!(!source.read_file(false, &mut state, &strict));
        let told = format!(
            "would detach 4 of 4 ports; if that is meant, run `uc confirm {}`",
            hash_of(&new)
        );
        assert_eq!(state.reload.errors, [told]);
    }
    assert_eq!(state.policy.hash, hash_of(GOOD));
    assert!(source.confirm("0", &mut state, &strict).is_err());
    source.confirm(&hash_of(&new), &mut state, &strict).unwrap();
    assert_eq!(
        (state.policy.hash, state.reload.accepted),
        (hash_of(&new), true)
    );
    assert_eq!(source.policy().unwrap().tenants[0].ports[0].as_str(), "w*");
    let mut again = AgentState::default();
    let confirmed = source.confirm(&hash_of(&new), &mut again, &strict);
    assert!(confirmed.is_err(), "once");
    // One that replaces it makes it void.
    write(GOOD);
    source.read_file(false, &mut again, &strict);
    write(&new);
    source.read_file(false, &mut again, &strict);
    write(GOOD);
    source.read_file(true, &mut again, &strict);
    let confirmed = source.confirm(&hash_of(&new), &mut again, &strict);
    assert!(confirmed.is_err());
}

#[test]
fn a_policy_of_etcd_that_waits_is_judged_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = Source::open(config_of_fleet(&folder)).unwrap();
    let mut state = AgentState::default();
    let notify = Notify::default();
    let reader = |judge| Reader {
        notify: &notify,
        judge,
        turn: &|_, _| Ok(()),
        follow: &follows,
    };
    let refuses = reader(&|_, _| Err("could not list the ports".to_owned()));
    source.begin(&mut state, &refuses);
    let text = GOOD.to_owned();
    assert!(!source.hear(Heard::Policy { text, revision: 3 }, &mut state, &refuses));
    assert!(!source.judge_again(&mut state, &refuses));
    assert!(source.policy().is_none());
    let accepts = reader(&|_, _| Ok(()));
    assert!(source.judge_again(&mut state, &accepts));
    assert_eq!(state.policy.hash, hash_of(GOOD));
    assert!(!source.judge_again(&mut state, &accepts), "once");
}

#[test]
fn a_policy_of_etcd_waits_for_its_turn_and_a_host_goes_back_from_a_worse_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = Source::open(config_of_fleet(&folder)).unwrap();
    let mut state = AgentState::default();
    let notify = Notify::default();
    let reader = |turn| Reader {
        notify: &notify,
        judge: &|_, _| Ok(()),
        turn,
        follow: &follows,
    };
    let lets = reader(&|_, _| Ok(()));
    let waits = reader(&|_, _| Err(Halt::Waits("waits for a".to_owned())));
    let worse = reader(&|_, _| Err(Halt::Worse("was worse".to_owned())));
    let new = GOOD.replace("v*", "w*");
    let [old_hash, new_hash] = [GOOD, &new].map(hash_of);
    let put = |text: &str, revision| Heard::Policy {
        text: text.to_owned(),
        revision,
    };
    assert!(source.hear(put(GOOD, 3), &mut state, &lets));
    assert!(!source.hear(put(&new, 4), &mut state, &waits));
    assert_eq!(state.policy.hash, old_hash);
    assert!(state.reads().all(|read| read.errors.is_empty()));
    assert_eq!(source.newest().unwrap().hash, new_hash);
    assert!(state.etcd.as_ref().unwrap().reload.accepted);
    // A fault in the host's own file has nothing to do with it.
    let config = folder.path().join("undercurrent.toml");
    let own = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, "[agent]\nsokcet = \"\"\n").unwrap();
    source.read_file(true, &mut state, &waits);
    std::fs::write(&config, own).unwrap();
    source.read_file(true, &mut state, &waits);
    assert_eq!(source.newest().unwrap().hash, new_hash);
    // Removing the key takes it back.
    source.hear(Heard::Missing { revision: 5 }, &mut state, &waits);
    assert!(!source.judge_again(&mut state, &lets));
    assert!(!source.hear(put(&new, 4), &mut state, &waits));
    assert!(source.judge_again(&mut state, &lets));
    assert_eq!(state.policy.hash, new_hash);

    let former = Kept {
        key: "/undercurrent/policy".to_owned(),
        revision: 3,
        text: GOOD.to_owned(),
    };
    assert!(source.go_back(former, &mut state, &lets));
    assert!(!source.judge_again(&mut state, &worse));
    assert_eq!(
        (&state.policy.hash, state.policy.revision),
        (&old_hash, Some(3))
    );
    let told = format!("was worse; if that is meant, run `uc confirm {new_hash}`");
    assert_eq!(state.etcd.clone().unwrap().reload.errors, [told]);
    let (kept, _) = Kept::read(&folder.path().join("policy.json"), "/undercurrent/policy");
    assert_eq!(kept.unwrap().text, GOOD, "a restart must not try it again");
    source.confirm(&new_hash, &mut state, &worse).unwrap();
    assert_eq!(
        (state.policy.hash, state.policy.revision),
        (new_hash, Some(4))
    );
}

#[test]
fn a_policy_is_told_with_the_one_before_it_and_stored_when_that_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = Source::open(config_of_fleet(&folder)).unwrap();
    let mut state = AgentState::default();
    let notify = Notify::default();
    let path = folder.path().join("policy.json");
    let stored = || {
        Kept::read(&path, "/undercurrent/policy")
            .0
            .map(|kept| kept.text)
    };
    let followed = std::cell::RefCell::new(Vec::new());
    let new = GOOD.replace("v*", "w*");
    let reader = Reader {
        notify: &notify,
        judge: &|_, _| Ok(()),
        turn: &|_, _| Ok(()),
        follow: &|(valid, former, is_kept), keep| {
            let before = stored();
            assert_eq!(before, former.map(|kept| kept.text));
            if valid.text.contains("x*") {
                return Err("could not be stored".to_owned());
            }
            assert!(keep());
            assert_eq!(stored(), Some(valid.text.clone()));
            followed.borrow_mut().push((valid.hash.clone(), is_kept));
            Ok(())
        },
    };
    let put = |text: &str| Heard::Policy {
        text: text.to_owned(),
        revision: 3,
    };
    assert!(source.hear(put(GOOD), &mut state, &reader));
    assert!(source.hear(put(&new), &mut state, &reader));
    let expected = [GOOD, &new].map(|text| (hash_of(text), false));
    assert_eq!(*followed.borrow(), expected);
    // What cannot be followed does not come into force, and is tried again.
    assert!(!source.hear(put(&GOOD.replace("v*", "x*")), &mut state, &reader));
    assert_eq!(stored(), Some(new.clone()));
    assert_eq!(source.hash(), Some(hash_of(&new).as_str()));
    let errors = state.etcd.clone().unwrap().reload.errors;
    assert_eq!(errors, ["could not be stored"]);
    let follows = Reader {
        follow: &follows,
        ..reader
    };
    assert!(source.judge_again(&mut state, &follows));
}
