//! Commands of `uc-bench` by their old names: `uc` starts it with the same arguments.

use std::path::Path;
use std::process::Command;

use crate::common::uc::{UC, bench, outcome, refusal};

#[test]
fn old_name_gives_the_output_and_the_status_of_uc_bench() {
    for arguments in [
        &["run", "--help"][..],
        &["demo", "-h"],
        &["run", "no/such.toml"],
        &["verify", "--cases", "100", "--jobs", "1"],
        &["compare"],
    ] {
        let told = |program: &Path| {
            let mut command = Command::new(program);
            command.args(arguments);
            outcome(command)
        };
        let (old, new) = (told(Path::new(UC)), told(&bench()));
        assert_eq!(old.status, new.status, "{arguments:?}: {old:?}");
        assert_eq!(old.stderr, new.stderr, "{arguments:?}");
        assert_eq!(old.stdout, new.stdout, "{arguments:?}");
    }
}

#[test]
fn without_uc_bench_the_refusal_names_the_new_command_and_the_package() {
    // A link is no other program beside which the search would begin, and a copy may be busy.
    let folder = Path::new(UC).parent().unwrap();
    let alone = tempfile::tempdir_in(folder).unwrap();
    let uc = alone.path().join("uc");
    std::fs::hard_link(UC, &uc).unwrap();
    let names = [
        "run",
        "merge",
        "compare",
        "reproduce",
        "verify",
        "packetdrill",
        "demo",
    ];
    for name in names {
        let mut command = Command::new(&uc);
        command.args([name, "--any", "thing"]).env("PATH", "");
        let parts = [
            &format!("`uc {name}` is now `uc-bench {name}`"),
            "install the package undercurrent-bench",
            "cargo build -p uc-bench",
        ];
        refusal(command, &parts);
    }
}

#[test]
fn help_does_not_list_the_old_names() {
    let mut command = Command::new(UC);
    command.arg("--help");
    let told = outcome(command).stdout;
    for name in ["run", "demo", "packetdrill"] {
        let is_listed = |line: &str| line.trim_start().starts_with(&format!("{name} "));
        assert!(!told.lines().any(is_listed), "{told}");
    }
}
