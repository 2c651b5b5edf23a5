//! The metrics agree with their readers: Prometheus's own tool, the documentation, the dashboard.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uc_agent::metrics::{Kernel, Kind, METRICS, Metric, Reading};
use uc_client::AgentState;
use uc_client::state::{
    DupackState, EtcdState, HoldState, PortState, SplitState, TuneState, TunedGroup,
};
use uc_core::Reason;
use uc_core::hooks::Hooks;
use uc_port::{Counters, Direction, PortView};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns counters with seven packets under each reason.
fn every_reason() -> Counters {
    Reason::all()
        .map(|reason| (Direction::ToGuest, reason, 7))
        .collect()
}

fn view(ifindex: u32) -> PortView {
    PortView {
        ifindex,
        tenant: 1,
        rules: 2,
        generation: 3,
        flows: 4,
        half_open: 3,
        displaced: 2,
        flows_max: 5,
        counters: every_reason(),
        hooks: Hooks::default(),
        draining: Some(1),
    }
}

/// Returns a reading in which every metric has a sample.
fn full() -> Reading {
    let port = |ifindex, name: &str| PortState {
        ifindex,
        name: name.to_owned(),
        tenant: Some("acme \"x\" \\".to_owned()),
        attached: true,
        ..PortState::default()
    };
    Reading {
        state: AgentState {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            etcd: Some(EtcdState::default()),
            ports: vec![port(3, "vnet3"), port(4, "tap0")],
            split: Some(SplitState {
                ports: vec!["vnet3".to_owned()],
                process: Some(uc_split::Status::default()),
                ..SplitState::default()
            }),
            tune: Some(TuneState {
                groups: vec![TunedGroup::default()],
                ..TuneState::default()
            }),
            dupack: Some(DupackState {
                ports: vec!["vnet3".to_owned()],
                process: Some(uc_hold::dupack::Status {
                    done: uc_hold::dupack::Done {
                        counts: [("vnet3".to_owned(), uc_hold::dupack::Counts::default())].into(),
                        ..uc_hold::dupack::Done::default()
                    },
                    ..uc_hold::dupack::Status::default()
                }),
                ..DupackState::default()
            }),
            hold: Some(HoldState {
                ports: vec!["vnet3".to_owned()],
                process: Some(uc_hold::Status {
                    done: uc_hold::Done {
                        counts: [("vnet3".to_owned(), BTreeMap::new())].into(),
                        ..uc_hold::Done::default()
                    },
                    ..uc_hold::Status::default()
                }),
                ..HoldState::default()
            }),
            ..AgentState::default()
        },
        kernel: Some(Kernel {
            counters: every_reason(),
            ports: vec![view(3), view(4)],
            flows_max: 65536,
            places_taken: 40960,
            memory_bytes: 1 << 30,
        }),
        failed: false,
    }
}

/// Returns the name under which Prometheus stores the metric.
fn stored_name(metric: &Metric) -> String {
    match metric.kind {
        Kind::Counter => format!("{}_total", metric.name),
        Kind::Gauge => metric.name.to_owned(),
    }
}

fn promtool() -> Option<PathBuf> {
    let found = Command::new(root().join("scripts/promtool"))
        .arg("--check")
        .output()
        .unwrap();
    if found.status.success() {
        return Some(PathBuf::from(
            String::from_utf8(found.stdout).unwrap().trim(),
        ));
    }
    let need = String::from_utf8_lossy(&found.stderr).into_owned();
    let required = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!required, "{need}");
    println!("SKIP: {need}");
    None
}

#[test]
fn promtool_accepts_an_exposition() {
    let Some(promtool) = promtool() else { return };
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = full().plain().unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let checked = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned()
        + &String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success() && said.is_empty(),
        "{said}\n{text}"
    );
}

#[test]
fn every_metrics_samples_have_its_labels() {
    let reading = full();
    let text = reading.plain().unwrap();
    for metric in METRICS {
        let name = stored_name(metric);
        assert!(text.contains(&format!("# HELP {name} ")), "{name}\n{text}");
        let rows = (metric.rows)(&reading);
        assert!(!rows.is_empty(), "{name}");
        for row in rows {
            let labels: Vec<&str> = row.labels.iter().map(|(label, _)| *label).collect();
            assert_eq!(labels, metric.labels, "{name}");
        }
    }
}

#[test]
fn the_documented_metrics_are_those_of_the_table() {
    let document = read("docs/metrics.md");
    let expected: Vec<String> = METRICS
        .iter()
        .map(|metric| {
            let labels = metric.labels.join(", ");
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let name = stored_name(metric);
            format!("| `{name}` | {kind} | {labels} | {} |", metric.help)
        })
        .collect();
    let rows = document.lines().filter(|line| line.starts_with("| `uc_"));
    let found: Vec<&str> = rows.collect();
    assert_eq!(found, expected, "\n{}\n", expected.join("\n"));
}

/// Collects all strings under this key, anywhere in the value.
fn strings(value: &serde_json::Value, key: &str, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == key => into.push(text.to_owned()),
                    _ => strings(value, key, into),
                }
            }
        }
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| strings(item, key, into));
        }
        _ => {}
    }
}

/// Returns the names of metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = query.split(word).filter(|word| word.starts_with("uc_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_uses_every_metric_and_no_unknown_one() {
    let text = read("packaging/grafana/undercurrent.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(
        ids.len(),
        panels.len(),
        "every panel has a number of its own"
    );
    let mut queries = Vec::new();
    strings(&dashboard, "expr", &mut queries);
    assert!(queries.len() >= panels.len(), "each panel asks something");
    let asked: BTreeSet<String> = queries.iter().flat_map(|query| names(query)).collect();
    let there: BTreeSet<String> = METRICS.iter().map(stored_name).collect();
    let unknown: Vec<_> = asked.difference(&there).collect();
    assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
    let unseen: Vec<_> = there.difference(&asked).collect();
    assert!(unseen.is_empty(), "no panel shows {unseen:?}");
}

#[test]
fn promtool_accepts_every_query_of_the_dashboard() {
    let Some(promtool) = promtool() else { return };
    let text = read("packaging/grafana/undercurrent.json");
    let mut queries = Vec::new();
    strings(&serde_json::from_str(&text).unwrap(), "expr", &mut queries);
    // As recording rules, which promtool checks without a server.
    let rules: String = queries
        .iter()
        .enumerate()
        .map(|(number, query)| {
            let query = query.replace("$__rate_interval", "1m");
            let query = query.replace("$port", "vnet3").replace("$tenant", "acme");
            let quoted = serde_json::to_string(&query).unwrap();
            format!("    - record: panel:{number}\n      expr: {quoted}\n")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    std::fs::write(
        &file,
        format!("groups:\n  - name: panels\n    rules:\n{rules}"),
    )
    .unwrap();
    let checked = Command::new(promtool)
        .args(["check", "rules"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}\n{rules}");
}
