//! The agent as a service: its notifications to systemd, and its child processes.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_lab::netns::Namespace;

use crate::common::agent::{Installation, POLICY, ip};
use crate::common::bench::wait_until;
use crate::common::live_with;
use crate::common::uc::success;

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];

#[test]
fn live_systemd_is_notified_of_ready_alive_reload_and_stop() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let here = Installation::new(&namespace, POLICY, "");
    ip(&namespace, "link add v1 type veth peer name x1");
    let path = here.folder().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = supervisor.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.starts_with(wanted) {
                return text;
            }
        }
    };
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "200000"),
    ];
    let agent = here.start_with(&[], &environment);
    assert_eq!(hear("READY=1"), "READY=1\nSTATUS=1 of 1 ports attached");
    for _ in 0..5 {
        hear("WATCHDOG=1");
    }
    agent.signal(Signal::SIGHUP);
    let reloading = hear("RELOADING=1\nMONOTONIC_USEC=");
    assert!(
        reloading
            .rsplit('=')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
            > 0,
        "{reloading}"
    );
    hear("READY=1");
    agent.signal(Signal::SIGTERM);
    hear("STOPPING=1");
    assert_eq!(agent.status(), Some(0));
    success(here.uc(&["detach", "--all", "--now"]));
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn live_the_watching_process_follows_its_ports_and_ends_with_the_agent() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let key = tempfile::tempdir().unwrap();
    let key = key.path().join("key");
    let more = format!(
        "[agent.watch]\nkey_file = \"{}\"\npeers = [\"10.0.0.0/8\"]\n",
        key.display()
    );
    let policy = format!("{POLICY}start = \"watch\"\n");
    let here = Installation::new(&namespace, &policy, &more);
    success(here.uc(&["watch", "--make-key", key.to_str().unwrap()]));
    ip(&namespace, "link add v1 type veth peer name x1");
    let agent = here.start(&[]);
    let pid = |ports: &'static [&'static str]| {
        let state = here.wait("a watch that stays", |state| {
            let [watch] = &state.watches[..] else {
                return false;
            };
            watch.ports == ports && watch.pid.is_some() && watch.error.is_none()
        });
        state.watches[0].pid.unwrap()
    };
    let first = pid(&["v1"]);
    ip(&namespace, "link add v2 type veth peer name x2");
    let second = pid(&["v1", "v2"]);
    assert_eq!(first, second);
    // A process that dies is restarted.
    kill(Pid::from_raw(second as i32), Signal::SIGKILL).unwrap();
    let state = here.wait("another one", |state| state.watches[0].starts == 2);
    assert!(
        state.watches[0]
            .error
            .as_ref()
            .is_some_and(|error| error.contains("signal 9"))
    );
    let third = here.wait("its number", |state| state.watches[0].pid.is_some());
    let third = third.watches[0].pid.unwrap();
    agent.kill();
    wait_until("the watch's end", || !is_running(third));
    success(here.uc(&["detach", "--all", "--now"]));
}
