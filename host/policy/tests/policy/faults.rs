//! Refusals: what is refused, where, and the remedy.

use uc_policy::{Fault, Policy};

/// A tenant, which every policy in this file has; seven lines.
const TENANT: &str = "[[tenant]]\nname = \"acme\"\nports = [\"vnet*\", \"tap1\"]\n\n\n\n\n";

fn faults(text: &str) -> Vec<Fault> {
    Policy::parse("t.toml", text)
        .expect_err("the policy is invalid")
        .faults()
        .to_vec()
}

/// Returns the only refusal of a text after [`TENANT`].
pub fn refusal(text: &str) -> String {
    let faults = faults(&format!("{TENANT}{text}"));
    assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
    faults[0].to_string()
}

/// Each row: a rule's keys, from line 9 on, and the refusal from the column on.
const RULES: [(&str, &str); 41] = [
    (
        "law = 3",
        "9:7: law: invalid type: integer `3`, expected the name of a law, in quotes",
    ),
    (
        "lawe = \"ecn\"",
        "9:1: lawe: unknown key `lawe`; did you mean `law`?",
    ),
    (
        "tenant = \"acm\"",
        "9:10: tenant: no [[tenant]] is called `acm`; did you mean `acme`?",
    ),
    (
        "tenant = \"acme\"\nport = \"veth*\"",
        "10:8: port: can never match: `veth*` is not a port of tenant `acme`",
    ),
    ("port = []", "9:8: port: is empty and matches nothing"),
    ("port = \"\"", "9:8: port: is empty; give a port's name"),
    (
        "port = true",
        "9:8: port: invalid type: boolean `true`, expected the name of a port",
    ),
    (
        "remote = \"10.0.0.1/8\"",
        "9:10: remote: `10.0.0.1/8` has host bits set; did you mean `10.0.0.0/8`?",
    ),
    (
        "remote = [\"10.0.0.0/8\", \"10/8\"]",
        "9:25: remote: `10/8` is not a prefix",
    ),
    (
        "remote = \"fd00::/129\"",
        "9:10: remote: `fd00::/129` has a prefix length of 129 bits, but an address of this \
         family has 128",
    ),
    (
        "local = \"::/0\"",
        "9:9: local: `::/0` contains the addresses of both families",
    ),
    (
        "local = \"10.0.0.0/8\"\nremote = \"fd00::/8\"",
        "10:10: remote: can never match: local and remote are of different families",
    ),
    (
        "remote_port = \"9-1\"",
        "9:15: remote_port: `9-1` is empty: 9 is above 1; write \"1-9\"",
    ),
    (
        "remote_port = [1, 70000]",
        "9:19: remote_port: `70000` is not a TCP port",
    ),
    (
        "remote_port = [1, 9223372036854775808]",
        "9:19: remote_port: invalid type: integer `9223372036854775808`, expected a number or a text",
    ),
    (
        "local_port = \"https\"",
        "9:14: local_port: `https` is not a TCP port",
    ),
    (
        "dscp = \"AF44\"",
        "9:8: dscp: there is no DSCP `AF44`; did you mean `AF",
    ),
    ("dscp = 64", "9:8: dscp: 64 is not a DSCP"),
    (
        "law = \"ecn\"\nshare = 0",
        "10:9: share: is 0; give 1 to 255, or remove the key",
    ),
    (
        "law = \"ecn\"\necn_syns = 256",
        "10:12: ecn_syns: is 256; give 0 to 255",
    ),
    (
        "law = \"pass\"\nshare = 3",
        "10:9: share: says nothing under law pass",
    ),
    (
        "profile = \"rfc\"",
        "9:11: profile: says nothing under law pass",
    ),
    (
        "law = \"pass\"\nparameters = { guard = 1 }",
        "10:24: parameters.guard: is for a law on the port",
    ),
    (
        "law = \"ecn\"\nparameters = { beta = 0.5 }",
        "10:23: parameters.beta: is a parameter of law dctcp",
    ),
    (
        "law = \"dctcp\"\nparameters = { beta = 1.5 }",
        "10:23: parameters.beta: is 1.5; give 0 to 1",
    ),
    (
        "law = \"dctcp\"\nparameters = { gain = 11 }",
        "10:23: parameters.gain: is 11; give 1 to 10",
    ),
    (
        "law = \"delay\"",
        "8:1: parameters.target: missing, and law delay has no default",
    ),
    (
        "law = \"delay\"\nparameters = { target = \"400\" }",
        "10:25: parameters.target: `400` is not a duration: the unit after the number is missing",
    ),
    (
        "law = \"ecn\"\nlegacy_only = true\nparameters = { guest_ecn = \"pass\" }",
        "10:15: legacy_only: sets the same as parameters.guest_ecn",
    ),
    (
        "law = \"ecn\"\nlegacy_only = false\nparameters = { observe = true }",
        "10:15: legacy_only: has no effect with `observe`",
    ),
    (
        "law = \"ecn\"\ncoupling = {}",
        "10:12: coupling: is of law coupled",
    ),
    (
        "law = \"coupled\"\ncoupling = { prefix4 = 33 }",
        "10:24: coupling.prefix4: is 33; give 0 to 32",
    ),
    (
        "law = \"coupled\"\ncoupling = { priorities = { 443 = 0 } }",
        "10:35: coupling.priorities.443: is 0; give 1 to 255",
    ),
    (
        "law = \"coupled\"\ncoupling = { priorities = { 0 = 2 } }",
        "10:33: coupling.priorities.0: `0` is not a TCP port",
    ),
    (
        "law = \"coupled\"\ncoupling = { priorities = { http = 2 } }",
        "10:36: coupling.priorities.http: `http` is not a TCP port",
    ),
    (
        "law = \"coupled\"\nparameters = { observe = true }",
        "10:26: parameters.observe: writes no windows",
    ),
    (
        "law = \"ecn\"\nparameters = { observe = true, strict = true }",
        "10:41: parameters.strict: has no effect with `observe`",
    ),
    (
        "law = \"ecn\"\nstart = \"watch\"",
        "10:9: start: watch needs the fleet's key and the peers",
    ),
    (
        "law = \"ecn\"\nwatch = { probes = 3 }",
        "10:9: watch: has an effect only with the start `watch`",
    ),
    (
        "law = \"ecn\"\nstart = \"watch\"\nwatch = { probes = 33 }\n[agent.watch]\nkey_file = \"/k\"\npeers = \"10.0.0.0/8\"",
        "11:20: watch.probes: is 33; give 0 to 32",
    ),
    (
        "law = \"ecn\"\nstart = \"watch\"\nwatch = { late = \"31ms\" }\n[agent.watch]\nkey_file = \"/k\"\npeers = \"10.0.0.0/8\"",
        "11:18: watch.late: is more than 30ms",
    ),
];

/// Returns the refusals that differ from the expected ones.
fn differing<'a>(cases: impl Iterator<Item = (String, &'a str)>) -> Vec<String> {
    let differs = |(text, expected): (String, &str)| {
        let refusals: Vec<String> = faults(&format!("{TENANT}{text}"))
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = format!("t.toml:{expected}");
        let holds = refusals.len() == 1 && refusals[0].starts_with(&expected);
        (!holds).then(|| format!("{refusals:#?}\nnot\n{expected}"))
    };
    cases.filter_map(differs).collect()
}

#[test]
fn an_invalid_rule_is_refused_at_its_place_with_a_remedy() {
    let cases = RULES.map(|(keys, expected)| (format!("[[rule]]\n{keys}\n"), expected));
    let differing = differing(cases.into_iter());
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Each row: a text after the tenant, and its only refusal.
const BESIDE: [(&str, &str); 16] = [
    (
        "[[tenant]]\nname = \"acme\"\nports = \"eth*\"\n",
        "9:8: name: duplicate tenant `acme`: the first is in line 1",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = [\"a\", \"vnet4\"]\n",
        "10:15: ports: a port could match both `vnet4` and `vnet*` of `acme` in line 3",
    ),
    (
        "[[tenant]]\nname = \"b\"\nports = \"tap1\"\n",
        "10:9: ports: `tap1` is claimed by `acme` already, in line 3",
    ),
    (
        "[[tenant]]\nname = \"b\"\n",
        "8:1: tenant: missing key `ports`",
    ),
    (
        "[[tenant]]\nports = \"b\"\n",
        "8:1: tenant: missing key `name`",
    ),
    (
        "[[rule]]\nlaw = \"ecn\"\n[[rule]]\nremote = \"10.0.0.0/8\"\n",
        "10:1: rule: can never match: the rule in line 8 takes all of its flows",
    ),
    (
        "[[rule]]\nremote_port = \"1-10\"\n[[rule]]\nremote_port = \"11-20\"\n[[rule]]\nremote_port = [3, 12]\n",
        "12:1: rule: can never match: the rule in line 8 and the rule in line 10 take all",
    ),
    (
        "[[rule]]\nremote_port = 1\nlaw = \"coupled\"\n[[rule]]\nlaw = \"coupled\"\ncoupling = { group = 3 }\n",
        "13:12: coupling: differs from that of the rule in line 8, and a port has one",
    ),
    (
        "[defaults]\nshare = 300\n",
        "9:9: defaults.share: is 300; give 1 to 255",
    ),
    (
        "[defaults]\nparameters = { beta = 0.5 }\n",
        "9:23: defaults.parameters.beta: is of law dctcp, and neither",
    ),
    (
        "[defaults]\ncoupling = {}\n",
        "9:12: defaults.coupling: is of law coupled, and neither",
    ),
    (
        "[agent]\nmetrics = \"localhost\"\n",
        "9:11: agent.metrics: `localhost` is not an address with a port",
    ),
    (
        "[agent]\nsocket = \"here.sock\"\n",
        "9:10: agent.socket: `here.sock` is not absolute",
    ),
    (
        "[canary]\nhosts = [\"a\"]\nworse = { no_handshake = 2 }\n",
        "8:1: canary: hosts try a policy in turn only if it is a fleet's",
    ),
    (
        "[agent]\nflows_max = 0\n",
        "9:13: agent.flows_max: is 0; give 1 to 16777216",
    ),
    (
        "[agent]\nflows_max = \"20k\"\n",
        "9:13: agent.flows_max: invalid type: string \"20k\", expected a whole number",
    ),
];

#[test]
fn tables_that_conflict_with_others_are_refused() {
    let cases = BESIDE.map(|(text, expected)| (text.to_owned(), expected));
    let differing = differing(cases.into_iter());
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn numbers_at_their_limit_and_settings_that_one_rule_uses_are_accepted() {
    let host = "[agent.watch]\nkey_file = \"/key\"\npeers = \"10.0.0.0/8\"\n";
    let start = "law = \"ecn\"\nstart = \"watch\"\n";
    let named = |bytes| {
        format!(
            "[[tenant]]\nports = \"b\"\nname = \"{}\"\n",
            "n".repeat(bytes)
        )
    };
    assert!(refusal(&named(64)).contains("is not a valid name"));
    for text in [
        named(63),
        "[defaults]\nlaw = \"ecn\"\nhold = { buffer = true, memory = \"1MB\" }\n".to_owned(),
        format!("{host}[defaults]\nwatch = {{ probes = 3 }}\n[[rule]]\n{start}"),
        format!("{host}[defaults]\n{start}watch = {{ probes = 3 }}\n"),
        "[[rule]]\ntenant = \"acme\"\nport = \"vnet3\"\nlaw = \"ecn\"\n".to_owned(),
        "[defaults]\nsplit = true\n[split]\ncongestion_control = \"15_characters__\"\n".to_owned(),
        [1, 2]
            .map(|n| {
                format!(
                    "[[rule]]\nport = \"b{n}*\"\nremote_port = 1\nlaw = \"coupled\"\ncoupling = {{ group = {n} }}\n"
                )
            })
            .concat(),
    ] {
        let read = Policy::parse("t.toml", &format!("{TENANT}{text}"));
        assert!(read.is_ok(), "{text}: {:?}", read.unwrap_err().faults());
    }
}

#[test]
fn different_starts_on_one_port_are_refused() {
    let host = "[agent.watch]\nkey_file = \"/key\"\npeers = \"10.0.0.0/8\"\n";
    let watched = "[[rule]]\nremote = \"10.0.0.0/8\"\nlaw = \"ecn\"\nstart = \"watch\"\n";
    let text = refusal(&format!("{watched}{host}"));
    assert!(text.contains("differs from that of the rule in line 8 (none here, watch there)"));
    let all = "[[rule]]\nlaw = \"ecn\"\nstart = \"watch\"\n";
    assert!(Policy::parse("t.toml", &format!("{TENANT}{all}{host}")).is_ok());
}

#[test]
fn more_than_64_combinations_on_a_port_are_refused() {
    let ports = |n: u32| {
        let ports: Vec<String> = (1..=n).map(|i| (2 * i).to_string()).collect();
        format!(
            "[[rule]]\nremote_port = [{}]\nlaw = \"ecn\"\n",
            ports.join(", ")
        )
    };
    assert!(Policy::parse("t.toml", &format!("{TENANT}{}", ports(64))).is_ok());
    assert!(refusal(&ports(65)).contains("make 65 combinations"));
    let two = format!("{}[[rule]]\nremote_port = 1\nlaw = \"ecn\"\n", ports(64));
    assert!(refusal(&two).starts_with("t.toml:11:1: rule: is one too many for port `vnet*`"));
    let of_two_ports = [("vnet*", 64), ("tap1", 64)]
        .map(|(port, n)| ports(n).replace("[[rule]]", &format!("[[rule]]\nport = \"{port}\"")));
    assert!(Policy::parse("t.toml", &format!("{TENANT}{}", of_two_ports.concat())).is_ok());
}

#[test]
fn tenants_and_rules_beside_etcd_are_refused() {
    let etcd = "[agent.etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n";
    assert!(Policy::parse("t.toml", etcd).is_ok());
    let text = faults(&format!("{TENANT}{etcd}"))[0].to_string();
    assert!(text.contains("the policy is in etcd"), "{text}");
    let fleet = Policy::parse_fleet("key", &format!("{TENANT}[agent]\nlog = \"info\"\n"));
    assert!(
        fleet
            .unwrap_err()
            .to_string()
            .contains("says nothing of one host's agent")
    );
    assert!(Policy::parse_fleet("key", TENANT).is_ok());
    for endpoint in [
        "127.0.0.1:2379",
        "http://:1",
        "http://a",
        "http://u:p@a:1",
        "ftp://a:1",
    ] {
        let text = format!("[agent.etcd]\nendpoints = [\"{endpoint}\"]\n");
        let fault = &faults(&text)[0];
        assert!(
            fault.message.contains("is not an endpoint"),
            "{endpoint}: {fault}"
        );
    }
}

#[test]
fn policies_without_ports_and_texts_that_are_not_toml_are_refused() {
    assert!(faults("")[0].message.contains("names no port"));
    let broken = faults("[[rule]\nlaw = \nx\n");
    assert!(
        broken.len() > 1,
        "one error for each broken line: {broken:#?}"
    );
    assert!(broken.iter().all(|fault| fault.key.is_empty()));
    assert_eq!(
        faults("rule = 3\n")[0].to_string(),
        "t.toml:1:8: rule: is not a list of tables; write [[rule]]"
    );
    assert_eq!(
        faults("agent = []\n")[0].message,
        "is not a table; write [agent]"
    );
}

#[test]
fn faults_are_reported_in_the_files_order_up_to_a_hundred() {
    let rules: String = (0..150).map(|_| "[[rule]]\nlaw = \"bbr\"\n").collect();
    let faults = faults(&format!("{TENANT}{rules}"));
    assert_eq!(faults.len(), 100);
    assert!(faults.is_sorted_by_key(|fault| (fault.line, fault.column)));
    assert!(faults[99].message.ends_with("(and 50 more faults)"));
}

/// Each row: the keys of a fleet's `[canary]`, and its only refusal.
const CANARY: [(&str, &str); 10] = [
    (
        "hosts = []\nworse = { held = 2 }",
        "9:9: canary.hosts: no hosts; name at least one",
    ),
    (
        "hosts = [\"a b\"]\nworse = { held = 2 }",
        "9:10: canary.hosts.0: `a b` is not the name of a host",
    ),
    (
        "hosts = [\"a\", \"a\"]\nworse = { held = 2 }",
        "9:15: canary.hosts.1: `a` is named twice",
    ),
    ("worse = { held = 2 }", "8:1: canary.hosts: no hosts"),
    (
        "hosts = [\"a\"]",
        "8:1: canary.worse: nothing to compare; name a reason",
    ),
    (
        "hosts = [\"a\"]\nworse = { no_handshak = 2 }",
        "10:25: canary.worse.no_handshak: no reason of packets is called `no_handshak`; did you mean \
         `no_handshake`?",
    ),
    (
        "hosts = [\"a\"]\nworse = { translated = 2 }",
        "10:24: canary.worse.translated: more such packets are not worse",
    ),
    (
        "hosts = [\"a\"]\nworse = { table_full = 0.5 }",
        "10:24: canary.worse.table_full: is 0.5; give 1 to 1000",
    ),
    (
        "hosts = [\"a\"]\nworse = { table_full = nan }",
        "10:24: canary.worse.table_full: is NaN; give 1 to 1000",
    ),
    (
        "hosts = [\"a\"]\nminutes = 0\nworse = { table_full = 2 }",
        "10:11: canary.minutes: is 0; give 1 to 1440",
    ),
];

#[test]
fn canaries_that_cannot_try_a_policy_are_refused() {
    for (keys, expected) in CANARY {
        let text = format!("{TENANT}[canary]\n{keys}\n");
        let error = Policy::parse_fleet("t.toml", &text).expect_err(keys);
        let faults: Vec<String> = error.faults().iter().map(Fault::to_string).collect();
        let expected = format!("t.toml:{expected}");
        let holds = faults.len() == 1 && faults[0].starts_with(&expected);
        assert!(holds, "{faults:#?}\nnot\n{expected}");
    }
    let numbered = |prefix: &str, count: u32, suffix: &str| {
        let all: Vec<String> = (0..count)
            .map(|at| format!("{prefix}{at}{suffix}"))
            .collect();
        all.join(",")
    };
    let read = |hosts: u32, reasons: u32| {
        let (hosts, reasons) = (numbered("\"h", hosts, "\""), numbered("r", reasons, " = 2"));
        let worse = format!("held = 2, {reasons}");
        let worse = worse.trim_end_matches(", ");
        let text = format!("{TENANT}[canary]\nhosts = [{hosts}]\nworse = {{ {worse} }}\n");
        Policy::parse_fleet("t.toml", &text).map_err(|error| error.faults()[0].message.clone())
    };
    assert!(read(16, 0).is_ok());
    assert_eq!(read(17, 0).unwrap_err(), "17 hosts; name at most 16");
    assert_eq!(read(1, 16).unwrap_err(), "17 reasons; name at most 16");
    let good = "[canary]\nhosts = [\"a\"]\nworse = { table_full = 1.5 }\n";
    let policy = Policy::parse_fleet("t.toml", &format!("{TENANT}{good}")).unwrap();
    let canary = policy.canary.expect("one is given");
    assert_eq!((canary.minutes, canary.worse.len()), (10, 1));
}
