//! What other users of the host, or an operator's mistake, can't do to the service.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::agent::{Installation, POLICY, installation, ip, pair};
use crate::common::live_with;
use crate::common::uc::{AS_NOBODY, outcome, refusal, success};

const TOOLS: [&str; 6] = ["unshare", "nsenter", "mount", "ip", "flock", "setpriv"];

fn set_mode(here: &Installation, mode: u32) {
    let bpffs = here.sandbox.path("/sys/fs/bpf");
    std::fs::set_permissions(bpffs, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn live_pins_where_others_may_write_are_refused_with_the_remedy() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    for mode in [0o1777, 0o775] {
        set_mode(&here, mode);
        let remedy = [
            "/sys/fs/bpf may be written by users other than root",
            "chmod go-w",
        ];
        refusal(here.uc(&["attach", "v1"]), &remedy);
        refusal(here.agent(&[]), &remedy);
    }
    set_mode(&here, 0o755);
    let mut made = here.sandbox.command(&namespace, "mkdir");
    made.args(["-m", "777", "/sys/fs/bpf/undercurrent"]);
    success(made);
    refusal(
        here.uc(&["attach", "v1"]),
        &["/sys/fs/bpf/undercurrent may be written by users other than root"],
    );
    let mut closed = here.sandbox.command(&namespace, "chmod");
    closed.args(["go-w", "/sys/fs/bpf/undercurrent"]);
    success(closed);
    success(here.uc(&["attach", "v1"]));
    success(here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_a_users_lock_on_the_bpf_file_system_delays_nothing() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    let mut lock: Command = here.sandbox.command(&namespace, AS_NOBODY[0]);
    lock.args(&AS_NOBODY[1..]);
    lock.args([
        "flock",
        "-x",
        "/sys/fs/bpf",
        "sh",
        "-c",
        "echo held; exec cat",
    ]);
    let mut holder = lock
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 5];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut held)
        .unwrap();
    assert_eq!(&held, b"held\n");
    assert_eq!(outcome(here.agent(&["--once"])).status, Some(0));
    success(here.uc(&["detach", "--all", "--now"]));
    drop(holder.stdin.take());
    assert!(
        holder.wait().unwrap().success(),
        "it held the lock until now"
    );
}

#[test]
fn live_interfaces_without_an_ethernet_header_are_refused() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    ip(&namespace, "tuntap add dev t1 mode tun");
    refusal(here.uc(&["attach", "t1"]), &["t1", "no Ethernet header"]);
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
}

#[test]
fn live_a_policy_that_detaches_most_ports_waits_for_a_confirmation() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    let ports = ["v1", "v2", "v3"];
    for name in ports {
        pair(&namespace, name);
    }
    let agent = here.start(&[]);
    here.wait_for(&ports);
    here.write_policy(&POLICY.replace("v*", "vnte*"));
    let state = here.wait("the refusal", |state| !state.reload.accepted);
    assert_eq!(state.policy.generation, 1);
    let told = outcome(here.uc(&["status"]));
    assert_eq!(told.status, Some(1), "{told:?}");
    let line = "would detach 3 of the 3 attached ports, and agent.at_most_detached allows 1; if that \
                is meant, run `uc confirm ";
    let (_, rest) = told.stdout.split_once(line).expect(&told.stdout);
    let hash = rest.split('`').next().unwrap();
    // An agent that starts with such a policy waits as well, and ports stay.
    agent.kill();
    let agent = here.start(&[]);
    let state = here.wait("the refusal", |state| !state.reload.errors.is_empty());
    assert_eq!(state.policy.generation, 0, "{state:#?}");
    assert_eq!(
        here.sandbox
            .pins()
            .iter()
            .filter(|pin| pin.starts_with("port-"))
            .count(),
        6
    );
    refusal(here.uc(&["confirm", "0"]), &[hash]);
    success(here.uc(&["confirm", hash]));
    here.wait("no port", |state| {
        state.policy.generation == 1 && state.counts.detached == 3
    });
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    agent.end();
}
