//! Experiments that name files of others run by those names: seven shapes of distributions, and two
//! lists of flows.

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
    // Without expectations there are numbers of groups and sizes.
    for words in ["Mbit/s a flow", "slowdown p99", "to 10"] {
        assert!(outcome.stdout.contains(words), "{}", outcome.stdout);
    }
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

#[test]
fn flows_of_a_list_go_from_their_source_to_their_target_at_their_time() {
    // Two flows of 1 MB to one host take twice the 8 ms of the third, which has its host for itself.
    let hpcc = "4\n0 1 3 100 1000000 2.000000000\n3 0 3 100 1000000 2.04\n2 1 3 100 1000000 2\n\
                3 0 3 100 7 2.000001500\n9 9 9\n\nFirst line: number of flows\n";
    let htsim = "Nodes 4\nConnections 4\n0->1 id 1 start 0 size 1000000\n\
                 3->0 id 2 start 40000000000 size 1000000\n2->1 id 3 start 0 size 1000000\n\
                 3->0 id 4 start 1500000 size 7\n";
    for (name, list) in [("flow.txt", hpcc), ("list.cm", htsim)] {
        let folder = folder_with(&format!(
            "{HEAD}start = \"10ms\"\napplication = {{ list = {{ file = \"{name}\" }} }}\n"
        ));
        std::fs::write(folder.path().join(name), list).unwrap();
        let records = records(&folder, &[]);
        let wanted = [
            vec![(10_000_000, 1_000_000, false)],
            vec![],
            vec![(10_000_000, 1_000_000, false)],
            vec![(10_001_500, 7, true), (50_000_000, 1_000_000, true)],
        ];
        assert_eq!(transfers(&records[0], 10_000_000), wanted, "{name}");
        assert!(transfers(&records[0], 25_000_000)[0][0].2, "{name}");
        // 7 bytes: three times two links of 5 us, and 61 bytes of a packet over each at 1 Gb/s.
        let small = &records[0]["flows"][3]["completions"][0];
        assert_eq!(small["ideal_ns"], 30_000 + 2 * 488);
        let took_ns =
            small["finished_ns"].as_u64().unwrap() - small["started_ns"].as_u64().unwrap();
        assert!((30_976..35_000).contains(&took_ns), "{took_ns}");
    }
}
