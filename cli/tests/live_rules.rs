//! A rule has one number, wherever it is shown: in the file, for a flow, in the flow's history.

use serde_json::Value;

use crate::common::agent::Installation;
use crate::common::by_hand::{PORT, TOOLS, go_on, one_guest, start};
use crate::common::uc::{Outcome, outcome, success};
use crate::common::{RED1, live_with};

/// A policy whose second rule is for flows to other hosts' TCP ports.
fn policy(law: &str) -> String {
    format!(
        "[[tenant]]\nname = \"acme\"\nports = \"{PORT}\"\n\n[[rule]]\nremote_port = [1, 9]\n\
         law = \"pass\"\n\n[[rule]]\nlocal_port = \"1024-65535\"\nremote_port = \"10-65535\"\n\
         law = \"{law}\"\nprofile = \"rfc\"\n"
    )
}

fn object(told: &Outcome) -> Value {
    serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"))
}

#[test]
fn live_a_rule_has_one_number_and_its_line_is_shown_while_it_is_in_force() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let here = Installation::new(&lab.wiring.hosts, &policy("ecn"), "");
    let agent = here.start(&[]);
    here.wait_for(&[PORT]);
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 300);
    let source = transfer.source.to_string();
    let config = here.config();
    let config = config.to_str().unwrap();

    let checked = success(here.uc(&["check", config, "--port", PORT]));
    let line = checked
        .lines()
        .find(|line| line.starts_with("rule 2 (line "));
    let line = line.and_then(|line| line["rule 2 (line ".len()..].split(')').next());
    let line: usize = line.unwrap_or_else(|| panic!("{checked}")).parse().unwrap();
    let text = std::fs::read_to_string(config).unwrap();
    assert_eq!(text.lines().nth(line), Some("local_port = \"1024-65535\""));

    let flows = object(&outcome(here.uc(&["flows", "--json"])));
    assert_eq!(flows["flows"][0]["rule"], 2, "{flows}");
    let told = success(here.uc(&["explain", &source]));
    assert!(
        told.contains(&format!("rule 2 ({config}:{line}), of plan")),
        "{told}"
    );
    assert!(told.contains("profile rfc"), "{told}");
    let story = object(&outcome(here.uc(&["explain", &source, "--json"])));
    assert_eq!(story["rule_at"]["line"], line, "{story}");
    assert_eq!(story["rule_at"]["place"], config, "{story}");

    // Another policy: the flow's rule keeps its number, but has no line any more.
    let generation = here.wait_for(&[PORT]).policy.generation;
    here.write_policy(&format!("# a line more\n{}", policy("dctcp")));
    here.wait("the next policy", |state| {
        state.policy.generation == generation + 1 && state.policy.plan.is_some()
    });
    let story = object(&outcome(here.uc(&["explain", &source, "--json"])));
    assert_eq!(story["flow"]["rule"], 2, "{story}");
    assert!(story["rule_at"].is_null(), "{story}");

    // No or several matches give an object all the same.
    let none = outcome(here.uc(&["explain", "nothing", "--json"]));
    assert_eq!(
        (none.status, &object(&none)["fits"]),
        (Some(1), &serde_json::json!([]))
    );
    let second = start(&plan, &lab, 1);
    go_on(&[&transfer, &second], 300);
    let several = outcome(here.uc(&["explain", PORT, "--json"]));
    let fits = object(&several)["fits"].as_array().map(Vec::len);
    assert_eq!((several.status, fits), (Some(1), Some(2)), "{several:?}");
    agent.end();
    // Without an agent the number is still shown.
    let told = success(here.uc(&["explain", &source]));
    assert!(told.contains("rule 2, of plan"), "{told}");
    success(here.uc(&["detach", "--all", "--now"]));
    let gone = outcome(here.uc(&["explain", PORT, "--json"]));
    assert_eq!(
        (gone.status, &object(&gone)["fits"]),
        (Some(2), &serde_json::json!([]))
    );
    // Two flows of one queue: one may pause for long.
    transfer.end();
    second.end();
}
