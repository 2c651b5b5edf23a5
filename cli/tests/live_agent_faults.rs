//! Failures around an agent, or of one port of many: it does what it can, and reports the rest.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use uc_lab::netns::Namespace;

use crate::common::agent::{Installation, POLICY, installation, ip, pair};
use crate::common::bench::wait_until;
use crate::common::live_with;
use crate::common::uc::{outcome, refusal, success};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];

#[test]
fn live_pins_of_another_map_layout_are_removed_by_detach_or_an_empty_policy() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    for by_hand in [true, false] {
        here.write_policy(POLICY);
        assert_eq!(outcome(here.agent(&["--once"])).status, Some(0));
        here.sandbox.relay();
        refusal(
            here.uc(&["detach", "v1"]),
            &["another version's", "uc detach --all"],
        );
        if by_hand {
            let told = success(here.uc(&["detach", "--all", "--now"]));
            assert_eq!(told, "v1: detached\n");
        } else {
            here.write_policy(&POLICY.replace("v*", "nothing*"));
            let done = outcome(here.agent(&["--once"]));
            assert_eq!(done.status, Some(0), "{done:?}");
        }
        assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    }
    let told = success(here.uc(&["detach", "--all", "--now"]));
    assert_eq!(told, "nothing is attached\n");
}

/// Returns a rule that takes this number of a port's 64 combinations.
fn rule(port: &str, places: usize) -> String {
    let remote: Vec<String> = (0..places)
        .map(|at| format!("\"10.0.{at}.0/24\""))
        .collect();
    let remote = remote.join(", ");
    format!("\n[[rule]]\nport = \"{port}\"\nlaw = \"dctcp\"\nremote = [{remote}]\n")
}

#[test]
fn live_a_port_with_too_many_rules_keeps_its_old_plan_and_others_get_the_new() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    for name in ["v1", "v15", "v2"] {
        pair(&namespace, name);
    }
    let agent = here.start(&[]);
    here.wait_for(&["v1", "v15", "v2"]);
    // Each pattern alone has room, and one port matches both.
    let head = POLICY.split("\n[[rule]]").next().unwrap();
    let both = format!("{head}{}{}", rule("v1*", 40), rule("*5", 40));
    here.write_policy(&both);
    let state = here.wait("a port's fault", |state| {
        state.policy.generation == 2 && state.ports.iter().any(|port| port.error.is_some())
    });
    pair(&namespace, "v3");
    here.wait("v3 comes", |state| {
        state
            .ports
            .iter()
            .any(|port| port.name == "v3" && port.attached)
    });
    let fault = |name: &str| {
        let port = state.ports.iter().find(|port| port.name == name).unwrap();
        (
            port.attached,
            port.error
                .as_ref()
                .is_some_and(|text| text.contains("80 rules, the limit is")),
        )
    };
    assert_eq!(
        [fault("v1"), fault("v15"), fault("v2")],
        [(true, false), (true, true), (true, false)],
        "{state:#?}"
    );
    assert_eq!((state.is_in_force(), &state.error), (false, &None));
    let told = outcome(here.uc(&["status", "--json"]));
    assert_eq!(told.status, Some(1), "{told:?}");
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let rules = |name: &str| {
        let ports = told["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == name);
        port.unwrap()["rules_in_force"].as_u64()
    };
    assert_eq!(
        [rules("v1"), rules("v15"), rules("v2")],
        [Some(40), Some(1), Some(0)]
    );
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_detach_all_works_with_an_agent_without_a_policy() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    ip(&namespace, "link set lo up");
    pair(&namespace, "v1");
    assert_eq!(outcome(here.agent(&["--once"])).status, Some(0));
    // No etcd answers there, and no policy is stored.
    here.write_policy("[agent.etcd]\nendpoints = [\"http://127.0.0.1:9\"]\n");
    let agent = here.start(&[]);
    here.wait("an attempt", |state| state.counts.etcd_losses > 0);
    assert!(!here.sandbox.is_clean(), "ports are left as they were");
    refusal(
        here.uc(&["detach", "v1"]),
        &["no policy is in force yet", "uc detach --all"],
    );
    assert!(!here.sandbox.is_clean());
    let told = success(here.uc(&["detach", "--all", "--now"]));
    assert!(told.contains("keeps off ports to come"), "{told}");
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    agent.end();
}

#[test]
fn live_changes_of_a_policy_behind_a_link_into_another_folder_are_found() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    pair(&namespace, "w1");
    let elsewhere = here.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let target = elsewhere.join("policy.toml");
    std::fs::rename(here.config(), &target).unwrap();
    std::os::unix::fs::symlink(&target, here.config()).unwrap();
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    let text = std::fs::read_to_string(&target).unwrap();
    std::fs::write(&target, text.replace("v*", "w*")).unwrap();
    let state = here.wait_for(&["w1"]);
    assert_eq!(state.policy.generation, 2);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_the_next_agent_does_not_set_an_unchanged_policy_again() {
    if !live_with(&TOOLS) {
        return;
    }
    let coupled = POLICY.replace("\"ecn\"", "\"coupled\"");
    let policy =
        format!("{coupled}coupling = {{ priorities = {{ 80 = 2, 443 = 8, 8080 = 3 }} }}\n");
    let (namespace, here) = installation(&policy);
    pair(&namespace, "v1");
    let plans: Vec<Option<u32>> = (0..3)
        .map(|_| {
            let agent = here.start(&[]);
            let state = here.wait_for(&["v1"]);
            agent.end();
            state.policy.plan
        })
        .collect();
    assert!(
        plans[0].is_some() && plans.iter().all(|plan| *plan == plans[0]),
        "{plans:?}"
    );
    success(here.uc(&["detach", "--all", "--now"]));
}

/// The address of the metrics in the namespaces of these tests.
const METRICS: &str = "127.0.0.1:9464";

/// Creates an installation that serves metrics, in a namespace of its own with a loopback.
fn with_metrics(policy: &str) -> (Namespace, Installation) {
    let (namespace, here) = installation(policy);
    ip(&namespace, "link set lo up");
    here.write(&format!("[agent]\nmetrics = \"{METRICS}\"\n\n{policy}"));
    (namespace, here)
}

fn scrape(namespace: &Namespace) -> Option<String> {
    let read = || {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    namespace.enter(read).unwrap().ok()
}

#[test]
fn live_a_taken_metrics_address_is_reported_and_used_once_it_is_free() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = with_metrics(POLICY);
    pair(&namespace, "v1");
    let other = namespace.enter(|| TcpListener::bind(METRICS)).unwrap();
    let other = other.unwrap();
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    here.wait("the failure", |state| state.metrics_error.is_some());
    let told = outcome(here.uc(&["status"]));
    assert_eq!(told.status, Some(1), "{told:?}");
    let line = format!("amiss: metrics can't be served on {METRICS}");
    assert!(told.stdout.contains(&line), "{}", told.stdout);
    drop(other);
    here.wait("metrics", |state| state.metrics_error.is_none());
    wait_until("a scrape", || {
        scrape(&namespace).is_some_and(|text| text.contains("uc_in_force 1"))
    });
    success(here.uc(&["status"]));
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_an_agent_is_found_alive_beside_many_slow_metrics_connections() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = with_metrics(POLICY);
    pair(&namespace, "v1");
    refusal(here.uc(&["status", "--alive"]), &["no agent answers"]);
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    wait_until("metrics", || scrape(&namespace).is_some());
    // More connect than the agent serves at once and the kernel keeps for it.
    let slow = || {
        let connect = |_| {
            let within = Duration::from_millis(500);
            let mut stream = TcpStream::connect_timeout(&METRICS.parse().unwrap(), within).ok()?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ").unwrap();
            Some(stream)
        };
        (0..5000).map_while(connect).collect::<Vec<_>>()
    };
    let slow = namespace.enter(slow).unwrap();
    assert!(
        (100..5000).contains(&slow.len()),
        "{} connected",
        slow.len()
    );
    for _ in 0..5 {
        assert_eq!(success(here.uc(&["status", "--alive"])), "");
    }
    drop(slow);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}
