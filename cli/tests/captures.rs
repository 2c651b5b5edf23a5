//! `uc run --pcap`: what tshark and tcpdump read in the files is what the records count.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::have;
use common::uc::{folder_with, names_in, outcome, refusal};
use serde_json::Value;
use tempfile::TempDir;

const TINY: &str = include_str!("common/tiny.toml");

/// Four Reno flows that fill a short queue: it drops, they retransmit, with SACK.
fn dropping() -> String {
    TINY.replace("count = 1\n", "count = 4\n")
        .replace("law = \"ecn\"\n", "")
        .replace("duration = \"2s\"", "duration = \"8s\"")
        .replace(
            "kind = \"threshold\", limit = \"200kB\", mark = \"30kB\"",
            "kind = \"droptail\", limit = \"20kB\"",
        )
}

fn uc(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(["run", "t.toml", "--on", "sim"]);
    command.args(arguments).current_dir(folder.path());
    command
}

/// Runs with a capture, and returns the first record and its file.
fn captured(folder: &TempDir, arguments: &[&str]) -> (Value, PathBuf) {
    let done = outcome(uc(
        folder,
        &[arguments, &["--out", "o", "--pcap", "p"]].concat(),
    ));
    assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
    assert_eq!(done.stderr, "");
    let records = std::fs::read(folder.path().join("o/records.json")).unwrap();
    let records: Value = serde_json::from_slice(&records).unwrap();
    (records[0].clone(), folder.path().join("p/only-0.pcapng"))
}

/// Returns the lines of a field of each packet that the filter chooses.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"]);
    // The checksums of whole packets are compared, too.
    command.args([
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let done = outcome(command);
    assert_eq!(done.status, Some(0), "{done:?}");
    done.stdout.lines().map(str::to_owned).collect()
}

/// Counts segments with payload that begin before the end of their connection's earlier payload.
fn retransmissions(file: &Path) -> u64 {
    let fields = ["tcp.stream", "tcp.seq_raw", "tcp.len"];
    let mut ends = std::collections::BTreeMap::new();
    let mut count = 0;
    for line in tshark(file, "tcp.len > 0", &fields) {
        let numbers: Vec<u64> = line
            .split('\t')
            .map(|field| field.parse().unwrap())
            .collect();
        let [stream, seq, length] = numbers[..] else {
            panic!("{line}");
        };
        let (seq, end) = (seq as u32, (seq as u32).wrapping_add(length as u32));
        let furthest = ends.entry(stream).or_insert(seq);
        if (seq.wrapping_sub(*furthest) as i32) < 0 {
            count += 1;
        } else {
            *furthest = end;
        }
    }
    count
}

fn sum(record: &Value, of_flow: impl Fn(&Value) -> u64) -> u64 {
    record["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(of_flow)
        .sum()
}

#[test]
fn live_tshark_counts_the_packets_drops_and_retransmissions_of_the_record() {
    if !have(&["tshark", "tcpdump", "capinfos"]) {
        return;
    }
    let folder = folder_with(&dropping());
    let (record, file) = captured(&folder, &[]);
    assert_eq!(
        tshark(&file, "_ws.malformed", &["frame.number"]),
        Vec::<String>::new()
    );
    let link = &record["links"][record["bottlenecks"][0].as_str().unwrap()];
    let number = |value: &Value| value.as_u64().unwrap();
    let outbound = tshark(
        &file,
        "frame.packet_flags_direction == 2",
        &["frame.comment"],
    );
    let dropped = outbound
        .iter()
        .filter(|comment| comment.starts_with("dropped: full"))
        .count();
    assert!(dropped > 10, "{dropped}");
    assert_eq!(dropped as u64, number(&link["dropped_packets"]));
    // At the end some packets wait in the queue.
    let waiting = record["queue"].as_array().unwrap().last().unwrap();
    let sent = number(&link["packets"]) + number(&waiting["backlog_packets"]);
    assert_eq!(outbound.len() as u64 - dropped as u64, sent);
    let told = sum(&record, |flow| {
        let last = flow["samples"].as_array().unwrap().last().unwrap();
        number(&last["total_retransmits"])
    });
    let seen = retransmissions(&file);
    // One that was sent just before the end has not come to the queue yet.
    assert!(
        seen >= 10 && seen.abs_diff(told) <= 2,
        "{seen} seen, {told} told"
    );
    let analysed = "tcp.analysis.retransmission || tcp.analysis.out_of_order";
    let analysed = tshark(&file, analysed, &["frame.number"]).len() as u64;
    assert_eq!(analysed, seen, "tshark's own analysis");
    // All IP checksums are right, and those of TCP of the packets without payload.
    let wrong = "ip.checksum.status == 0 || tcp.checksum.status == 0";
    assert_eq!(
        tshark(&file, wrong, &["frame.number"]),
        Vec::<String>::new()
    );
    let right = tshark(
        &file,
        "ip.checksum.status == 1 && tcp.checksum.status == 1",
        &["frame.number"],
    );
    assert!(right.len() > 100, "{}", right.len());
    let sacks = tshark(&file, "tcp.options.sack_le", &["frame.number"]);
    assert!(sacks.len() > 10, "{}", sacks.len());
    // tcpdump reads the same number of packets.
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-n", "-r"]).arg(&file);
    let lines = outcome(tcpdump).stdout.lines().count();
    assert_eq!(lines, tshark(&file, "frame", &["frame.number"]).len());
}

#[test]
fn live_marks_and_handshakes_are_in_the_file() {
    if !have(&["tshark"]) {
        return;
    }
    for family in ["ipv4", "ipv6"] {
        let family_key = format!("[network]\nfamily = \"{family}\"\n");
        let text = TINY.replace("count = 1\n", "count = 2\n");
        let text = text.replace("[network]\n", &family_key);
        let folder = folder_with(&text);
        let (record, file) = captured(&folder, &[]);
        let link = &record["links"][record["bottlenecks"][0].as_str().unwrap()];
        let marks = match family {
            "ipv4" => "ip.dsfield.ecn == 3",
            _ => "ipv6.tclass.ecn == 3",
        };
        let marked = tshark(&file, marks, &["frame.number"]);
        assert!(marked.len() > 5, "{family}: {}", marked.len());
        assert_eq!(
            Some(marked.len() as u64),
            link["marked_packets"].as_u64(),
            "{family}"
        );
        let syns = tshark(
            &file,
            "tcp.flags.syn == 1",
            &["tcp.flags.ece", "tcp.options.mss_val"],
        );
        assert_eq!(syns.len(), 4, "{family}: SYNs and their answers: {syns:?}");
        assert_eq!(
            tshark(&file, "_ws.malformed", &["frame.number"]),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_capture_changes_no_result_and_has_a_file_for_each_run() {
    let swept = format!(
        "{}[[sweep]]\nname = \"rate\"\nset = {{ \"network.rate\" = [\"5Mbit\", \"10Mbit\"] }}\n",
        dropping()
    );
    let folder = folder_with(&swept);
    let (with, without) = (
        ["--repeat", "2", "--out", "a", "--pcap", "p/q"],
        ["--repeat", "2", "--out", "b"],
    );
    for arguments in [&with[..], &without] {
        let done = outcome(uc(&folder, arguments));
        assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
    }
    let records =
        |name: &str| std::fs::read(folder.path().join(name).join("records.json")).unwrap();
    assert!(records("a") == records("b"), "records differ");
    let files =
        ["only-0-0", "only-0-1", "only-1-0", "only-1-1"].map(|name| format!("{name}.pcapng"));
    assert_eq!(names_in(&folder.path().join("p/q")), files);
}

#[test]
fn only_simulated_runs_are_captured() {
    let folder = folder_with(TINY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_uc"));
    command.args(["run", "t.toml", "--on", "live", "--pcap", "p"]);
    command.current_dir(folder.path());
    refusal(command, &["--pcap", "--on sim", "tcpdump"]);
    assert_eq!(names_in(folder.path()), ["t.toml"]);
}
