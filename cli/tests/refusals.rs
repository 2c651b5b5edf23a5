//! Refusals of `uc`: one line with the object and the remedy, exit status 2, and nothing left
//! behind.

use std::process::Command;

use uc_lab::netns::Namespace;

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
    refusal(uc(&["detach", "lo"]), &["nothing is attached", "'lo'"]);
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
