//! `uc-bench packetdrill` as a program: its counts, its exit statuses, its refusals.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::UC_BENCH;

/// The scripts of the crate `uc-drill`.
const SCRIPTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../research/drill/tests/scripts"
);

fn uc(arguments: &[&str]) -> Output {
    let mut uc = Command::new(UC_BENCH);
    let uc = uc.arg("packetdrill").args(arguments);
    uc.output().expect("uc runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn scripts_of_a_folder_are_counted_and_pass() {
    let count = std::fs::read_dir(SCRIPTS).expect("a folder").count();
    let played = uc(&[SCRIPTS, "--all"]);
    let shown = text(&played.stdout);
    assert_eq!(played.status.code(), Some(0), "{shown}");
    let summary = format!("{count} passed, 0 failed, 0 skipped");
    assert!(shown.contains(&summary), "{shown}");
    assert_eq!(shown.matches(": passed").count(), count, "{shown}");
}

#[test]
fn a_failure_is_printed_with_its_place_and_a_skipped_script_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, script: &str| {
        std::fs::write(folder.path().join(name), script).expect("room for a script");
    };
    let socket = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
    write("fails.pkt", &format!("{socket}+0 close(4) = 0\n"));
    write("skips.pkt", &format!("--udp_encapsulation=tcp\n{socket}"));
    write("unread.pkt", "0 close(3 = 0\n");
    write("accecn.pkt", "0 < SEWA 0:0(0) win 9 <ECN e1b 1>\n");
    write("defaults.sh", "sysctl -q net.ipv4.tcp_sack=7x\n");
    write("shell.pkt", &format!("{socket}+0 `touch no_program`\n"));
    write("defines.pkt", &format!("{socket}+0 `./DEFAULTS.sh`\n"));
    write("no_script.txt", "0 close(3 = 0\n");
    let folder = folder.path().to_string_lossy();
    let played = uc(&[&folder, "-D", "DEFAULTS=defaults"]);
    let shown = text(&played.stdout);
    assert_eq!(played.status.code(), Some(1), "{shown}");
    for part in [
        "fails.pkt:2:1: no file descriptor 4 is open",
        "unread.pkt:1:11: expected `,`",
        "0 passed, 2 failed, 4 skipped",
        "1  skipped: TCP over UDP is not supported",
        "1  skipped: the command touch is not supported",
        "1  skipped: Accurate ECN (RFC 9768) is not supported",
        "1  skipped: the setting net.ipv4.tcp_sack=7x is not supported",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn a_file_or_law_that_cannot_be_played_is_an_error() {
    let empty = tempfile::tempdir().expect("a folder");
    let empty = empty.path().to_string_lossy().into_owned();
    let script = Path::new(SCRIPTS).join("refused.pkt");
    let script = script.to_string_lossy();
    for (arguments, why) in [
        (&["/no/such.pkt"][..], "/no/such.pkt"),
        (&[&*empty], "no file ends in .pkt"),
        (
            &[&*script, "--port", "ecn"],
            "add --on live, or remove --port",
        ),
        (&[&*script, "--shell"], "add --on live, or remove --shell"),
        (
            &[&*script, "--on", "live", "--port", "none"],
            "there is no law 'none'",
        ),
        (&[], "FILE"),
    ] {
        let refused = uc(arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}
