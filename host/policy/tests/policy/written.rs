//! Policies that are written and read back; and random policies, for the other tests.

use proptest::prelude::*;
use proptest::sample::subsequence;
use uc_policy::file::{
    DefaultsTable, IdentityTable, PortTable, SelectionTable, TenantTable, TreatmentTable,
};
use uc_policy::{Policy, PolicyFile, Rule};

use crate::planned::{list, rule};

pub fn print(file: &PolicyFile) -> String {
    toml::to_string(file).expect("can be written")
}

/// Generates a valid policy: rules that never match are removed.
pub fn sound() -> impl Strategy<Value = Policy> {
    file().prop_filter_map("invalid policy", |mut file| {
        loop {
            let error = match Policy::parse("t.toml", &print(&file)) {
                Ok(policy) => return Some(policy),
                Err(error) => error,
            };
            let mut bad: Vec<usize> = error
                .faults()
                .iter()
                .filter_map(|fault| fault.key.split('.').nth(1)?.parse().ok())
                .collect();
            bad.dedup();
            for number in bad.iter().rev() {
                file.rules.remove(*number);
            }
            if bad.is_empty() {
                return None;
            }
        }
    })
}

fn file() -> impl Strategy<Value = PolicyFile> {
    let law = || prop::sample::select(vec![None, Some("pass"), Some("ecn"), Some("dctcp")]);
    let rules = prop::collection::vec((selection(), law()), 0..12);
    (rules, law(), any::<bool>()).prop_map(|(rules, law, claimed)| {
        let default = rule(SelectionTable::default(), law).treatment;
        let tenants = [("a", &["vnet*", "tap3"][..]), ("b", &["eth0"][..])];
        let tenants = tenants.into_iter().take(if claimed { 2 } else { 1 });
        PolicyFile {
            defaults: DefaultsTable {
                treatment: default,
                port: PortTable {
                    weight: Some(3),
                    ..PortTable::default()
                },
            },
            tenants: tenants
                .map(|(name, ports)| TenantTable {
                    identity: IdentityTable {
                        name: Some(name.into()),
                        ports: list(ports),
                        tune: None,
                    },
                    port: PortTable::default(),
                })
                .collect(),
            rules: rules
                .into_iter()
                .map(|(selection, law)| rule(selection, law))
                .collect(),
            ..PolicyFile::default()
        }
    })
}

fn selection() -> impl Strategy<Value = SelectionTable> {
    let prefixes = || {
        let all = vec![
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3/32",
            "0.0.0.0/0",
            "fd00::/8",
            "fd00:1::/32",
        ];
        subsequence(all, 0..3)
    };
    let ranges = || subsequence(vec!["1-80", "443", "5001-6500", "6000-6999"], 0..3);
    let tenant = prop::sample::select(vec![None, None, Some("a"), Some("b")]);
    let ports = subsequence(vec!["vnet1*", "vnet12", "tap*", "eth0"], 0..2);
    let dscps = subsequence(vec!["EF", "AF11", "63"], 0..2);
    let sides = (prefixes(), prefixes(), ranges(), ranges());
    (tenant, ports, sides, dscps).prop_map(
        |(tenant, ports, (local, remote, local_ports, remote_ports), dscps)| SelectionTable {
            tenant: tenant.map(str::to_owned),
            port: list(&ports),
            local: list(&local),
            remote: list(&remote),
            local_port: list(&local_ports),
            remote_port: list(&remote_ports),
            dscp: list(&dscps),
        },
    )
}

fn unplaced(rules: &[Rule]) -> Vec<Rule> {
    let unplaced = |rule: &Rule| Rule {
        line: 0,
        ..rule.clone()
    };
    rules.iter().map(unplaced).collect()
}

fn read_back(policy: &Policy) -> Policy {
    let text = print(&policy.file);
    Policy::parse("t.toml", &text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_written_policy_is_read_back_equal(policy in sound()) {
        let again = read_back(&policy);
        prop_assert_eq!(&again.file, &policy.file);
        prop_assert_eq!(&again.tenants, &policy.tenants);
        prop_assert_eq!(unplaced(&again.rules), unplaced(&policy.rules));
        prop_assert_eq!(print(&again.file), print(&policy.file));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[\\[\\]a-z=\"., \n0-9{}*/:-]{0,200}") {
        let _ = Policy::parse("t.toml", &text);
    }

    #[test]
    fn no_value_of_a_known_key_makes_the_parser_panic(
        key in prop::sample::select(vec![
            "tenant", "port", "local", "remote", "local_port", "remote_port", "dscp", "law",
            "profile", "parameters", "legacy_only", "ecn_syns", "share", "coupling", "start",
            "watch",
        ]),
        value in prop::sample::select(vec![
            "1", "-9223372036854775808", "nan", "\"\"", "\"*\"", "\"-\"", "[]", "[[]]", "[1, \"a\"]",
            "{}", "{ a = 1 }", "{ beta = nan }", "{ priorities = { \"\" = -1 } }", "true",
            "1979-05-27", "\"/\"", "\"\\u0000\"", "\"ä\"",
        ]),
    ) {
        let text = format!("[[tenant]]\nname = \"a\"\nports = \"v\"\n[[rule]]\n{key} = {value}\n");
        if let Err(error) = Policy::parse("t.toml", &text) {
            prop_assert!(error.faults().iter().all(|fault| fault.line <= 5 && fault.column > 0));
        }
    }
}

#[test]
fn every_table_of_the_file_is_read_back_equal() {
    let page = include_str!("../../../../docs/policy.md");
    let blocks = page.split("\n```toml\n").skip(1);
    let mut read = 0;
    for block in blocks.filter_map(|rest| rest.split("\n```\n").next()) {
        let Ok(policy) = Policy::parse("t.toml", block) else {
            continue;
        };
        let again = read_back(&policy);
        assert_eq!(again.file, policy.file);
        assert_eq!(again.agent, policy.agent);
        read += 1;
    }
    assert!(read >= 4, "{read} examples were read");
}

#[test]
fn an_absent_table_equals_that_of_an_empty_file() {
    assert_eq!(
        TreatmentTable::default(),
        rule(SelectionTable::default(), None).treatment
    );
    let policy = Policy::parse("t.toml", "[[rule]]\nport = \"v\"\n").unwrap();
    assert_eq!(policy.file.defaults, DefaultsTable::default());
    assert_eq!(policy.agent, uc_policy::Agent::default());
}
