//! `uc tune`: new connections of a control group have its settings, others are untouched, and nothing
//! is left behind.

use std::fs;
use std::path::Path;

use nix::sys::statfs::statfs;

use crate::common::by_hand::TOOLS;
use crate::common::live_with;
use crate::common::sandbox::Sandbox;
use crate::common::tuned::{Group, assert_tuning_holds, can_be_tuned, namespace};
use crate::common::uc::{refusal, success};

#[test]
fn live_tuned_connections_have_the_settings_and_others_are_untouched() {
    if !live_with(&TOOLS) || !can_be_tuned() {
        return;
    }
    let Some(group) = Group::make("tune") else {
        return;
    };
    let (namespace, sandbox) = (namespace(), Sandbox::new());
    let uc = |words: &[&str]| sandbox.uc(&namespace, &[&["tune"], words].concat());
    let pins = sandbox.path("/sys/fs/bpf/undercurrent-tune");
    assert_tuning_holds(&namespace, group, uc, &pins);
}

#[test]
fn live_tuning_that_cannot_be_is_refused_in_words_and_leaves_nothing() {
    if !live_with(&TOOLS) {
        return;
    }
    let Some(group) = Group::make("refused") else {
        return;
    };
    let (namespace, sandbox) = (namespace(), Sandbox::new());
    let uc = |words: &[&str]| sandbox.uc(&namespace, &[&["tune"], words].concat());
    let path = group.path();
    let reno = ["--congestion-control", "reno"];
    for (place, words) in [
        (
            "/proc",
            ["/proc is not the folder of a control group", "cgroup2"],
        ),
        (
            "/nowhere",
            [
                "/nowhere is not the folder of a control group",
                "/proc/PID/cgroup",
            ],
        ),
        (
            &format!("{path}/cgroup.procs"),
            ["cgroup.procs is not the folder", "cgroup2"],
        ),
    ] {
        refusal(uc(&[&[place], &reno[..]].concat()), &words);
    }
    // Where the machine has a version 1 hierarchy.
    let first = Path::new("/sys/fs/cgroup/memory");
    if statfs(first).is_ok_and(|status| status.filesystem_type().0 == 0x27_e0eb) {
        let words = ["/sys/fs/cgroup/memory", "version 1", "unified"];
        refusal(
            uc(&["/sys/fs/cgroup/memory", "--initial-window", "20"]),
            &words,
        );
    }
    refusal(
        uc(&[path, "--congestion-control", "no-such"]),
        &["no congestion control 'no-such'; it has", "reno"],
    );
    for wrong in ["1", "201", "65535"] {
        let words = [
            &format!("minimum RTO of {wrong} ms"),
            "two ticks",
            "to 200 ms",
        ];
        refusal(uc(&[path, "--rto-min", wrong]), &words);
    }
    refusal(
        uc(&[path, "--remove"]),
        &["is not tuned", "uc tune --status"],
    );
    assert!(!sandbox.path("/sys/fs/bpf/undercurrent-tune").exists());

    // One tuning decides for a socket.
    let inner = Path::new(path).join("inner");
    fs::create_dir(&inner).unwrap();
    let inner = inner.to_str().unwrap();
    success(uc(&[path, "--initial-window", "20"]));
    for other in [path, inner] {
        let words = [other, "can't be tuned", path, "remove the tuning first"];
        refusal(uc(&[&[other], &reno[..]].concat()), &words);
    }
    success(uc(&[path, "--remove"]));
    success(uc(&[inner, "--initial-window", "20"]));
    refusal(uc(&[&[path], &reno[..]].concat()), &[path, inner]);
    success(uc(&[inner, "--remove"]));
    fs::remove_dir(inner).unwrap();
    assert!(!sandbox.path("/sys/fs/bpf/undercurrent-tune").exists());

    let without = Sandbox::without_bpffs();
    let words = ["tune", path, "--initial-window", "20"];
    refusal(
        without.uc(&namespace, &words),
        &["/sys/fs/bpf", "mount -t bpf"],
    );
}
