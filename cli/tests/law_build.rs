//! `uc law build`: what it refuses, and what it leaves of earlier results; and who takes its folder.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::agent::{POLICY, installation, pair};
use crate::common::law_page::{blocks, written};
use crate::common::uc::{AS_NOBODY, outcome, refusal, success};
use crate::common::{live, live_with};

fn build(root: &Path) -> Command {
    uc(root, &["law", "build", "abe"])
}

/// Returns `uc` in a folder.
fn uc(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(arguments).current_dir(root);
    command
}

/// Returns `uc-bench` in a folder.
fn bench(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::common::uc::bench());
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
    assert_eq!(
        crate::common::uc::names_in(&root.path().join("abe")),
        ["more"]
    );
}

#[test]
fn row_that_names_a_part_without_a_definition_is_refused_with_a_remedy() {
    for (from, to, remedy) in [
        ("reno, abe,", "renoo, abe,", "UC_MACHINES_MORE"),
        ("reno, abe,", "reno, abee,", "UC_CUTS_MORE"),
        ("uc_abe_remains", "uc_abe_remain", "_remains()"),
    ] {
        let root = written(|text| text.replace(from, to));
        let outcome = outcome(build(root.path()));
        assert_eq!(outcome.status, Some(1), "{outcome:?}");
        let last = outcome.stderr.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("remedy: ") && last.contains(remedy),
            "{outcome:?}"
        );
    }
}

#[test]
fn law_without_room_for_its_state_or_parameters_is_refused_with_the_trait_it_needs() {
    for (from, to, needs) in [
        (
            "| UC_SHALLOW",
            "| UC_TIMED",
            "law abe: trait UC_TIMED needs UC_FAR",
        ),
        (
            "reno, abe,",
            "delay, abe,",
            "law abe: machine delay needs UC_TIMED and UC_BYTES",
        ),
        (
            "UC_SHALLOW, 0, 0,",
            "UC_SHALLOW, 17, 0,",
            "law abe: its state may have 16 bytes, with UC_FAR 64",
        ),
        (
            "UC_SHALLOW, 0, 0,",
            "UC_SHALLOW, 0, 5,",
            "law abe: its parameters may have 4 bytes, with UC_FAR 12",
        ),
    ] {
        let root = written(|text| text.replace(from, to));
        let outcome = outcome(build(root.path()));
        assert_eq!(outcome.status, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(needs), "{outcome:?}");
    }
}

#[test]
fn experiments_take_the_laws_of_a_folder_in_the_simulator_and_of_this_version_only() {
    let root = written(|text| text);
    let (root, library) = (root.path(), root.path().join("abe/core.so"));
    let page = blocks()
        .into_iter()
        .find(|(language, ..)| language == "toml");
    let (_, file, text) = page.expect("the page's experiment");
    fs::write(root.join(file.expect("its name")), text).expect("room for a file");
    let run = |more: &[&str]| bench(root, &[&["run", "abe.toml"], more].concat());
    refusal(run(&["--on", "sim"]), &["abe.toml", "`abe`", "known here"]);
    refusal(
        run(&["--on", "sim", "--laws", "abe"]),
        &["abe/core.so", "uc law build"],
    );
    success(build(root));
    refusal(
        run(&["--on", "live", "--laws", "abe"]),
        &["--laws", "--on sim", "uc attach --laws"],
    );
    shards_under_a_law_are_merged_where_its_folder_has_another_name(root);
    fs::remove_file(&library).expect("the library");
    refusal(
        run(&["--on", "sim", "--laws", "abe"]),
        &["abe/core.so", "uc law build"],
    );
    fs::write(root.join("other.c"), "const long uc_shim_table = 1;").expect("room for a file");
    let mut clang = Command::new("clang");
    clang.args(["-shared", "-fPIC", "-o", "abe/core.so", "other.c"]);
    clang.current_dir(root);
    success(clang);
    refusal(
        run(&["--on", "sim", "--laws", "abe"]),
        &["abe/core.so", "another version", "uc law build"],
    );
    assert!(
        !root.join("out").exists(),
        "bad input leaves nothing behind"
    );
}

/// Makes the page's experiment at once and in shards, and compares the results.
fn shards_under_a_law_are_merged_where_its_folder_has_another_name(root: &Path) {
    let run = |more: &[&str]| {
        let run = [
            "run", "abe.toml", "--on", "sim", "--laws", "abe", "--repeat",
        ];
        let done = outcome(bench(root, &[&run, more].concat()));
        assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
    };
    run(&["2", "--out", "whole"]);
    run(&["2", "--shard", "0/2", "--out", "first"]);
    run(&["2", "--shard", "1/2", "--out", "second"]);
    fs::rename(root.join("abe"), root.join("elsewhere")).expect("a new name");
    let merge = ["merge", "first", "second", "--out", "merged"];
    refusal(
        bench(root, &merge),
        &["abe/core.so", "No such file", "uc law build"],
    );
    assert!(!root.join("merged").exists());
    let merged = outcome(bench(
        root,
        &[&merge[..], &["--laws", "elsewhere"]].concat(),
    ));
    assert!(matches!(merged.status, Some(0 | 1)), "{merged:?}");
    for name in uc_batch::outputs::FILES {
        let bytes = |out: &str| fs::read(root.join(out).join(name)).expect("a file of the result");
        assert!(bytes("whole") == bytes("merged"), "{name} differs");
    }
    fs::rename(root.join("elsewhere"), root.join("abe")).expect("the old name");
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
    assert_eq!(crate::common::uc::names_in(&root.path().join("abe")), made);

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
    let attach = uc(root.path(), &["attach", "lo", "--laws", "abe"]);
    refusal(attach, &["abe/port.bpf.o", "uc law build"]);
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
        assert_eq!(
            crate::common::uc::names_in(&root.path().join("abe")),
            ["more"]
        );
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
    refusal(command, &["is not UTF-8", "--out"]);
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

/// A policy whose ports run a law.
fn policy(law: &str) -> String {
    POLICY.replace("\"ecn\"", &format!("\"{law}\""))
}

#[test]
fn check_and_agent_take_the_laws_of_a_folder_and_refuse_others() {
    let root = written(|text| text);
    let (root, abe) = (root.path(), root.path().join("abe"));
    success(build(root));
    let checked = |law: &str, more: &[&str]| {
        fs::write(root.join("p.toml"), policy(law)).expect("room for a file");
        fs::set_permissions(root.join("p.toml"), Permissions::from_mode(0o644)).expect("own file");
        let mut command = uc(root, &["check", "p.toml"]);
        command.args(more);
        outcome(command)
    };
    let begun = |laws: &str| {
        let arguments = ["agent", "--once", "--config", "p.toml", "--laws", laws];
        uc(root, &arguments)
    };
    let valid = checked("abe", &["--laws", "abe"]);
    assert_eq!(valid.status, Some(0), "{valid:?}");
    for more in [&[][..], &["--laws", "abe"]] {
        let law = if more.is_empty() { "abe" } else { "abd" };
        let faulty = checked(law, more);
        assert_eq!(faulty.status, Some(1), "{faulty:?}");
        assert!(faulty.stdout.starts_with("p.toml:7:"), "{faulty:?}");
        assert!(faulty.stdout.contains(law), "{faulty:?}");
    }
    let faulty = outcome(begun("abe"));
    assert_eq!(faulty.status, Some(1), "{faulty:?}");
    assert!(faulty.stderr.contains("`abd`"), "{faulty:?}");

    let missing = "nosuch/port.bpf.o";
    refusal(
        uc(root, &["check", "p.toml", "--laws", "nosuch"]),
        &[missing],
    );
    refusal(begun("nosuch"), &[missing]);
    fs::set_permissions(&abe, Permissions::from_mode(0o777)).expect("own folder");
    let check = |more: &[&str]| {
        let arguments = ["check", "p.toml", "--laws", "abe"];
        uc(root, &[&arguments[..], more].concat())
    };
    for exposed in [begun("abe"), check(&[])] {
        refusal(
            exposed,
            &["abe may be written by users other", "chmod go-w"],
        );
    }
    assert_eq!(outcome(check(&["--draft"])).status, Some(1), "law abd");
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
        assert_eq!(
            crate::common::uc::names_in(&root.path().join("abe")),
            ["more"]
        );
    }
}

#[test]
fn live_agent_runs_the_laws_of_a_folder_and_keeps_them_when_a_policy_names_others() {
    if !live_with(&["unshare", "nsenter", "mount", "ip", AS_NOBODY[0]]) {
        return;
    }
    let root = written(|text| text);
    success(build(root.path()));
    let laws = root.path().join("abe");
    let laws = laws.to_str().expect("a name in UTF-8");
    let (namespace, here) = installation(&policy("abe"));
    pair(&namespace, "v1");
    let agent = here.start(&["--laws", laws]);
    here.wait_for(&["v1"]);
    success(here.uc(&["flows", "--filter", "law=abe"]));
    refusal(
        here.uc(&["attach", "v1", "--laws", laws, "--law", "abe"]),
        &["keeps this host's ports", "--laws", "uc agent --laws DIR"],
    );
    here.write_policy(&policy("abd"));
    let state = here.wait("the refusal", |state| !state.reload.accepted);
    assert!(state.reload.errors[0].contains("abd"), "{state:#?}");
    assert_eq!(state.policy.generation, 1);
    here.write_policy(&policy("ecn"));
    here.wait("law ecn", |state| state.policy.generation == 2);
    here.write_policy(&policy("abe"));
    let state = here.wait("law abe", |state| state.policy.generation == 3);
    assert!(state.reload.accepted && state.error.is_none(), "{state:#?}");
    agent.end();

    // who may not open the pins learns that, not that there is no such law
    for arguments in [
        &["attach", "v1", "--law", "abe"][..],
        &["flows", "--filter", "law=abe"],
    ] {
        let told = outcome(here.sandbox.uc_as_nobody(&namespace, arguments));
        assert_eq!(told.status, Some(2), "{told:?}");
        assert!(told.stderr.contains("is unknown: may not"), "{told:?}");
        assert!(told.stderr.contains("needs root"), "{told:?}");
    }
    success(here.uc(&["detach", "--all", "--now"]));
    assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
}
