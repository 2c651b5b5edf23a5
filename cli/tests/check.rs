//! `uc check`: it refuses what an agent refuses, for the same reasons; and its JSON answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::uc::{Outcome, outcome};

const GOOD: &str = "[[tenant]]\nname = \"acme\"\nports = \"vnet*\"\n";

fn uc(folder: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(arguments).current_dir(folder);
    outcome(command)
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    allow(path, 0o644);
}

#[test]
fn check_and_agent_refuse_the_same_policies_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let long = "n".repeat(108);
    for agent in [
        "log = \"info,[\"",
        &format!("socket = \"/run/{long}\""),
        "state = \"/var/../lib\"",
        "state = \"/run/undercurrent/agent.sock\"",
        "metrics = \"nowhere\"\nevents = -1",
    ] {
        write(
            &folder.path().join("t.toml"),
            &format!("{GOOD}[agent]\n{agent}\n"),
        );
        let checked = uc(folder.path(), &["check", "t.toml"]);
        let begun = uc(folder.path(), &["agent", "--once", "--config", "t.toml"]);
        assert_eq!(
            (checked.status, begun.status),
            (Some(1), Some(1)),
            "{agent}"
        );
        assert_eq!(checked.stdout, begun.stderr, "{agent}");
        assert!(checked.stdout.contains("t.toml:5:"), "{checked:?}");
    }
}

#[test]
fn a_file_that_others_can_write_is_refused_unless_it_is_a_draft() {
    let folder = tempfile::tempdir().unwrap();
    let above = folder.path().join("above");
    let below = above.join("below");
    fs::create_dir_all(&below).unwrap();
    let path = below.join("t.toml");
    write(&path, &format!("{GOOD}lw = 1\n"));
    for exposed in [&above, &below, &path] {
        allow(exposed, 0o777);
        let checked = uc(&below, &["check", "t.toml"]);
        let begun = uc(&below, &["agent", "--once", "--config", "t.toml"]);
        assert_eq!(
            (checked.status, begun.status),
            (Some(2), Some(2)),
            "{checked:?}"
        );
        assert_eq!(checked.stderr, begun.stderr);
        assert!(checked.stderr.contains("chmod go-w"), "{checked:?}");
        let draft = uc(&below, &["check", "--draft", "t.toml"]);
        assert!(
            draft.status == Some(1) && draft.stdout.contains("`lw`"),
            "{draft:?}"
        );
        allow(exposed, 0o755);
    }
}

#[test]
fn json_answers_are_objects_whatever_the_error() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("good.toml"), GOOD);
    write(&folder.path().join("bad.toml"), "[[tenant]]\nname = 3\n");
    for (arguments, status, valid) in [
        (&["good.toml"][..], 0, true),
        (&["good.toml", "--port", "vnet3"], 0, true),
        (&["good.toml", "--port", "other"], 0, true),
        (&["bad.toml"], 1, false),
        (&["missing.toml"], 2, false),
        (&["."], 2, false),
        (&["--fleet", "missing.toml"], 2, false),
    ] {
        let told = uc(folder.path(), &[&["check", "--json"], arguments].concat());
        assert_eq!(told.status, Some(status), "{arguments:?}: {told:?}");
        let answer: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(answer["valid"], valid, "{answer}");
        assert_eq!(answer["error"].is_string(), status == 2, "{answer}");
    }
}

#[test]
fn a_port_with_spaces_in_its_alias_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = GOOD.replace("vnet*", "alias:rack 3, *");
    write(&folder.path().join("t.toml"), &text);
    let port = [
        "check",
        "t.toml",
        "--port",
        "vnet3",
        "--port",
        "alias:rack 3, left",
    ];
    let told = uc(folder.path(), &port);
    assert!(told.stdout.starts_with("vnet3: tenant acme"), "{told:?}");
}

#[test]
fn shared_windows_are_shown_by_tenant_or_group_number() {
    let folder = tempfile::tempdir().unwrap();
    for (coupling, told) in [
        ("", "group of tenant acme by /32 and /128"),
        ("coupling = { group = 7 }\n", "group 7 by /32 and /128"),
    ] {
        let rule = format!("[[rule]]\nremote_port = 443\nlaw = \"coupled\"\n{coupling}");
        write(&folder.path().join("t.toml"), &format!("{GOOD}{rule}"));
        let said = uc(folder.path(), &["check", "t.toml", "--port", "vnet3"]);
        assert!(said.stdout.contains(told), "{said:?}");
    }
}
