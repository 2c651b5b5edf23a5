//! The scripts of `tests/scripts` on a simulated host, and scripts that must not pass there.

use std::fs;
use std::path::{Path, PathBuf};

use uc_drill::sim::Host;
use uc_drill::{Tally, Verdict, parse, run};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = fs::read_dir(folder).expect("tests/scripts is part of the tree");
    let mut scripts: Vec<_> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    scripts.sort();
    scripts
}

fn judge(text: &str) -> Verdict {
    let script = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&script, &mut Host::new())
}

#[test]
fn every_script_passes_on_a_simulated_host() {
    let mut tally = Tally::default();
    for path in scripts() {
        let text = fs::read_to_string(&path).expect("a readable script");
        let head = text.lines().next().unwrap_or("");
        assert!(head.starts_with("// RFC "), "{}: {head}", path.display());
        tally.count(&path.display().to_string(), &judge(&text));
    }
    let count = scripts().len();
    assert!(count > 0 && tally.totals() == (count, 0, 0), "{tally}");
}

/// Replaces `from` in a script of the tree and judges the result.
fn changed(name: &str, from: &str, to: &str) -> Verdict {
    let paths = scripts();
    let path = paths
        .iter()
        .find(|path| path.ends_with(format!("{name}.pkt")));
    let path = path.unwrap_or_else(|| panic!("no script {name}"));
    let text = fs::read_to_string(path).expect("a readable script");
    assert!(text.contains(from), "{name} has no `{from}`");
    judge(&text.replacen(from, to, 1))
}

#[test]
fn a_script_fails_for_each_field_that_differs() {
    for (name, from, to, why) in [
        ("passive_open", "> P. 1:1001", "> . 1:1001", "flags ."),
        (
            "passive_open",
            "> F. 1001:1001(0)",
            "> F. 1002:1002(0)",
            "sequence number 1002",
        ),
        (
            "passive_open",
            "> P. 1:1001(1000)",
            "> P. 1:1000(999)",
            "999 bytes",
        ),
        (
            "passive_open",
            "1002:1002(0) ack 2",
            "1002:1002(0) ack 3",
            "ack 3",
        ),
        ("passive_open", "mss 1460", "mss 1461", "options <mss 1461"),
        ("closed_port", "ack 1 win 0", "ack 1 win 1", "win 1"),
        (
            "out_of_order",
            "sack 501:701 3001:4001",
            "sack 3001:4001",
            "options <sack 3001",
        ),
        (
            "timestamps",
            "TS val 200 ecr",
            "TS val 300 ecr",
            "TS val 300",
        ),
        ("timestamps", "ecr 7050>\n//", "ecr 7051>\n//", "ecr 7051"),
        ("ecn_granted", "> [ect0]", "> [noecn]", "NotEct"),
        (
            "retransmission",
            "* > P. 1:501(500)",
            "+.5 > P. 1:501(500)",
            "expected at",
        ),
        (
            "retransmission",
            "* > P. 1:501(500)",
            "+0 > P. 1:501(500)",
            "but it sent none",
        ),
        ("refused", "[ECONNREFUSED]", "[ECONNRESET]", "expected 104"),
        (
            "reset_elsewhere",
            "-1 ECONNRESET",
            "-1 EPIPE",
            "expected EPIPE",
        ),
        (
            "out_of_order",
            "MSG_PEEK) = 2000",
            "MSG_PEEK) = 2001",
            "recv returned 2000",
        ),
        (
            "active_open",
            "== TCP_CLOSE_WAIT",
            "!= TCP_CLOSE_WAIT",
            "assert",
        ),
        ("blocking_connect", "+0...0.05", "+0...0.02", "connect"),
        (
            "segments_of_one_line",
            "0.0 socket",
            "--strict_segments\n0.0 socket",
            "4000 bytes",
        ),
        (
            "segments_of_one_line",
            "1:4001(4000)",
            "1:3501(3500)",
            "3500 bytes",
        ),
        (
            "numbers_after_a_syn",
            "ack 999001",
            "ack 999002",
            "ack 999002",
        ),
        (
            "numbers_after_a_syn",
            "<sack 1001:2001>",
            "<sack 1002:2001>",
            "sack 1002",
        ),
        (
            "read_after_shutdown",
            "SHUT_RDWR) = 0",
            "SHUT_WR) = 0",
            "expected read to return at once",
        ),
        (
            "active_open",
            "assert tcpi_state == TCP_CLOSE_WAIT",
            "n = 2; n += 1; assert 1 < n * 2 <= tcpi_state & 0, n",
            "seen 1 and 6 and 0",
        ),
    ] {
        match changed(name, from, to) {
            Verdict::Failed { why: seen, .. } => {
                assert!(seen.contains(why), "{name}, {to}: {seen}");
            }
            other => panic!("{name}, {to}: {other:?}"),
        }
    }
}

#[test]
fn a_script_is_skipped_for_each_feature_that_the_host_lacks() {
    for (from, to, reason) in [
        ("mss 1000,", "mss 1000,FO,", "TCP Fast Open"),
        ("// RFC", "--udp_encapsulation=tcp\n// RFC", "TCP over UDP"),
        ("SO_REUSEADDR", "SO_LINGER", "the socket option SO_LINGER"),
        (
            "0.0 socket",
            "0.0 `sysctl -w kern.unknown=1`\n+0 socket",
            "kern.unknown=1",
        ),
        ("0.0 socket", "0.0 `true`\n+0 socket", "the command true"),
        ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_DGRAM"),
        (
            "SOCK_STREAM",
            "SOCK_STREAM|0x10",
            "sockets of type SOCK_STREAM|16",
        ),
        ("SO_REUSEADDR", "77", "the socket option 77"),
        (
            "mss 1000,",
            "mss 1000,sack 1:2 3:4 5:6 7:8 9:10,",
            "a fifth SACK block",
        ),
        ("+0 write(4", "+0 < udp (9)\n+0 write(4", "UDP datagrams"),
        ("+0 write(4", "+0 %{ import os }%\n+0 write(4", "the Python"),
    ] {
        match changed("passive_open", from, to) {
            Verdict::Skipped { reason: seen } => assert!(seen.contains(reason), "{to}: {seen}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}
