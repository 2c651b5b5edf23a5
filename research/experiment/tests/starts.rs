//! `start_law` and `watch`: read, written, and refused where invalid.

use crate::common::GOOD;
use uc_experiment::{Bytes, Experiment, Nanos, StartLaw, Value};

fn with(group: &str) -> Result<Experiment, uc_experiment::Error> {
    let text = GOOD.replacen("count = 9", &format!("count = 9\n{group}"), 1);
    // The file allows both backends, and this key only one.
    let text = text.replacen("name = ", "arms = [\"sim\"]\nname = ", 1);
    let experiment = Experiment::from_str("t.toml", &text)?;
    experiment.validate()?;
    Ok(experiment)
}

#[test]
fn a_start_law_combines_with_any_law_and_its_parameters_are_read() {
    let text = "start_law = \"watch\"\nwatch = { probes = 4, span = \"20us\", burst = \"9kB\" }";
    let experiment = with(text).unwrap_or_else(|error| panic!("{error}"));
    let group = &experiment.cases[0].guests[0];
    assert_eq!(group.start_law, Some(StartLaw::Watch));
    let watch = &group.watch;
    assert_eq!(watch.get("probes"), Some(Value::Number(4)));
    assert_eq!(watch.get("span"), Some(Value::Time(Nanos(20_000))));
    assert_eq!(watch.get("burst"), Some(Value::Size(Bytes(9_000))));
    assert_eq!(watch.get("fresh"), None);
    let written = toml::to_string(&experiment).expect("can be written");
    let again = Experiment::from_str("again", &written).expect("can be read");
    assert_eq!(again.cases, experiment.cases);
}

#[test]
fn a_key_of_the_start_can_be_set_where_the_file_has_none() {
    let mut experiment = with("start_law = \"watch\"").expect("makes sense");
    let case = experiment.cases[0].name.clone();
    let group = experiment.cases[0].guests[0].name.clone();
    let set = format!("case.{case}.guests.{group}.watch.wait=0s");
    experiment
        .apply_set(&set)
        .unwrap_or_else(|error| panic!("{error}"));
    let watch = &experiment.cases[0].guests[0].watch;
    assert_eq!(watch.get("wait"), Some(Value::Time(Nanos(0))));
}

#[test]
fn invalid_starts_are_refused_by_the_wrong_key() {
    let watch = |what: &str| format!("start_law = \"watch\"\nwatch = {{ {what} }}");
    for (group, words) in [
        ("watch = { probes = 3 }".into(), "start_law"),
        (watch("probes = 33"), "is 33; give 0 to 32"),
        (watch("least = 1"), "2 to 16"),
        (watch("least = 17"), "2 to 16"),
        (watch("rounds = 0"), "is 0; give 1 to 255"),
        (watch("span = \"51ms\""), "more than 50ms"),
        (watch("span = \"10ns\""), "below 1us"),
        (watch("wait = \"801ms\""), "more than 800ms"),
        (watch("idle = \"3601s\""), "more than"),
        (watch("late = \"31ms\""), "more than"),
        (watch("marked_part = 1"), "is 1; give 2 to 255"),
        (watch("part = 0"), "is 0; give 1 to 255"),
        (watch("pace = \"10kbit\""), "below 100kbit"),
        ("start_law = \"hurry\"".into(), "watch"),
    ] {
        let error = with(&group).expect_err(&group).to_string();
        assert!(error.contains(words), "{group}: {error}");
    }
}

#[test]
fn groups_of_one_receiver_need_one_policy_and_a_sufficient_rate() {
    let second = |watch: &str| {
        format!(
            "stack = \"ecn\"\nstart_law = \"watch\"\nwatch = {{ probes = 4 }}\n\
             [[case.guests]]\nname = \"other\"\ncount = 1\nstack = \"ecn\"\nstart_law = \"watch\"\n{watch}\n[[case.guests]]\n\
             name = \"rest\"\ncount = 1"
        )
    };
    let error = with(&second("")).expect_err("two policies").to_string();
    assert!(error.contains("one host receives"), "{error}");
    with(&second("watch = { probes = 4 }")).unwrap_or_else(|error| panic!("{error}"));
    for (watch, is_good) in [("", false), ("watch = { pace = \"100kbit\" }", true)] {
        let group = format!("start_law = \"watch\"\n{watch}");
        let mut experiment = with(&group).expect("makes sense");
        experiment
            .apply_set("network.rate=64kbit")
            .unwrap_or_else(|error| panic!("{error}"));
        let checked = experiment.validate().map_err(|error| error.to_string());
        assert_eq!(checked.is_ok(), is_good, "{watch}: {checked:?}");
        let named = |error: String| error.contains("watch.pace");
        assert!(checked.err().is_none_or(named), "{watch}");
    }
}

#[test]
fn a_start_law_without_port_laws_is_refused_on_the_live_backend() {
    let text = GOOD.replacen("count = 9", "count = 9\nstart_law = \"watch\"", 1);
    let text = text.replacen("name = ", "arms = [\"live\"]\nname = ", 1);
    let experiment = Experiment::from_str("t.toml", &text).expect("reads");
    let error = experiment.validate().expect_err("for sim only").to_string();
    assert!(error.contains("start_law"), "{error}");
}
