//! A fleet's policy in a real etcd.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};

use uc_client::AgentState;
use uc_client::state::{CanaryStage, CanaryState, PolicySource};
use uc_lab::netns::Namespace;

use crate::common::agent::{Installation, ip};
use crate::common::bench::wait_until;
use crate::common::etcd::{ENDPOINT, ENDPOINT_TLS, Etcd, KEY, authority, sign};
use crate::common::live_with;
use crate::common::uc::{outcome, success};

/// A trial of a minute has ended, or packets were counted for that long, also on a machine that stalls.
const TRIAL: Duration = Duration::from_secs(180);
const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "ip", "etcd"];

/// Returns a fleet's policy for one pattern of ports.
fn policy(ports: &str) -> String {
    format!(
        "[[tenant]]\nname = \"acme\"\nports = [\"{ports}\"]\n\n[[rule]]\ntenant = \"acme\"\n\
         law = \"ecn\"\n"
    )
}

fn fleet() -> (Namespace, Installation) {
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link set lo up");
    for port in ["a1", "b1", "c1"] {
        ip(
            &namespace,
            &format!("link add {port} type veth peer name x{port}"),
        );
    }
    let more = format!("[agent.etcd]\nendpoints = [\"{ENDPOINT}\"]\n");
    let installation = Installation::new(&namespace, "", &more);
    (namespace, installation)
}

#[test]
fn live_a_fleets_policy_arrives_changes_and_outlives_etcd_and_the_agent() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let data = here.folder().join("etcd");
    let etcd = Etcd::start(&namespace, &data);
    let first = etcd.put(&policy("a*"));
    let agent = here.start(&[]);
    let state = here.wait_for(&["a1"]);
    assert_eq!(state.policy.source, PolicySource::Etcd);
    assert_eq!(
        (state.policy.place.as_str(), state.policy.revision),
        (KEY, Some(first))
    );
    assert!(state.is_in_force(), "{state:#?}");

    // A change is followed, an invalid one is refused, and removing the key changes nothing.
    let second = etcd.put(&policy("b*"));
    let state = here.wait_for(&["b1"]);
    assert_eq!(state.policy.revision, Some(second));
    let third = etcd.put("[[tenant]]\nnmae = \"acme\"\n");
    let reload = |state: &AgentState| state.etcd.clone().unwrap_or_default().reload;
    here.wait("the refusal", |state| !reload(state).accepted);
    // A valid file says nothing about etcd's policy.
    here.client().reload().unwrap();
    let state = here.client().status().unwrap();
    assert!(state.reload.accepted && !state.is_in_force(), "{state:#?}");
    let at = format!("{KEY}@{third}:2");
    let told = reload(&state).errors;
    assert!(
        told.iter()
            .any(|error| error.contains(&at) && error.contains("did you mean `name`?")),
        "{state:#?}"
    );
    assert_eq!(state.policy.revision, Some(second));
    assert!(
        state
            .ports
            .iter()
            .any(|port| port.name == "b1" && port.attached)
    );
    let gone = etcd.delete();
    let state = here.wait("the key's end", |state| {
        let errors = reload(state).errors;
        errors.iter().any(|error| error.contains("has no value"))
    });
    assert!(
        reload(&state).errors[0].contains(&gone.to_string()),
        "{state:#?}"
    );
    assert!(
        state
            .ports
            .iter()
            .any(|port| port.name == "b1" && port.attached)
    );

    // Without etcd the last valid policy stays, also for an agent that starts without it.
    let (namespace, data) = etcd.kill();
    here.wait("the loss", |state| {
        state.etcd.as_ref().is_some_and(|etcd| !etcd.connected)
    });
    assert!(here.wait_for(&["b1"]).counts.etcd_losses > 0);
    agent.kill();
    ip(&namespace, "link add b2 type veth peer name xb2");
    let agent = here.start(&[]);
    let state = here.wait_for(&["b1", "b2"]);
    assert_eq!(state.policy.source, PolicySource::Kept);
    assert_eq!(state.policy.revision, Some(second));
    assert!(state.etcd.as_ref().is_some_and(|etcd| !etcd.connected));

    // When etcd is back, its policy counts. One that detached two ports would have to be confirmed.
    ip(&namespace, "link delete b2");
    here.wait_for(&["b1"]);
    let etcd = Etcd::start(&namespace, &data);
    let last = etcd.put(&policy("c*"));
    let state = here.wait_for(&["c1"]);
    assert_eq!(state.policy.source, PolicySource::Etcd);
    assert_eq!(state.policy.revision, Some(last));
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_compacted_revision_does_not_stop_a_follower() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let data = here.folder().join("etcd");
    let etcd = Etcd::start(&namespace, &data);
    etcd.put(&policy("a*"));
    let agent = here.start(&[]);
    here.wait_for(&["a1"]);
    let (namespace, data) = etcd.kill();
    here.wait("the loss", |state| {
        state.etcd.as_ref().is_some_and(|etcd| !etcd.connected)
    });
    // The agent knows the first revision only; all later ones are compacted before it finds etcd
    // again.
    let etcd = Etcd::start_aside(&namespace, &data);
    let mut last = 0;
    for _ in 0..20 {
        last = etcd.put(&policy("b*"));
    }
    etcd.compact(last);
    let (namespace, data) = etcd.kill();
    let _etcd = Etcd::start(&namespace, &data);
    let state = here.wait_for(&["b1"]);
    assert_eq!(state.policy.revision, Some(last));
    assert_eq!(state.etcd.map(|etcd| etcd.connected), Some(true));
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_agent_once_reads_etcd_once() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let etcd = Etcd::start(&namespace, &here.folder().join("etcd"));
    etcd.put(&policy("a*"));
    success({
        let mut once = here.agent(&["--once", "--log", "error"]);
        once.stdin(std::process::Stdio::null());
        once
    });
    assert!(success(here.uc(&["flows"])).contains("a1"));
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_tls_needs_certificates_of_the_authority_at_both_ends() {
    if !live_with(&TOOLS) || !live_with(&["openssl"]) {
        return;
    }
    let (namespace, here) = fleet();
    let folder = here.folder();
    let [ca, other] = ["ca", "other"].map(|name| authority(folder, name));
    let [server, host] = ["server", "host"].map(|name| sign(folder, name, &ca));
    let stranger = sign(folder, "stranger", &other);
    let data = folder.join("etcd");
    let etcd = Etcd::start_tls(&namespace, &data, &server, &ca.certificate);
    let revision = etcd.put(&policy("a*"));
    let configure = |ca: &std::path::Path, identity: Option<&crate::common::etcd::Signed>| {
        let identity = identity.map_or_else(String::new, |identity| {
            format!(
                "certificate = {:?}\nprivate_key = {:?}\n",
                identity.certificate, identity.key
            )
        });
        here.write_policy(&format!(
            "[agent.etcd]\nendpoints = [\"{ENDPOINT_TLS}\"]\nca = {ca:?}\n{identity}"
        ));
    };
    // A server not signed by the file's authority, and hosts that etcd's authority does not know.
    for (ca, identity) in [
        (&other.certificate, Some(&host)),
        (&ca.certificate, Some(&stranger)),
        (&ca.certificate, None),
    ] {
        configure(ca, identity);
        let agent = here.start(&[]);
        let state = here.wait("an attempt", |state| state.counts.etcd_losses > 0);
        let etcd = state.etcd.unwrap();
        assert!(!etcd.connected && etcd.error.is_some(), "{etcd:?}");
        assert_eq!(state.policy.source, PolicySource::None);
        agent.end();
    }
    configure(&ca.certificate, Some(&host));
    let agent = here.start(&[]);
    let state = here.wait_for(&["a1"]);
    assert_eq!(state.policy.revision, Some(revision));
    etcd.put(&policy("b*"));
    here.wait_for(&["b1"]);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_start_without_host_settings_is_a_problem() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let etcd = Etcd::start(&namespace, &here.folder().join("etcd"));
    etcd.put(&format!("{}start = \"watch\"\n", policy("a*")));
    let agent = here.start(&[]);
    let state = here.wait_for(&["a1"]);
    assert!(!state.is_in_force(), "{state:#?}");
    let told = outcome(here.uc(&["status"]));
    assert_eq!(told.status, Some(1), "{told:?}");
    assert!(told.stdout.contains("amiss: watching a1: "), "{told:?}");
    assert!(told.stdout.contains("has no [agent.watch]"), "{told:?}");
    etcd.put(&policy("a*"));
    here.wait("nothing is amiss", uc_client::AgentState::is_in_force);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

/// Returns a fleet's policy that this host tries first, for a minute.
fn with_canary(ports: &str, host: &str) -> String {
    let canary = format!("[canary]\nhosts = [{host:?}]\nminutes = 1\n");
    format!("{}{canary}worse = {{ not_tcp = 2 }}\n", policy(ports))
}

fn this_host() -> String {
    let host = nix::unistd::gethostname().unwrap();
    host.into_string().unwrap()
}

fn newest(state: &AgentState) -> CanaryState {
    state.canary.clone().unwrap_or_default()
}

/// Returns the local ports of a namespace's connections to etcd, closed ones too as long as the kernel keeps
/// them.
fn connections_to_etcd(namespace: &Namespace) -> BTreeSet<String> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let table = namespace.enter(read).unwrap();
    let to_etcd = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, remote) = (columns.next()?, columns.next()?);
        // port 2379
        remote.ends_with(":094B").then(|| local.to_owned())
    };
    table.lines().filter_map(to_etcd).collect()
}

#[test]
fn live_a_policy_waits_for_its_canaries() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let etcd = Etcd::start(&namespace, &here.folder().join("etcd"));
    etcd.put(&policy("a*"));
    let agent = here.start(&[]);
    here.wait_for(&["a1"]);
    let verdict = |hash: &str, worse: &str| format!("[{{\"hash\":{hash:?},\"worse\":{worse}}}]");

    // Another host is the canary: this one waits, then follows.
    etcd.put(&with_canary("b*", "elsewhere"));
    let waits = |state: &AgentState| newest(state).stage == CanaryStage::Waits;
    let state = here.wait("the canary's turn", waits);
    assert!(
        state.is_in_force() && state.ports[0].name == "a1",
        "{state:#?}"
    );
    let said = success(here.uc(&["status"]));
    let line =
        "elsewhere must try the new policy first, as canaries; the policy before it stays in force";
    assert!(said.contains(line), "{said}");
    // It asks every 2 s, through the connection that follows the policy.
    let before = connections_to_etcd(&namespace);
    std::thread::sleep(Duration::from_secs(7));
    let now = connections_to_etcd(&namespace);
    assert!(now.is_subset(&before), "{before:?}, then {now:?}");
    etcd.put_verdicts("elsewhere", &verdict(&newest(&state).hash, "null"));
    here.wait_for(&["b1"]);

    // It was worse there: this host stays as it is, unless an operator confirms it.
    etcd.put(&with_canary("c*", "elsewhere"));
    let state = here.wait("the canary's turn", waits);
    let hash = newest(&state).hash;
    etcd.put_verdicts("elsewhere", &verdict(&hash, "\"many packets\""));
    let refused = here.wait("the refusal", |state| {
        newest(state).stage == CanaryStage::Worse
    });
    let errors = refused.etcd.unwrap_or_default().reload.errors;
    let told = format!(
        "the canary elsewhere tried the policy and it was worse: many packets; if that is meant, \
         run `uc confirm {hash}`"
    );
    assert_eq!(errors, [told]);
    success(here.uc(&["confirm", &hash]));
    here.wait_for(&["c1"]);

    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_canary_says_what_it_found() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    let etcd = Etcd::start(&namespace, &here.folder().join("etcd"));
    etcd.put(&policy("c*"));
    let agent = here.start(&[]);
    here.wait_for(&["c1"]);
    let host = &this_host();
    etcd.put(&with_canary("a*", host));
    let tries = |state: &AgentState| newest(state).stage == CanaryStage::Tries;
    let state = here.wait_within(TRIAL, "the trial", tries);
    assert_eq!(state.ports[0].name, "a1");
    assert!(!etcd.has_verdicts(host));
    let state = here.wait_within(TRIAL, "the verdict", |state| newest(state).said.len() == 1);
    assert_eq!(newest(&state).said[0].worse, None);
    wait_until("the verdict is stored", || etcd.has_verdicts(host));
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_canary_goes_back_from_a_policy_under_which_packets_are_worse() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = fleet();
    for arguments in [
        "address add 10.9.0.1/24 dev xa1",
        "link set xa1 up",
        "link set a1 up",
        "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev xa1",
    ] {
        ip(&namespace, arguments);
    }
    let etcd = Etcd::start(&namespace, &here.folder().join("etcd"));
    let first = etcd.put(&policy("a*"));
    let agent = here.start(&[]);
    let before = here.wait_for(&["a1"]);
    // nobody answers, so each is one SYN at least
    let dial = || {
        let connections = (0..500).map(|_| {
            let flags = SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
            let to = SockaddrIn::new(10, 9, 0, 2, 5001);
            let started = connect(socket.as_raw_fd(), &to);
            assert_eq!(started, Err(nix::errno::Errno::EINPROGRESS));
            socket
        });
        drop(connections.collect::<Vec<_>>());
    };
    namespace.enter(dial).unwrap();
    // Nothing was counted yet under the first policy. What the first agent counts, the second one knows.
    etcd.put(&with_canary("a*", &this_host()));
    let state = here.wait("the count", |state| {
        newest(state).stage == CanaryStage::Waits
    });
    let why = newest(&state).why;
    let first_counts =
        "this host counts packets under the policy in force for 1 min before it tries the new one";
    assert_eq!(why.as_deref(), Some(first_counts));
    assert_eq!(state.policy.hash, before.policy.hash);
    agent.kill();
    let agent = here.start(&[]);
    here.wait_within(TRIAL, "the trial", |state| {
        newest(state).stage == CanaryStage::Tries
    });
    let send = || {
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        for _ in 0..2000 {
            socket.send_to(b"more", "10.9.0.2:9").unwrap();
        }
    };
    namespace.enter(send).unwrap();
    let state = here.wait_within(TRIAL, "the verdict", |state| newest(state).said.len() == 1);
    let why = newest(&state).said[0].worse.clone().expect("it is worse");
    assert!(why.starts_with("not_tcp: "), "{why}");
    let state = here.wait_for(&["a1"]);
    assert_eq!(newest(&state).stage, CanaryStage::Worse);
    assert_eq!(state.policy.hash, before.policy.hash);
    assert_eq!(state.policy.revision, Some(first));
    let told = state.etcd.unwrap_or_default().reload.errors.concat();
    assert!(
        told.starts_with(&format!(
            "this host, a canary, tried the policy and it was worse: {why}; if that is meant, run \
             `uc confirm "
        )),
        "{told}"
    );
    agent.kill();
    // The next agent knows it.
    let agent = here.start(&[]);
    let state = here.wait("etcd", |state| {
        state.etcd.as_ref().is_some_and(|etcd| etcd.connected)
    });
    assert_eq!(state.policy.hash, before.policy.hash);
    here.wait("the refusal", |state| {
        newest(state).stage == CanaryStage::Worse
    });
    here.wait_for(&["a1"]);
    agent.end();
    success(here.uc(&["detach", "--all", "--now"]));
}
