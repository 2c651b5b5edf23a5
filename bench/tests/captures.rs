//! `uc-bench run --pcap`, `--qlog`: what tshark, tcpdump and a parser of JSON read in the files is what the
//! records count.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use uc_live::command::{folder_with, names_in, outcome, refusal};
use uc_live::have;

use crate::common::{TINY, UC_BENCH};

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
    let mut command = Command::new(UC_BENCH);
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
    let mut command = Command::new(UC_BENCH);
    command.args(["run", "t.toml", "--on", "live", "--pcap", "p"]);
    command.current_dir(folder.path());
    refusal(command, &["--pcap", "--on sim", "tcpdump"]);
    assert_eq!(names_in(folder.path()), ["t.toml"]);
}

/// Returns the texts of a JSON text sequence (RFC 7464): the header, and the events.
fn texts(file: &Path) -> (Value, Vec<Value>) {
    let whole = std::fs::read_to_string(file).unwrap();
    let mut texts = whole.split('\u{1e}');
    assert_eq!(texts.next(), Some(""), "each text begins with a separator");
    let parse = |text: &str| -> Value {
        assert!(text.ends_with('\n'), "{text}");
        serde_json::from_str(text).unwrap()
    };
    let mut texts = texts.map(parse);
    (texts.next().unwrap(), texts.collect())
}

#[test]
fn a_qlog_file_for_each_flow_has_the_numbers_of_its_samples_and_the_events_of_its_law() {
    // The second flow has no law.
    let native = "[[case.guests]]\nname = \"own\"\ncount = 1\nstack = \"legacy\"\n\n[[expect]]";
    let text = TINY.replace("[[expect]]", native);
    let text = text.replace("duration = \"2s\"", "duration = \"4s\"");
    let folder = folder_with(&text);
    let done = outcome(uc(
        &folder,
        &["--repeat", "2", "--out", "o", "--qlog", "q/flows"],
    ));
    assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
    let names = [
        "only-0-own-0",
        "only-0-virtual-0",
        "only-1-own-0",
        "only-1-virtual-0",
    ];
    let names = names.map(|name| format!("{name}.sqlog"));
    let qlogs = folder.path().join("q/flows");
    assert_eq!(names_in(&qlogs), names);
    let records = std::fs::read(folder.path().join("o/records.json")).unwrap();
    let records: Value = serde_json::from_slice(&records).unwrap();
    for (record, run) in records.as_array().unwrap().iter().zip(0..) {
        for flow in record["flows"].as_array().unwrap() {
            let group = flow["group"].as_str().unwrap();
            let (head, events) = texts(&qlogs.join(format!("only-{run}-{group}-0.sqlog")));
            assert_eq!(head["qlog_version"], "0.3");
            assert_eq!(head["qlog_format"], "JSON-SEQ");
            let times = events.iter().map(|event| event["time"].as_f64().unwrap());
            assert!(times.is_sorted(), "{group}");
            assert_samples(flow, &events, group == "virtual");
            assert_events(flow, &events);
        }
    }
}

/// Returns the data of the events with this name, and with this key in their data.
fn data<'a>(events: &'a [Value], name: &str, key: &str) -> Vec<(f64, &'a Value)> {
    let named = events.iter().filter(|event| event["name"] == name);
    let with_key = named.filter(|event| event["data"].get(key).is_some());
    let data = with_key.map(|event| (event["time"].as_f64().unwrap(), &event["data"]));
    data.collect()
}

fn assert_samples(flow: &Value, events: &[Value], is_translated: bool) {
    let samples = flow["samples"].as_array().unwrap();
    let told = data(events, "recovery:metrics_updated", "uc_delivered_bytes");
    assert_eq!(told.len(), samples.len());
    for ((time, metrics), sample) in told.into_iter().zip(samples) {
        let number = |key: &str| sample[key].as_u64().unwrap();
        let own = number("cwnd_segments") * number("mss_bytes");
        let law = sample["shadow_window_bytes"].as_u64();
        assert_eq!((time * 1e6).round() as u64, number("at_ns"));
        assert_eq!(metrics["uc_delivered_bytes"], number("delivered_bytes"));
        if number("mss_bytes") == 0 {
            assert!(metrics.get("congestion_window").is_none(), "no connection");
            continue;
        }
        let window = if is_translated {
            law.unwrap_or(own)
        } else {
            own
        };
        assert_eq!(metrics["congestion_window"], window);
        assert_eq!(metrics["uc_guest_window"], own);
        let flight = number("unacked_segments") * number("mss_bytes");
        assert_eq!(metrics["bytes_in_flight"], flight);
        let srtt = metrics
            .get("smoothed_rtt")
            .map_or(0.0, |ms| ms.as_f64().unwrap());
        assert_eq!((srtt * 1e3).round() as u64, number("srtt_us"));
    }
    assert!(samples.iter().any(|sample| sample["srtt_us"] != 0));
}

fn assert_events(flow: &Value, events: &[Value]) {
    let nothing = Vec::new();
    let of_law = flow
        .get("events")
        .map_or(&nothing, |list| list.as_array().unwrap());
    let told = data(events, "recovery:congestion_state_updated", "new");
    assert_eq!(told.len(), of_law.len(), "no guard in this experiment");
    for ((time, state), event) in told.into_iter().zip(of_law) {
        assert_eq!(
            (time * 1e6).round() as u64,
            event["at_ns"].as_u64().unwrap()
        );
        for (ours, record) in [
            ("uc_event", "kind"),
            ("uc_events", "times"),
            ("uc_window_before", "before_bytes"),
            ("uc_window_after", "after_bytes"),
        ] {
            assert_eq!(state[ours], event[record], "{ours}");
        }
    }
    let lost = data(events, "recovery:packet_lost", "trigger").len();
    let is_loss = |event: &&Value| event["kind"] == "fast_retransmit" || event["kind"] == "timeout";
    assert_eq!(lost, of_law.iter().filter(is_loss).count());
    assert_eq!(of_law.is_empty(), flow["group"] == "own", "{flow}");
}
