//! Experiments that name files of others run by those names: seven shapes of distributions.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use uc_live::command::{folder_with, outcome};

use crate::common::unprivileged;

const HEAD: &str = r#"
name = "t/named"
title = "Files of others"
duration = "100ms"
sample = "10ms"

[network]
topology = { switch = { hosts = 4 } }
rate = "1Gbit"
delay = "5us"
queue = { kind = "threshold", limit = "1MB", mark = "90kB", not_ect = "queue" }

[stack.dctcp]
congestion_control = "dctcp"
rto_min = "10ms"

[stack.server]
congestion_control = "dctcp"
ecn = true

[[case]]
name = "only"

[[case.guests]]
name = "all"
count = 4
stack = "dctcp"
"#;

/// One distribution as the files of HPCC, TrafficGenerator, ns-3, ns-2 and Homa would have it, as a
/// table with a header, and in packets.
const SIZES: [(&str, &str); 7] = [
    ("hpcc", "0 0\n3000 25\n24000 75\n96000 100\n"),
    ("generator", "0     0\n3000  0.25 \n24000 0.75\n96000 1\n"),
    ("ns3", "0 0.0\r\n3000 0.25\r\n24000 0.75\r\n96000 1.0\r\n"),
    ("ns2", "0 1 0\n3000 1 0.25\n24000 1 0.75\n96000 1 1\n"),
    (
        "homa",
        "22125.0\n0      0.000000\n3000   0.250000\n24000  0.750000\n96000  1.000000\n",
    ),
    (
        "table",
        "# a test\nsize,percent\n0,0\n3000,25.0\n24000,75.0\n96000,100.0\n",
    ),
    ("packets", "0 0\n2 0.25\n16 0.75\n64 1\n"),
];

/// Runs the experiment in the folder. Returns the records.
fn records(folder: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let mut command = unprivileged();
    command.current_dir(folder.path());
    command
        .args(["run", "t.toml", "--on", "sim"])
        .args(arguments);
    let outcome = outcome(command);
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    let out = folder.path().join("out/t-named");
    let whole: Value = read(&out.join("records.json"));
    let records = whole.as_array().or_else(|| whole["records"].as_array());
    records.unwrap_or_else(|| panic!("{whole}")).clone()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the transfers of each flow: start in ns, bytes, and whether it took less than that many ns.
fn transfers(record: &Value, below_ns: u64) -> Vec<Vec<(u64, u64, bool)>> {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let transfer = |transfer: &Value| {
        let started_ns = number(&transfer["started_ns"]);
        let finished_ns = transfer["finished_ns"].as_u64();
        let is_quick = finished_ns.is_some_and(|at| at - started_ns < below_ns);
        (started_ns, number(&transfer["bytes"]), is_quick)
    };
    let of_flow = |flow: &Value| {
        flow["completions"]
            .as_array()
            .unwrap()
            .iter()
            .map(transfer)
            .collect()
    };
    record["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(of_flow)
        .collect()
}

#[test]
fn seven_shapes_of_one_distribution_give_the_same_transfers() {
    let named = |(name, _): &(&str, &str)| match *name {
        "packets" => format!("{{ file = \"sizes/{name}.txt\", unit = \"1500B\" }}"),
        _ => format!("{{ file = \"sizes/{name}.txt\" }}"),
    };
    let values: Vec<String> = SIZES.iter().map(named).collect();
    let labels: Vec<&str> = SIZES.iter().map(|(name, _)| *name).collect();
    let folder = folder_with(&format!(
        "{HEAD}pattern = \"random\"\napplication = {{ web = {{ load = 0.5, sizes = \"1kB\" }} }}\n\
         [[sweep]]\nname = \"file\"\nlabels = {labels:?}\n\
         set = {{ \"case.only.guests.all.application.web.sizes\" = [{}] }}\n",
        values.join(", ")
    ));
    std::fs::create_dir(folder.path().join("sizes")).unwrap();
    for (name, content) in SIZES {
        std::fs::write(folder.path().join(format!("sizes/{name}.txt")), content).unwrap();
    }
    let records = records(&folder, &[]);
    assert_eq!(records.len(), SIZES.len());
    let first = transfers(&records[0], 1);
    for record in &records {
        assert_eq!(transfers(record, 1), first);
    }
    // Half of 1 Gb/s in flows of 22,125 bytes: 283 at each of four hosts, standard deviation 34 of all.
    let sizes: Vec<u64> = first.iter().flatten().map(|(_, bytes, _)| *bytes).collect();
    assert!((930..1_340).contains(&sizes.len()), "{}", sizes.len());
    // A quarter has up to 3 kB, uniform from 0 on: standard deviation 15 of about 1,130.
    let small = sizes.iter().filter(|bytes| **bytes <= 3_000).count();
    assert!((sizes.len() / 4).abs_diff(small) < 75, "{small}");
    let tiny = sizes.iter().filter(|bytes| **bytes <= 1_500).count();
    assert!((sizes.len() / 8).abs_diff(tiny) < 60, "{tiny}");
}
