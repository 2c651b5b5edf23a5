//! Bytes of guests and strangers are read by processes without rights, which still do their work.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use uc_guest::coupling::wire::{Frame, GroupName, GroupReport, Parts};
use uc_lab::netns::Namespace;

use crate::common::agent::{Installation, ip, pair};
use crate::common::bench::wait_until;
use crate::common::confined::{NOBODY, confined_child, runs};
use crate::common::live_with;
use crate::common::process::Process;
use crate::common::uc::{success, uc_unprivileged};

/// `uc couple` with the guests `red` and `blue`, which connect to its sockets.
struct Couple {
    process: Process,
    folder: tempfile::TempDir,
}

impl Couple {
    fn start() -> Self {
        let mut command = Command::new("sh");
        // As a careless starter leaves a descriptor of its own.
        command.args(["-ec", "exec 7< /etc/hostname; exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_uc"));
        Self::of(command)
    }

    /// Adds the arguments to a command that runs `uc`.
    fn of(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        command.args(["couple", "--json", "--prefix4", "0", "--prefix6", "0"]);
        for name in ["red", "blue"] {
            let path = folder.path().join(name);
            command.args(["--guest", &format!("{name}={},listen", path.display())]);
        }
        let process = Process::start(command);
        Self { process, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for the next event of a guest; returns whether it is coupled.
    fn event(&mut self, guest: &str) -> bool {
        loop {
            let line = self.process.lines.next().expect("it runs").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["guest"] == guest {
                return event["coupled"] == true;
            }
        }
    }
}

fn connect(path: &Path) -> UnixStream {
    wait_until("a socket", || path.exists());
    let stream = UnixStream::connect(path).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    stream
}

fn report(at_ns: u64) -> Vec<u8> {
    let group = GroupReport {
        name: GroupName::default(),
        opened_ns: 1,
        window_bytes: 14_480,
        ssthresh_bytes: u32::MAX / 2,
        flight_bytes: 14_480,
        used_bytes: 14_480,
        srtt_us: 800_000,
        mss_bytes: 1448,
        ..GroupReport::default()
    };
    let parts = Parts::Report(vec![group]);
    Frame { at_ns, parts }.encode()
}

/// Sends a report, and waits until it is answered.
fn is_answered(stream: &mut UnixStream, at_ns: u64) -> bool {
    stream.write_all(&report(at_ns)).unwrap();
    let (mut bytes, mut more) = (Vec::new(), [0; 256]);
    loop {
        let length = stream.read(&mut more).unwrap();
        bytes.extend_from_slice(&more[..length]);
        if length == 0 {
            return false;
        }
        if let Some((frame, _)) = Frame::decode(&bytes).unwrap() {
            return frame.at_ns == at_ns && matches!(frame.parts, Parts::Answer(_));
        }
    }
}

/// Returns pseudorandom bytes (SplitMix64).
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn live_coupling_has_no_rights_and_random_bytes_of_a_guest_end_nothing() {
    if !live_with(&[]) {
        return;
    }
    let mut couple = Couple::start();
    let worker = confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
    let mut blue = connect(&couple.path("blue"));
    assert!(is_answered(&mut blue, 1));
    assert!(couple.event("blue"));
    for seed in 1..=4 {
        // Bytes only, bytes behind a whole frame's beginning, and a whole frame with one byte changed.
        let mut bytes = random(seed, 20_000);
        match seed {
            2 => bytes[..12].copy_from_slice(&report(1)[..12]),
            3 => {
                let frame = report(1);
                bytes[..frame.len()].copy_from_slice(&frame);
                bytes[frame.len() / 2] ^= 0x10;
            }
            _ => {}
        }
        let mut red = connect(&couple.path("red"));
        // It may be closed before all of it is read.
        let _closed = red.write_all(&bytes);
        assert!(!couple.event("red"), "seed {seed}");
        assert!(is_answered(&mut blue, 1 + seed), "seed {seed}");
    }
    // It has gone when the answer is sent.
    let signal = |signal| kill(Pid::from_raw(worker as i32), signal).unwrap();
    signal(Signal::SIGSTOP);
    connect(&couple.path("red")).write_all(&report(1)).unwrap();
    signal(Signal::SIGCONT);
    assert!(!couple.event("red"));
    let mut red = connect(&couple.path("red"));
    assert!(is_answered(&mut red, 1));
    assert!(couple.event("red"));
    assert!(is_answered(&mut blue, 6));
    assert!(runs(worker), "the same process");

    let Couple { process, folder } = couple;
    process.end();
    assert!(!runs(worker) && !folder.path().join("red").exists());
}

#[test]
fn live_either_of_the_two_coupling_processes_ends_with_the_other() {
    if !live_with(&[]) {
        return;
    }
    for opener_first in [false, true] {
        let couple = Couple::start();
        let worker = confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
        if opener_first {
            drop(couple);
            wait_until("the other has ended", || !runs(worker));
        } else {
            kill(Pid::from_raw(worker as i32), Signal::SIGKILL).unwrap();
            assert_eq!(couple.process.status(), Some(2));
        }
    }
}

#[test]
fn live_coupling_works_without_root() {
    if !live_with(&["setpriv"]) {
        return;
    }
    let mut couple = Couple::of(uc_unprivileged());
    confined_child(couple.process.id(), &["couple", "--confined"], NOBODY);
    let mut red = connect(&couple.path("red"));
    assert!(is_answered(&mut red, 1));
    assert!(couple.event("red"));
    couple.process.end();
}

#[test]
fn live_coupling_ends_without_the_right_to_signal_other_users() {
    if !live_with(&["setpriv"]) {
        return;
    }
    let mut command = Command::new("setpriv");
    let fewer = ["--bounding-set=-kill", "--inh-caps=-all", "--"];
    command.args(fewer).arg(env!("CARGO_BIN_EXE_uc"));
    let couple = Couple::of(command);
    // As another user it could not be killed.
    let worker = confined_child(couple.process.id(), &["couple", "--confined"], 0);
    couple.process.end();
    assert!(!runs(worker));
}

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];
const METRICS: &str = "127.0.0.1:9464";

/// Sends bytes to the metrics, and then perhaps the end; returns the answer.
fn asked(namespace: &Namespace, bytes: &[u8], ends: bool) -> String {
    let exchange = || {
        let mut stream = TcpStream::connect(METRICS).ok()?;
        stream.write_all(bytes).ok()?;
        if ends {
            stream.shutdown(std::net::Shutdown::Write).ok()?;
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    namespace.enter(exchange).unwrap().unwrap_or_default()
}

/// Sends bytes to the metrics, and has gone when the answer comes.
fn leave(bytes: &[u8]) {
    // It may be refused, as more than 64 are.
    let stream = TcpStream::connect(METRICS);
    let _sent = stream.and_then(|mut stream| stream.write_all(bytes));
}

/// Writes CNI's result for the pod `shop/NAME` behind the interface `NAME`.
fn add_pod(here: &Installation, name: &str) {
    let text = format!(
        r#"{{"kind":"cniCacheV1","containerId":"{name}","ifName":"eth0",
            "cniArgs":[["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","{name}"]],
            "result":{{"cniVersion":"1.0.0","interfaces":[{{"name":"{name}"}}]}}}}"#
    );
    let path = here.sandbox.path("/var/lib/cni/results");
    std::fs::write(path.join(name), text).unwrap();
}

#[test]
fn live_the_agents_parsers_have_no_rights_and_are_replaced_when_they_die() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let policy = "[[tenant]]\nname = \"shop\"\nports = [\"cni:shop/*\"]\n";
    let here = Installation::new(&namespace, policy, "");
    here.write(&format!("[agent]\nmetrics = \"{METRICS}\"\n{policy}"));
    let mut folders = here.sandbox.command(&namespace, "sh");
    let script =
        "mkdir -p /var/lib/cni && mount -t tmpfs tmpfs /var/lib/cni && mkdir /var/lib/cni/results";
    folders.args(["-ec", script]);
    success(folders);
    ip(&namespace, "link set lo up");
    for name in ["v1", "v2", "v3"] {
        pair(&namespace, name);
    }
    add_pod(&here, "v1");
    let junk = here.sandbox.path("/var/lib/cni/results/junk");
    std::fs::write(junk, random(7, 10_000)).unwrap();
    let agent = here.start(&[]);
    here.wait_for(&["v1"]);
    let own = agent.pid().as_raw() as u32;
    let names = confined_child(own, &["agent", "--confined", "names"], NOBODY);
    let metrics = confined_child(own, &["agent", "--confined", "metrics"], NOBODY);
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    let is_served = || asked(&namespace, request, false).contains("uc_port_attached{port=\"v1\"");
    wait_until("metrics", is_served);

    for seed in 0..20 {
        asked(&namespace, &random(seed, 4000), true);
        let mut begun = request.to_vec();
        begun.splice(10.., random(seed, 4000));
        asked(&namespace, &begun, true);
        namespace.enter(|| leave(request)).unwrap();
    }
    assert!(is_served());
    assert!(runs(metrics), "the same process");
    add_pod(&here, "v2");
    here.wait_for(&["v1", "v2"]);
    assert!(runs(names), "the same process");

    for pid in [names, metrics] {
        kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
    }
    add_pod(&here, "v3");
    let state = here.wait_for(&["v1", "v2", "v3"]);
    assert_eq!(state.counts.detached, 0);
    wait_until("metrics", is_served);
    let names = confined_child(own, &["agent", "--confined", "names"], NOBODY);
    agent.kill();
    wait_until("its parts have ended", || !runs(names));
    success(here.uc(&["detach", "--all", "--now"]));
}
