//! docs/policy.md, docs/cookbook.md and the JSON Schema compared with the program.

use serde_json::Value;
use uc_policy::Policy;

const PAGE: &str = include_str!("../../../../docs/policy.md");
const COOKBOOK: &str = include_str!("../../../../docs/cookbook.md");
/// Parameters of laws and settings of starts.
const LAWS: &str = include_str!("../../../../docs/laws.md");

/// Returns the blocks of docs/policy.md in that language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    PAGE.split(&fence[..])
        .skip(1)
        .filter_map(|rest| rest.split("\n```\n").next())
        .collect()
}

/// Returns the policies of the cookbook, without the indentation that they have in lists.
fn recipes() -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = COOKBOOK.lines();
    while let Some(opening) = lines.find(|line| line.trim_start() == "```toml") {
        let indent = opening.len() - opening.trim_start().len();
        let recipe = lines.by_ref().take_while(|line| line.trim() != "```");
        let recipe = recipe.map(|line| line.get(indent..).unwrap_or_default());
        found.push(recipe.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// Checks an example of a host's policy by the program, and by the schema.
fn assert_valid(text: &str, policy: Result<Policy, impl std::fmt::Display>) {
    if let Err(error) = policy {
        panic!("{error}\nin\n{text}");
    }
    let errors: Vec<String> = validator()
        .iter_errors(&json(text))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\nin\n{text}");
}

/// Converts a TOML text into the value that a schema validates.
fn json(text: &str) -> Value {
    let table: toml::Table = text.parse().expect("is TOML");
    serde_json::to_value(table).expect("is JSON")
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&uc_policy::schema()).expect("is a schema")
}

#[test]
fn each_example_of_the_page_is_valid_by_program_and_schema() {
    let examples = blocks("toml");
    let valid: Vec<_> = examples
        .iter()
        .filter(|text| !text.starts_with("# invalid"))
        .collect();
    assert!(valid.len() >= 4, "the page has examples");
    for text in valid {
        assert_valid(text, Policy::parse("policy.toml", text));
    }
}

#[test]
fn each_recipe_of_the_cookbook_is_valid_by_program_and_schema() {
    let recipes = recipes();
    assert!(recipes.len() >= 8, "the cookbook has policies");
    for text in recipes {
        let parse = match text.contains("[canary]") {
            true => Policy::parse_fleet,
            false => Policy::parse,
        };
        assert_valid(&text, parse("policy.toml", &text));
    }
}

#[test]
fn the_invalid_example_is_refused_as_the_page_says() {
    let examples = blocks("toml");
    let invalid: Vec<_> = examples
        .iter()
        .filter(|text| text.starts_with("# invalid"))
        .collect();
    let refusals = blocks("text");
    assert_eq!(invalid.len(), refusals.len());
    for (text, refusal) in invalid.into_iter().zip(refusals) {
        let error = Policy::parse("policy.toml", text).expect_err("the example is invalid");
        assert_eq!(error.to_string(), refusal);
        assert!(!validator().is_valid(&json(text)));
    }
}

#[test]
fn the_schema_refuses_invalid_values() {
    let validator = validator();
    let tenant = "[[tenant]]\nname = \"a\"\nports = \"v*\"\n";
    assert!(validator.is_valid(&json(tenant)));
    for rule in [
        "lw = \"ecn\"",
        "law = \"bbr\"",
        "remote = \"somewhere\"",
        "remote = []",
        "remote_port = 0",
        "remote_port = 65536",
        "remote_port = \"http\"",
        "dscp = \"EE\"",
        "dscp = 64",
        "share = 0",
        "share = 256",
        "ecn_syns = -1",
        "parameters = { beta = \"high\" }",
        "parameters = { bta = 1 }",
        "parameters = { target = \"400\" }",
        "coupling = { prefix4 = 33 }",
        "start = \"slow\"",
        "tenant = 3",
        "port = \"a/b\"",
    ] {
        let text = format!("{tenant}[[rule]]\n{rule}\n");
        assert!(!validator.is_valid(&json(&text)), "{rule}");
        assert!(Policy::parse("t.toml", &text).is_err(), "{rule}");
    }
    for text in [
        "[[tenant]]\nports = \"v*\"\n",
        "[[tenant]]\nname = \"a\"\n",
        "[[tenant]]\nname = \"a b\"\nports = \"v\"\n",
        "[agent]\nsocket = \"here\"\n",
        "[agent.etcd]\nendpoints = []\n",
        "[default]\n",
    ] {
        assert!(!validator.is_valid(&json(text)), "{text}");
        assert!(Policy::parse("t.toml", text).is_err(), "{text}");
    }
}

/// Collects the names in every `properties` of the schema.
fn collect_keys(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| collect_keys(value, keys));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_keys(value, keys)),
        _ => {}
    }
}

#[test]
fn the_page_documents_every_key_of_the_schema() {
    let mut keys = Vec::new();
    collect_keys(&uc_policy::schema(), &mut keys);
    assert!(keys.len() > 50, "{keys:?}");
    for key in keys {
        let spellings = [
            format!("`{key}`"),
            format!("[{key}]"),
            format!("[agent.{key}]"),
            format!(".{key}`"),
        ];
        assert!(
            spellings
                .iter()
                .any(|spelling| PAGE.contains(spelling) || LAWS.contains(spelling)),
            "`{key}` isn't documented"
        );
    }
}

#[test]
fn documented_defaults_equal_the_programs() {
    let agent = uc_policy::Agent::default();
    assert!(PAGE.contains(&format!("`{}`", agent.socket.display())));
    assert!(PAGE.contains(&format!("`{}`", agent.metrics.expect("is served"))));
    assert!(PAGE.contains(&format!("`{}`", agent.state.display())));
    assert!(PAGE.contains(&format!("`{}`", uc_policy::DEFAULT_ETCD_KEY)));
    assert_eq!(agent.flows_max, 65_536);
    assert_eq!(uc_policy::DEFAULT_ECN_SYNS, 2);
    let rule = "[[rule]]\nport = \"v\"\nlaw = \"ecn\"\nstart = \"watch\"\n\
                [agent.watch]\nkey_file = \"/k\"\npeers = \"10.0.0.0/8\"\n";
    let policy = Policy::parse("t.toml", rule).unwrap();
    let planned = policy.plan_for(&["v"]).expect("the port is in the policy");
    let start = planned.start.expect("its starts are watched").policy;
    assert_eq!(
        (start.probes, start.least_segments, start.rounds),
        (10, 2, 8)
    );
    let times_us = (start.span_us, start.fresh_us, start.idle_us, start.wait_us);
    assert_eq!(times_us, (500, 100_000, 1_000_000, 800_000));
    assert_eq!(
        (start.burst_bytes, start.pace_bytes_per_s),
        (48_448, 0),
        "as documented"
    );
}

#[test]
fn the_packaged_policies_are_valid() {
    let example = include_str!("../../../../packaging/undercurrent.toml");
    let manifest = include_str!("../../../../packaging/daemonset.yaml");
    let (_, rest) = manifest.split_once("undercurrent.toml: |\n").unwrap();
    let lines = rest.lines().map_while(|line| match line {
        "" => Some(""),
        line => line.strip_prefix("    "),
    });
    let of_pods = lines.collect::<Vec<_>>().join("\n");
    for (text, port) in [(example, "vnet3"), (&of_pods, "cali0")] {
        let policy = Policy::parse("policy.toml", text).unwrap();
        let planned = policy.plan_for(&[port]).expect("the port is in the policy");
        assert_eq!(planned.port.rules.len(), 2, "{text}");
        assert!(validator().is_valid(&json(text)));
    }
}
