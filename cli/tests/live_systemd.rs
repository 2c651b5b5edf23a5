//! The package's services under a systemd of their own: what only systemd does to them, such as their
//! mounts and all their filters of system calls, leaves them able to work, and to do nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::live_with;
use crate::common::process::Process;

const TOOLS: [&str; 8] = [
    "systemd",
    "systemctl",
    "unshare",
    "nsenter",
    "setpriv",
    "ip",
    "nft",
    "mount",
];

#[test]
fn live_the_services_work_under_systemd() {
    if !live_with(&TOOLS) {
        return;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let mut boot = Command::new("unshare");
    boot.args(["--mount", "--propagation", "private", "bash"]);
    boot.arg(own.join("tests/systemd/boot"));
    boot.arg(env!("CARGO_BIN_EXE_uc"));
    boot.args([&own.join("../packaging"), folder.path()]);
    let mut machine = Process::start(boot);
    let said: Vec<String> = machine.lines.by_ref().map_while(Result::ok).collect();
    if said == ["no cgroup2"] {
        return uc_live::skip("systemd needs a cgroup2 file system");
    }
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let confined = "CapEff:0000000000000000NoNewPrivs:1Seccomp:2";
    let expected = [
        "0 active running undercurrent",
        "0 active running undercurrent-couple",
        "0 active running undercurrent-watch",
        confined,
        confined,
        "stopped",
    ];
    let out = read("out");
    assert!(out.lines().eq(expected), "{said:?}\n{out}\n{}", read("log"));
}
