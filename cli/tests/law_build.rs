//! `uc law build`: what it refuses, and what it leaves of earlier results.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use common::law_page::written;
use common::live;
use common::uc::{outcome, refusal, success};

fn build(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(["law", "build", "abe"]).current_dir(root);
    command
}

/// Returns `uc` in a folder.
fn uc(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(arguments).current_dir(root);
    command
}

#[test]
fn error_in_a_law_is_told_with_its_file_and_line_and_leaves_nothing() {
    let root = written(|text| text.replace("(__u64)window * 85", "(__u64)widow * 85"));
    let outcome = outcome(build(root.path()));
    assert_eq!(outcome.status, Some(1), "{outcome:?}");
    let told = &outcome.stderr;
    assert!(
        told.starts_with("clang refuses the laws:\nabe/more/law.h:11:"),
        "{told}"
    );
    assert!(
        told.contains("'widow'") && !told.contains(".uc-law-"),
        "{told}"
    );
    assert_eq!(common::uc::names_in(&root.path().join("abe")), ["more"]);
}

#[test]
fn build_needs_no_functions_and_touches_nothing_but_its_results() {
    let root = written(|text| {
        text.replace("reno, abe,", "reno, half,")
            .replace("X(abe)", "")
    });
    fs::remove_file(root.path().join("abe/more/law.h")).expect("a file");
    fs::create_dir(root.path().join("abe/law.work")).expect("room for a folder");
    let builds = [build(root.path()), build(root.path())].map(|mut build| build.spawn().unwrap());
    for mut build in builds {
        assert!(build.wait().expect("it ends").success(), "two at once");
    }
    let made = ["core.so", "law.work", "more", "port.bpf.o"];
    assert_eq!(common::uc::names_in(&root.path().join("abe")), made);

    let object = fs::read(root.path().join("abe/port.bpf.o")).expect("the programs");
    fs::remove_file(root.path().join("abe/core.so")).expect("a file");
    fs::create_dir(root.path().join("abe/core.so")).expect("room for a folder");
    refusal(build(root.path()), &["abe/core.so", "--out"]);
    let after = fs::read(root.path().join("abe/port.bpf.o")).expect("the programs");
    assert_eq!(after, object);
}

#[test]
fn laws_that_cannot_be_are_refused_with_a_remedy() {
    let root = written(|text| text.replace("X(ABE, abe,", "X(ABE, dctcp,"));
    refusal(build(root.path()), &["the tree has a law", "'dctcp'"]);
    let root = written(|text| text.replace("#define UC_LAWS_MORE", "#define UC_LAWS_MANY"));
    refusal(
        build(root.path()),
        &["more/table.h", "no law", "UC_LAWS_MORE"],
    );
    fs::remove_file(root.path().join("abe/more/table.h")).expect("a file");
    refusal(build(root.path()), &["no file abe/more/table.h"]);
    let root = written(|text| text);
    let mut command = build(root.path());
    command.env("PATH", "/nonexistent");
    refusal(command, &["clang", "install it"]);
    let mut object = Command::new(env!("CARGO_BIN_EXE_uc"));
    object
        .args(["attach", "lo", "--laws", "abe"])
        .current_dir(root.path());
    refusal(object, &["abe/port.bpf.o", "uc law build"]);
}

#[test]
fn compiler_that_a_signal_ends_is_told_with_the_signal_and_a_remedy() {
    let root = written(|text| text);
    for (script, how) in [("kill -9 $$", "SIGKILL"), ("exit 3", "exit status: 3")] {
        let script = format!("#!/bin/sh\n{script}\n");
        fs::write(root.path().join("script"), script).expect("room for a file");
        // copied by another process: a child of another thread may still hold files of this one open
        let mut copy = Command::new("sh");
        copy.args(["-ec", "cp script clang; chmod 755 clang"])
            .current_dir(root.path());
        success(copy);
        let mut command = build(root.path());
        command.env("PATH", root.path());
        refusal(command, &["clang ended", how, "dmesg", "install"]);
        assert_eq!(common::uc::names_in(&root.path().join("abe")), ["more"]);
    }
}

#[test]
fn same_law_is_built_to_the_same_bytes_in_folders_of_any_name() {
    let (first, second) = (written(|text| text), written(|text| text));
    let dashed = first.path().join("-abe");
    fs::rename(first.path().join("abe"), &dashed).expect("a new name");
    refused_as_an_option(first.path());
    success(uc(first.path(), &["law", "build", "--", "-abe"]));

    let odd = OsStr::from_bytes(b"ab\xff");
    fs::rename(second.path().join("abe"), second.path().join(odd)).expect("a new name");
    let mut command = uc(second.path(), &["law", "build"]);
    command.arg(odd);
    refusal(command, &["no UTF-8", "--out"]);
    let mut command = uc(second.path(), &["law", "build", "--out", "made"]);
    command.arg(odd);
    success(command);

    for name in ["port.bpf.o", "core.so"] {
        let bytes = |folder: &Path| fs::read(folder.join(name)).expect("what was made");
        let made = bytes(&second.path().join("made"));
        assert!(bytes(&dashed) == made, "{name} differs");
    }
}

/// Checks that a folder that looks like an option is refused with the remedy.
fn refused_as_an_option(root: &Path) {
    let told = outcome(uc(root, &["law", "build", "-abe"]));
    assert_eq!(told.status, Some(2), "{told:?}");
    assert!(told.stderr.contains("use '-- -a"), "{told:?}");
}

#[test]
fn live_law_that_never_ends_is_refused_with_its_place() {
    if !live() {
        return;
    }
    for (body, place) in [
        ("for (;;) window = (window * 7) ^ flow->cuts;", "@ law.h:"),
        (
            "volatile __u32 x = window;\nwhile (x)\nx = x | 1;",
            "@ law.h:",
        ),
    ] {
        let root = written(|text| text.replace("(void)flow;", &format!("(void)flow;\n{body}")));
        let told = outcome(build(root.path()));
        assert_eq!(told.status, Some(1), "{told:?}");
        let stderr = &told.stderr;
        assert!(
            stderr.contains("program 'uc_to_guest_port' at `"),
            "{stderr}"
        );
        assert!(stderr.contains(place), "{stderr}");
        assert!(stderr.contains("nothing is written"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(common::uc::names_in(&root.path().join("abe")), ["more"]);
    }
}
