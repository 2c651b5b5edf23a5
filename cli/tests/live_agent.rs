//! The agent and the host's interfaces: whatever happens to either, ports are as the policy wants
//! them, or as the operator does.

use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use serde_json::Value;
use uc_lab::netns::Namespace;

use crate::common::agent::{Agent, Installation, POLICY, installation, ip, pair};
use crate::common::live_with;
use crate::common::uc::{outcome, refusal, success};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];

/// Starts an agent that has attached v1.
fn at_work() -> (Installation, Agent) {
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    (here, agent)
}

#[test]
fn live_an_agent_follows_added_removed_and_renamed_interfaces() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    let agent = here.start(&[]);
    let state = here.wait_for(&["v1"]);
    assert!(state.is_in_force(), "{state:#?}");
    assert_eq!(state.ports[0].tenant.as_deref(), Some("acme"));
    assert_eq!(state.policy.generation, 1);

    pair(&namespace, "v2");
    here.wait_for(&["v1", "v2"]);
    ip(&namespace, "link set v2 name w2");
    here.wait_for(&["v1"]);
    // The kernel reports other names while an interface is up, and renames it while it is down.
    ip(&namespace, "link set w2 up");
    ip(&namespace, "link property add dev w2 altname vm-of-acme");
    let state = here.wait_for(&["v1", "w2"]);
    assert_eq!(state.ports[1].matched, "vm-of-acme");
    refusal(
        here.uc(&["attach", "vm-of-acme"]),
        &["'vm-of-acme' is another name of port w2", "uc attach w2"],
    );
    ip(&namespace, "link property del dev w2 altname vm-of-acme");
    here.wait_for(&["v1"]);
    ip(&namespace, "link set w2 down");
    ip(&namespace, "link set w2 name v2");
    here.wait_for(&["v1", "v2"]);

    // Moves it into another namespace and back.
    let elsewhere = Namespace::new("elsewhere").unwrap();
    ip(
        &namespace,
        &format!("link set v2 netns {}", elsewhere.path().display()),
    );
    here.wait_for(&["v1"]);
    ip(&namespace, "link del v1");
    here.wait_for(&[]);
    assert_eq!(here.sandbox.pins(), Vec::<String>::new());
    pair(&namespace, "v1");
    here.wait_for(&["v1"]);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_ports_stay_attached_when_the_agent_ends_and_the_next_continues() {
    if !live_with(&TOOLS) {
        return;
    }
    let (here, agent) = at_work();
    agent.end();
    let pins = here.sandbox.pins();
    assert!(!pins.is_empty());
    assert!(here.client().status().is_err(), "nobody answers");
    // The next agent finds an interface that was deleted while none ran.
    pair(&here.namespace, "v2");
    ip(&here.namespace, "link del v1");
    let agent = here.start(&[]);
    let state = here.wait_for(&["v2"]);
    assert_eq!(state.counts.attached, 1, "{state:#?}");
    agent.kill();
    let agent = here.start(&[]);
    let state = here.wait_for(&["v2"]);
    assert_eq!(state.counts.attached, 0, "it was attached: {state:#?}");
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_agent_once_reports_whether_all_is_in_force() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    let done = outcome(here.agent(&["--once"]));
    assert_eq!(done.status, Some(0), "{done:?}");
    let seen: Value = serde_json::from_str(&success(here.uc(&["flows", "--json"]))).unwrap();
    assert_eq!(seen["ports"][0]["name"], "v1", "{seen}");
    here.write_policy(&POLICY.replace("v*", "nothing*"));
    assert_eq!(outcome(here.agent(&["--once"])).status, Some(0));
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
}

/// The operator's last word counts: the next agent keeps the port.
#[test]
fn live_a_port_attached_while_no_agent_runs_is_kept_by_the_next() {
    if !live_with(&TOOLS) {
        return;
    }
    let (here, agent) = at_work();
    success(here.uc(&["detach", "v1"]));
    here.wait_for(&[]);
    agent.kill();
    success(here.uc(&["attach", "v1"]));
    let agent = here.start(&[]);
    let state = here.wait_for(&["v1"]);
    assert!(state.withdrawn.is_empty(), "{state:#?}");
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_port_detached_by_an_operator_stays_detached_until_it_is_given_back() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    pair(&namespace, "v2");
    pair(&namespace, "w1");
    let agent = here.start(&[]);
    here.wait_for(&["v1", "v2"]);
    success(here.uc(&["detach", "v1"]));
    let state = here.wait_for(&["v2"]);
    assert_eq!(state.withdrawn, ["v1"]);
    assert!(state.is_in_force(), "{state:#?}");
    // Whatever else happens, and though the agent crashes.
    pair(&namespace, "v3");
    here.wait_for(&["v2", "v3"]);
    agent.kill();
    let agent = here.start(&[]);
    here.wait_for(&["v2", "v3"]);
    success(here.uc(&["attach", "v1"]));
    here.wait_for(&["v1", "v2", "v3"]);

    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    pair(&namespace, "v4");
    let state = here.wait("v4 is held too", |state| state.ports.len() == 4);
    assert!(
        state
            .ports
            .iter()
            .all(|port| port.withdrawn && !port.attached)
    );
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    // Giving one back does not change future ports.
    success(here.uc(&["attach", "v2"]));
    here.wait_for(&["v2"]);
    pair(&namespace, "v5");
    let state = here.wait("v5 is held too", |state| state.ports.len() == 5);
    let free = state.ports.iter().filter(|port| !port.withdrawn);
    assert_eq!(
        free.map(|port| port.name.as_str()).collect::<Vec<_>>(),
        ["v2"]
    );
    let told = success(here.uc(&["status"]));
    assert!(told.contains("held    all ports but v2, also"), "{told}");
    success(here.uc(&["detach", "v2"]));
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    refusal(here.uc(&["attach", "w1"]), &["'w1' is not in its policy"]);
    refusal(
        here.uc(&["attach", "v1", "--law", "dctcp", "--ecn-syns=3"]),
        &[
            "keeps this host's ports",
            "so --law, --ecn-syns would have no effect",
            "undercurrent.toml",
        ],
    );
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    refusal(
        here.uc(&["detach", "w1"]),
        &["'w1' is not a port of the policy"],
    );
    // An orderly end gives all ports back.
    agent.end();
    let agent = here.start(&[]);
    here.wait_for(&["v1", "v2", "v3", "v4", "v5"]);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_an_invalid_policy_leaves_the_old_one_in_force_and_is_reported() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    pair(&namespace, "w1");
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    here.write_policy(&POLICY.replace("\"ecn\"", "\"enc\""));
    let state = here.wait("the refusal", |state| !state.reload.accepted);
    assert!(state.reload.errors[0].contains("enc"), "{state:#?}");
    assert!(!state.is_in_force());
    assert!(state.ports[0].attached);
    assert_eq!(state.policy.generation, 1);
    assert!(
        here.log().contains("the one in force stays"),
        "{}",
        here.log()
    );

    here.write_policy(&POLICY.replace("v*", "w*"));
    let state = here.wait_for(&["w1"]);
    assert_eq!(state.policy.generation, 2);
    assert!(state.reload.accepted);
    // An unchanged file is read again on request.
    agent.signal(Signal::SIGHUP);
    assert!(here.client().reload().is_ok());
    assert_eq!(here.wait_for(&["w1"]).policy.generation, 2);
    agent.end();

    // A starting agent has no old policy; ports stay as they are.
    here.write_policy("[[tenant]]\nname = 3\n");
    let begun = outcome(here.agent(&[]));
    assert_eq!(begun.status, Some(1), "{begun:?}");
    assert!(begun.stderr.contains("undercurrent.toml:"), "{begun:?}");
    assert!(!here.sandbox.pins().is_empty());
    success(here.uc(&["detach", "--all", "--now"]));
}

/// Swaps the file as Kubernetes does with a ConfigMap: by a link to a folder, so that the file itself is
/// never written.
#[test]
fn live_a_policy_that_changes_by_a_link_to_its_folder_is_followed() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    pair(&namespace, "w1");
    let text = std::fs::read_to_string(here.config()).unwrap();
    let publish = |version: &str, text: &str| {
        let folder = here.folder().join(version);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("undercurrent.toml"), text).unwrap();
        let beside = here.folder().join("..data_tmp");
        symlink(version, &beside).unwrap();
        std::fs::rename(&beside, here.folder().join("..data")).unwrap();
    };
    publish("..1", &text);
    std::fs::remove_file(here.config()).unwrap();
    symlink("..data/undercurrent.toml", here.config()).unwrap();
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    publish("..2", &text.replace("v*", "w*"));
    std::fs::remove_dir_all(here.folder().join("..1")).unwrap();
    here.wait_for(&["w1"]);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_second_agent_is_refused_and_only_root_may_use_the_socket() {
    if !live_with(&TOOLS) || !live_with(&["setpriv"]) {
        return;
    }
    let (here, agent) = at_work();
    refusal(
        here.agent(&[]),
        &["an agent runs on this host already", "agent.sock.lock"],
    );

    let socket = here.sandbox.path("/run/undercurrent/agent.sock");
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let metadata = std::fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    // The socket's mode is open to all: the agent still checks the peer.
    let folder = here.sandbox.path("/run/undercurrent");
    for path in [&socket, &folder] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let stolen = outcome(
        here.sandbox
            .uc_as_nobody(&here.namespace, &["detach", "--all", "--now"]),
    );
    assert_eq!(stolen.status, Some(2), "{stolen:?}");
    assert!(stolen.stderr.contains("only root may ask"), "{stolen:?}");
    // as the agent made it: others would trust no lock in it
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(here.wait_for(&["v1"]).withdrawn.is_empty());
    agent.end();

    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(here.config(), open).unwrap();
    refusal(
        here.agent(&["--once"]),
        &["may be written by users other than its owner", "chmod go-w"],
    );
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_an_agent_with_another_socket_is_found_and_a_hanging_one_is_reported() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let socket = "/run/undercurrent/elsewhere.sock";
    let here = Installation::new(&namespace, POLICY, &format!("socket = \"{socket}\"\n"));
    pair(&namespace, "v1");
    let agent = here.start(&[]);
    let client = uc_client::Client::at(here.sandbox.path(socket));
    let is_attached = || client.status().is_ok_and(|state| state.is_in_force());
    crate::common::bench::wait_until("v1 is attached", is_attached);
    let held = success(here.uc(&["detach", "v1"]));
    assert!(held.contains("the agent keeps off it"), "{held}");
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    success(here.uc(&["attach", "v1"]));
    let told = success(here.uc(&["status"]));
    assert!(told.contains(&format!("process {}", agent.pid())), "{told}");

    agent.signal(Signal::SIGSTOP);
    let told = outcome(here.uc(&["status"]));
    assert_eq!(told.status, Some(1), "{told:?}");
    assert!(told.stdout.contains("stopped or hangs"), "{told:?}");
    assert!(
        told.stdout.contains("\nv1 "),
        "what is pinned is told: {told:?}"
    );
    for command in [["detach", "v1"], ["attach", "v1"]] {
        refusal(here.uc(&command), &["doesn't answer", "stopped or hangs"]);
    }
    agent.signal(Signal::SIGCONT);
    crate::common::bench::wait_until("it answers", is_attached);
    agent.kill();
    // No agent runs any more, whatever the lock says.
    let told = success(here.uc(&["status"]));
    assert!(told.contains("none runs; what follows is pinned"), "{told}");
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean());
}

#[test]
fn live_a_policy_is_logged_as_in_force_only_when_it_is() {
    if !live_with(&TOOLS) {
        return;
    }
    let (here, agent) = at_work();
    agent.end();
    let log = here.log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at("a policy is valid") < at("attached"), "{log}");
    assert!(at("attached") < at("a policy is in force"), "{log}");
    success(here.uc(&["detach", "--all", "--now"]));
}
