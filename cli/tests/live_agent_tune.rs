//! The agent keeps the control groups tuned that its policy names, and leaves others as they are.

use serde_json::Value;
use uc_client::AgentState;

use crate::common::agent::{Installation, pair};
use crate::common::live_with;
use crate::common::tuned::{Group, assert_tuned, assert_untuned, can_be_tuned, namespace};
use crate::common::uc::{outcome, success};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];

/// The settings that the checks of connections expect.
const SETTINGS: &str = "congestion_control = \"cubic\", initial_window = 40, rto_min = \"40ms\"";

/// Returns a policy in which these settings are those of the groups `uc-policy*`; without settings, of none.
fn policy(settings: &str) -> String {
    let cgroups = format!("uc-policy*-{}", std::process::id());
    let tune = match settings {
        "" => String::new(),
        settings => format!("tune = {{ cgroups = \"{cgroups}\", {settings} }}\n"),
    };
    format!("[[tenant]]\nname = \"acme\"\nports = \"v1\"\n{tune}\n[[rule]]\nlaw = \"ecn\"\n")
}

fn count(state: &AgentState) -> usize {
    let tune = state.tune.as_ref().filter(|_| state.is_in_force());
    tune.map_or(0, |tune| tune.groups.len())
}

/// Returns what `uc tune --status` says of each group.
fn rows(here: &Installation) -> Vec<Value> {
    let asked = outcome(here.uc(&["tune", "--status", "--json"]));
    let status: Value = serde_json::from_str(&asked.stdout).unwrap();
    status["tuned"].as_array().unwrap().clone()
}

#[test]
fn live_policy_tunes_the_control_groups_that_it_names_and_no_others() {
    if !live_with(&TOOLS) || !can_be_tuned() {
        return;
    }
    let Some(group) = Group::make("policy") else {
        return;
    };
    let by_hand = Group::make("by-hand").unwrap();
    let namespace = namespace();
    let here = Installation::new(&namespace, &policy(SETTINGS), "");
    pair(&namespace, "v1");
    success(here.uc(&["tune", by_hand.path(), "--initial-window", "20"]));
    let agent = here.start(&[]);
    let state = here.wait("the group is tuned", |state| count(state) == 1);
    let tuned = &state.tune.unwrap().groups[0];
    assert_eq!(
        (tuned.cgroup.as_str(), tuned.tenant.as_str()),
        (group.path(), "acme")
    );
    assert_tuned(&namespace, &group);

    // A container that starts later.
    let late = Group::make("policy-late").unwrap();
    let other = Group::make("other").unwrap();
    here.wait("both are tuned", |state| count(state) == 2);
    assert_tuned(&namespace, &late);
    assert_untuned(&namespace, &other, "a group that the policy does not name");
    // Three connections of each group, of both ends.
    let all = |state: &AgentState| {
        let groups = state.tune.iter().flat_map(|tune| &tune.groups);
        groups.map(|group| group.connections).sum::<u64>()
    };
    here.wait("all are counted", |state| all(state) == 12);
    let told = success(here.uc(&["status"]));
    assert!(
        told.contains("tune    2 control groups, 12 connections"),
        "{told}"
    );

    // What is tuned outlives the agent, and the next one takes it over.
    agent.kill();
    let before = rows(&here);
    let agent = here.start(&[]);
    here.wait("both are tuned still", |state| count(state) == 2);
    assert_eq!(rows(&here), before);

    // Other settings, which this kernel has not.
    here.write_policy(&policy("congestion_control = \"nosuch\""));
    let refused = |state: &AgentState| {
        let tune = state.tune.as_ref();
        tune.is_some_and(|tune| tune.refused.len() == 2 && tune.groups.is_empty())
    };
    here.wait("both are refused", |state| {
        refused(state) && !state.is_in_force()
    });
    let told = outcome(here.uc(&["status"]));
    let amiss = format!(
        "amiss: tuning {}: this kernel has no congestion control 'nosuch'",
        group.path()
    );
    assert!(told.stdout.contains(&amiss), "{told:?}");

    // A group that is gone is not missed.
    here.write_policy(&policy(SETTINGS));
    here.wait("both are tuned again", |state| count(state) == 2);
    drop(late);
    here.wait("one is left", |state| count(state) == 1);

    here.write_policy(&policy(""));
    here.wait("none is tuned", |state| {
        state.tune.is_none() && state.is_in_force()
    });
    assert_untuned(&namespace, &group, "after the policy");
    let rows = rows(&here);
    assert_eq!(
        (rows.len(), &rows[0]["cgroup"]),
        (1, &by_hand.path().into()),
        "{rows:?}"
    );
    assert_eq!(rows[0]["by_policy"], false);
    success(here.uc(&["tune", by_hand.path(), "--remove"]));

    // Nothing stays where an operator takes all off.
    here.write_policy(&policy(SETTINGS));
    here.wait("it is tuned once more", |state| count(state) == 1);
    success(here.uc(&["detach", "--all", "--now"]));
    here.wait("nothing is left", |state| state.tune.is_none());
    assert_eq!(outcome(here.uc(&["tune", "--status"])).status, Some(1));
    agent.end();
}
