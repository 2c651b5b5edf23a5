//! Failures of writing `uc`'s output: an error in one line, or silence if the reader has gone.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use crate::common::uc::folder_with;

const POLICY: &str = "[[tenant]]\nname = \"acme\"\nports = \"vnet*\"\n";

/// Commands that print, each in a different way; the policy is `t.toml`.
const PRINTING: [&[&str]; 7] = [
    &["check", "--draft", "t.toml"],
    &["check", "--draft", "t.toml", "--json"],
    &["check", "--draft", "t.toml", "--port", "vnet3"],
    &["check", "--draft", "none.toml", "--json"],
    &["check", "--schema"],
    &["--help"],
    &["--version"],
];

fn uc(arguments: &[&str], stdout: Stdio) -> Output {
    let folder = folder_with(POLICY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(arguments).current_dir(folder.path());
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn();
    child.unwrap().wait_with_output().unwrap()
}

#[test]
fn a_full_device_is_an_error_in_one_line() {
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let done = uc(arguments, full.into());
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
        assert!(told.starts_with("uc: could not write the output"), "{told}");
    }
}

#[test]
fn a_closed_pipe_ends_the_command_silently() {
    for arguments in PRINTING {
        let (reads, writes) = std::io::pipe().unwrap();
        drop(reads);
        let done = uc(arguments, writes.into());
        let told = String::from_utf8(done.stderr).unwrap();
        let quiet = done.status.signal() == Some(libc::SIGPIPE) || done.status.code() == Some(141);
        assert!(
            quiet && told.is_empty(),
            "{arguments:?}: {:?}: {told}",
            done.status
        );
    }
}

#[test]
fn an_unwritable_standard_error_does_not_change_the_status() {
    let folder = folder_with("[[tenant]]\nname = 3\n");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
        command.args(arguments).current_dir(folder.path());
        command
            .stdout(Stdio::null())
            .stderr(full())
            .status()
            .unwrap()
    };
    assert_eq!(status(&["check", "none.toml"]).code(), Some(2));
    assert_eq!(status(&["check", "--draft", "t.toml"]).code(), Some(1));
    assert_eq!(status(&["no-such-command"]).code(), Some(2));
}
