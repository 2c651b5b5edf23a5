//! Refusals of `[agent]`, and all faults of a list.

use uc_policy::Policy;

/// Returns the faults of a policy of one tenant with these keys in `[agent]`.
fn refusals(keys: &str) -> Vec<String> {
    let tenant = "[[tenant]]\nname = \"acme\"\nports = \"vnet*\"";
    refusals_of(&format!("{tenant}\n[agent]\n{keys}\n"))
}

fn refusals_of(text: &str) -> Vec<String> {
    match Policy::parse("t.toml", text) {
        Ok(_) => Vec::new(),
        Err(error) => error.faults().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn filters_that_the_log_would_not_accept_are_refused() {
    let of_span = "uc_agent[step{law=1,at=2}]=debug,info";
    for log in ["info", "info,uc_agent=debug", "off", of_span] {
        assert_eq!(refusals(&format!("log = \"{log}\"")), [] as [&str; 0]);
    }
    for log in ["", " ", "uc_agent=loud", "info,[", "a=b=c"] {
        let told = refusals(&format!("log = \"{log}\""));
        assert_eq!(told.len(), 1, "{log}: {told:?}");
        assert!(told[0].starts_with("t.toml:5:7: agent.log: "), "{told:?}");
    }
}

#[test]
fn impossible_paths_of_sockets_and_folders_are_refused() {
    let name = "n".repeat(256);
    let long = format!("/run/{}", "n/".repeat(51) + "nn");
    assert_eq!(long.len(), 109);
    for (keys, part) in [
        (format!("socket = \"{long}\""), "109 bytes are too long"),
        (
            "socket = \"/run/../agent.sock\"".into(),
            "is not normalized",
        ),
        ("socket = \"/\"".into(), "is not normalized"),
        ("state = \"/var//lib\"".into(), "is not normalized"),
        ("state = \"/var/lib/\"".into(), "is not normalized"),
        ("state = \"state\"".into(), "is not absolute"),
        ("state = \"/a\\u0000b\"".into(), "control characters"),
        (format!("state = \"/{name}\""), "are too long"),
        (
            "state = \"/run/undercurrent/agent.sock\"".into(),
            "control socket's path",
        ),
    ] {
        let told = refusals(&keys);
        assert!(
            told.len() == 1 && told[0].contains(part),
            "{keys}: {told:?}"
        );
    }
    let most = format!("/run/{}", "n".repeat(102));
    assert_eq!(refusals(&format!("socket = \"{most}\"")), [] as [&str; 0]);
    let long = format!("{most}n");
    assert_eq!(refusals(&format!("socket = \"{long}\"")).len(), 1);
}

#[test]
fn etcd_settings_that_can_never_connect_are_refused() {
    let told = |endpoints: &str, more: &str| {
        refusals_of(&format!("[agent.etcd]\nendpoints = [{endpoints}]\n{more}"))
    };
    let (http, https) = ("\"http://a:2379\"", "\"https://b:2379\"");
    let ca = "ca = \"/ca.pem\"\n";
    let own = "certificate = \"/host.pem\"\nprivate_key = \"/host.key\"\n";
    let both = format!("{ca}{own}");
    let half = format!("{ca}certificate = \"/host.pem\"\n");
    for (endpoints, more) in [(http, ""), (https, ca), (https, both.as_str())] {
        assert_eq!(told(endpoints, more), [] as [&str; 0], "{endpoints} {more}");
    }
    for (endpoints, more, part) in [
        (https, "", "`https://b:2379` needs ca"),
        (https, own, "only servers that it signed"),
        (http, ca, "`http://a:2379` does not use ca"),
        (http, own, "write https://"),
        (https, &half, "belong together"),
        (
            &format!("{https}, {http}"),
            ca,
            "endpoints.1: `http://a:2379`",
        ),
    ] {
        let told = told(endpoints, more);
        assert!(
            told.len() == 1 && told[0].contains(part),
            "{endpoints} {more}: {told:?}"
        );
    }
}

#[test]
fn events_are_limited_by_flows_max() {
    let events = |keys: &str| {
        let text = format!("[[rule]]\nport = \"vnet*\"\n[agent]\n{keys}\n");
        Policy::parse("t.toml", &text).unwrap().agent.events
    };
    assert_eq!(events(""), 65_536);
    assert_eq!(events("flows_max = 1000"), 1000);
    assert_eq!(events("events = 0"), 0);
    assert_eq!(events("flows_max = 1000000\nevents = 1000000"), 1_000_000);
    let told = refusals("flows_max = 1000\nevents = 1001");
    assert!(
        told.len() == 1 && told[0].contains("t.toml:6:10: agent.events: "),
        "{told:?}"
    );
    assert_eq!(refusals("events = -1").len(), 1);
}

#[test]
fn every_wrong_member_of_a_list_is_reported() {
    let text = "[[tenant]]\nname = \"acme\"\nports = \
                [\"a b\", \"vnet*\", 1.5, true, \"c/d\", [1], 7]\n\
                [[rule]]\nremote_port = [0, 2020-01-01, \"x\", { a = 1 }]\n";
    let error = Policy::parse("t.toml", text).unwrap_err();
    let places: Vec<(usize, &str)> = error
        .faults()
        .iter()
        .map(|fault| (fault.line, fault.key.as_str()))
        .collect();
    let ports = [0, 2, 3, 4, 5, 6].map(|at| (3, format!("tenant.0.ports.{at}")));
    let ranges = [0, 1, 2, 3].map(|at| (5, format!("rule.0.remote_port.{at}")));
    let expected: Vec<(usize, String)> = ports.into_iter().chain(ranges).collect();
    let expected: Vec<(usize, &str)> = expected
        .iter()
        .map(|(line, key)| (*line, key.as_str()))
        .collect();
    assert_eq!(places, expected, "{error}");
}
