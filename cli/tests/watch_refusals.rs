//! Refusals of `uc watch`: one line with the remedy, before it touches anything.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::uc::{outcome, refusal, success};

fn watch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.arg("watch").args(arguments);
    command
}

fn with_key(key: &Path) -> Command {
    let key = key.to_str().unwrap();
    watch(&["tap0", "--peer", "10.0.0.0/8", "--key-file", key])
}

#[test]
fn an_invalid_or_readable_key_is_refused_with_the_command_that_makes_one() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    refusal(with_key(&key), &["can't read the key", "--make-key"]);
    success(watch(&["--make-key", key.to_str().unwrap()]));
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    refusal(
        watch(&["--make-key", key.to_str().unwrap()]),
        &["exists", "--key-file", "another file"],
    );
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    refusal(with_key(&key), &["others may read", "chmod 600"]);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&key, "secret").unwrap();
    refusal(with_key(&key), &["holds no key", "32 hexadecimal digits"]);
    std::fs::write(&key, "00".repeat(16)).unwrap();
    refusal(with_key(&key), &["can guess it", "--make-key"]);
}

#[test]
fn a_key_file_that_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        refusal(with_key(path), &["not a regular file", "--make-key"]);
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    for (arguments, part) in [
        (&["--peer", "10.0.0/8"][..], "is not a prefix"),
        (&["--peer", "10.0.0.0/33"], "of this family has 32"),
        (&["--peer", "10.0.0.1/8"], "10.0.0.0/8"),
        (&["--span", "51ms"], "--span"),
        (&["--span", "0s"], "below 1us"),
        (&["--span", "999ns"], "--span"),
        (&["--fresh", "3601s"], "--fresh"),
        (&["--idle", "99999999s"], "--idle"),
        (&["--pace", "0bit"], "below 100kbit"),
        (&["--pace", "99kbit"], "--pace"),
        (&["--wait", "2s"], "--wait"),
        (&["--least", "1"], "--least"),
        (&["--probes", "33"], "--probes"),
        (&["--rounds", "0"], "--rounds"),
    ] {
        let mut command = watch(&["tap0", "--peer", "10.0.0.0/8", "--key-file", "/key"]);
        command.args(arguments);
        let outcome = outcome(command);
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{arguments:?}: {outcome:?}");
    }
    for (arguments, part) in [
        (&["--granter", "host"][..], "--granter"),
        (&["--granter", "10.0.0.5"], "--granter"),
        (&["--grant", "auto"], "--grant <RATE>"),
        (&["--grant", "99kbit"], "below 100kbit"),
        (&["--grant", "10Gbit", "--granter", "10.0.0.5:6654"], "PORT"),
    ] {
        let mut command = watch(&["tap0", "--peer", "10.0.0.0/8", "--key-file", "/key"]);
        command.args(arguments);
        let outcome = outcome(command);
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{arguments:?}: {outcome:?}");
    }
    let nothing = outcome(watch(&[]));
    assert_eq!(nothing.status, Some(2));
    assert!(nothing.stderr.contains("--key-file"), "{nothing:?}");
}

#[test]
fn a_granter_is_refused_without_a_rate_an_address_of_its_own_or_a_free_port() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let key = key.to_str().unwrap();
    success(watch(&["--make-key", key]));
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (rate, address, part) in [
        ("10Gbit", "192.0.2.1:6654", "an address of this host"),
        ("10Gbit", "0.0.0.0:6654", "not the address of one host"),
        ("10Gbit", "127.0.0.1:0", "not the address of one host"),
        ("10Gbit", &taken, "a free UDP port"),
    ] {
        let command = watch(&["--grant", rate, "--granter", address, "--key-file", key]);
        refusal(command, &[part]);
    }
    for (option, value) in [("--observe", None), ("--wait", Some("0s"))] {
        let grants = [
            "--grant",
            "10Gbit",
            "--granter",
            "127.0.0.1:9",
            "--key-file",
            key,
        ];
        let mut command = watch(&grants);
        command.arg(option).args(value);
        refusal(command, &[option, "turn pacing off"]);
    }
    let alone = outcome(watch(&["--grant", "10Gbit", "--key-file", key]));
    assert_eq!(alone.status, Some(2));
    assert!(alone.stderr.contains("--granter"), "{alone:?}");
}
