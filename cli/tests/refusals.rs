//! Refusals of `uc`: one line with the object and the remedy, exit status 2, and nothing left
//! behind.

use std::process::Command;

use uc_lab::netns::Namespace;

use crate::common::agent::{ip, pair};
use crate::common::live_with;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{UC, outcome, refusal, success};

const TOOLS: [&str; 3] = ["unshare", "nsenter", "setpriv"];

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    for number in ["0", "16777217"] {
        let mut command = Command::new(UC);
        command.args(["attach", "lo", "--flows-max", number]);
        let told = outcome(command);
        assert_eq!(told.status, Some(2), "{number}: {told:?}");
        assert!(told.stderr.contains("1..=16777216"), "{number}: {told:?}");
    }
}

#[test]
fn an_unknown_interface_is_named() {
    let attach = |ports: &[&str]| {
        let mut command = Command::new(UC);
        command.arg("attach").args(ports);
        command
    };
    refusal(attach(&["nosuch0"]), &["'nosuch0'", "ip link"]);
    // The other port is not touched.
    refusal(attach(&["lo", "nosuch0"]), &["'nosuch0'", "ip link"]);
}

#[test]
fn live_attach_without_root_bpffs_or_bpf_is_refused_with_the_remedy() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let sandbox = Sandbox::new();
    refusal(
        sandbox.uc_as_nobody(&namespace, &["attach", "lo"]),
        &["may not", "needs root, or CAP_BPF", "sudo"],
    );
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    refusal(
        sandbox.uc_without_bpf(&namespace, &["attach", "lo"]),
        &["this kernel can't", "CONFIG_BPF_SYSCALL"],
    );
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    let bare = Sandbox::without_bpffs();
    refusal(
        bare.uc(&namespace, &["attach", "lo"]),
        &[
            "no BPF file system at /sys/fs/bpf",
            "mount -t bpf bpf /sys/fs/bpf -o mode=700",
        ],
    );
    assert_eq!(bare.pins(), Vec::<String>::new());
}

#[test]
fn live_repeated_attach_and_detach_are_refused_with_the_remedy() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&namespace, arguments);
    refusal(uc(&["detach", "lo"]), &["'lo'", "no port of this host is"]);
    success(uc(&["attach", "lo"]));
    refusal(
        uc(&["attach", "lo"]),
        &["'lo' is attached already", "uc detach lo"],
    );
    refusal(uc(&["detach", "nosuch0"]), &["'nosuch0'", "ip link"]);
    for arguments in [&["flows"][..], &["detach", "lo"]] {
        refusal(
            sandbox.uc_as_nobody(&namespace, arguments),
            &["may not", "needs root"],
        );
    }
    sandbox.close();
    refusal(
        sandbox.uc_as_nobody(&namespace, &["flows"]),
        &["may not look into /sys/fs/bpf", "needs root"],
    );
    success(uc(&["detach", "lo"]));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}

/// A control group that is removed when it is dropped; its processes must have ended.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    /// Creates a group with this limit, of version 1 or else 2; returns it and its file with the limit.
    fn new(bytes: u64) -> Option<(Self, std::path::PathBuf)> {
        let name = format!("uc-refused-{}", std::process::id());
        for (mount, limit) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let folder = std::path::Path::new(mount).join(&name);
            if std::fs::create_dir(&folder).is_ok() {
                let group = Self(folder);
                let file = group.0.join(limit);
                if std::fs::write(&file, bytes.to_string()).is_ok() {
                    return Some((group, file));
                }
            }
        }
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _may_be_busy = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn live_maps_without_memory_are_refused_with_the_control_groups_limit() {
    if !live_with(&TOOLS) {
        return;
    }
    let Some((group, file)) = MemoryGroup::new(48 << 20) else {
        uc_live::skip("a control group that limits memory");
        return;
    };
    let (namespace, sandbox) = (Namespace::new("host").unwrap(), Sandbox::new());
    let mut command = sandbox.command(&namespace, "sh");
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {UC} attach lo --flows-max 1000000",
        group.0.display()
    );
    command.args(["-ec", &script]);
    // 1,000,000 places of 300 bytes, and 65,536 flows' events of 400
    let told = refusal(command, &["MB", &file.display().to_string(), "--flows-max"]);
    let asked = told
        .split("about ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let asked: u64 = asked.and_then(|asked| asked.parse().ok()).unwrap_or(0);
    assert!(
        (200..400).contains(&asked) && told.contains("is 48 MB"),
        "{told}"
    );
    assert!(sandbox.is_clean());
}

#[test]
fn live_a_port_in_another_namespace_is_not_said_to_be_gone() {
    if !live_with(&TOOLS) {
        return;
    }
    let (here, sandbox) = (Namespace::new("here").unwrap(), Sandbox::new());
    let elsewhere = Namespace::new("elsewhere").unwrap();
    pair(&here, "v1");
    success(sandbox.uc(&here, &["attach", "v1", "--via", "tcx"]));
    let path = elsewhere.path();
    ip(&here, &format!("link set v1 netns {}", path.display()));
    let told = success(sandbox.uc(&here, &["status"]));
    let line = "(in another network namespace)";
    assert!(told.contains(line) && !told.contains("gone"), "{told}");
    success(sandbox.uc(&elsewhere, &["detach", "v1"]));
    assert!(sandbox.is_clean());
}
