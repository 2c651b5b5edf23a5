//! `uc tune`: congestion control, initial window and minimum RTO of containers' connections.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgGroup, Args};
use serde::Serialize;
use uc_guest::{Tuning, TuningState, Tunings};

/// Maximum initial window in segments; more is probably a mistake.
const INITIAL_WINDOW_MOST: i64 = 1000;

/// Set congestion control, initial window and minimum RTO of the new connections of a container.
///
/// CGROUP is the folder of the container's control group in the unified hierarchy (cgroup2); groups
/// within it are tuned, too. Existing connections stay as they are. The setting outlives this command:
/// it stays until `uc tune CGROUP --remove`, the end of the group or a restart of the machine. It
/// needs Linux 5.10 or newer.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["congestion_control", "initial_window", "rto_min", "remove", "status"])))]
pub struct Tune {
    /// Folder of the container's control group, below the mount point of the unified hierarchy
    #[arg(required_unless_present = "status", conflicts_with = "status")]
    cgroup: Option<PathBuf>,
    /// Congestion control of the container's new connections: one that the sysctl
    /// net.ipv4.tcp_available_congestion_control lists, even if the container itself may not choose it
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Initial congestion window of the container's new connections, in segments
    #[arg(long, value_name = "SEGMENTS",
          value_parser = clap::value_parser!(u32).range(1..=INITIAL_WINDOW_MOST))]
    initial_window: Option<u32>,
    /// Minimum RTO of the container's new connections, in milliseconds, from two of the kernel's timer ticks
    /// to 200. The rto_min of a route overrides it
    #[arg(long, value_name = "MS")]
    rto_min: Option<u16>,
    /// Remove the control group's settings; existing connections keep them
    #[arg(long, conflicts_with_all = ["congestion_control", "initial_window", "rto_min", "status"])]
    remove: bool,
    /// Show the settings of all tuned control groups; exit status 1 if no group is tuned
    #[arg(long, conflicts_with_all = ["congestion_control", "initial_window", "rto_min"])]
    status: bool,
    /// With --status: print the settings as one JSON object
    #[arg(long, requires = "status")]
    json: bool,
}

/// A tuned control group, as `--status --json` prints it. A setting that the tuning does not change has no field.
#[derive(Serialize)]
struct Row {
    cgroup: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial_window_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto_min_ms: Option<u64>,
    /// Whether an agent tuned the group by its policy.
    by_policy: bool,
    connections: u64,
    refused_congestion_control: u64,
    refused_initial_window: u64,
    refused_rto_min: u64,
}

impl Tune {
    /// Tunes a control group, shows the tuned groups, or removes a tuning.
    pub fn execute(self) -> Result<bool> {
        let tunings = Tunings::default();
        let Some(cgroup) = &self.cgroup else {
            return status(&tunings, self.json);
        };
        if self.remove {
            let cgroup = tunings.remove(cgroup)?;
            outln!("{cgroup}: not tuned any more; existing connections keep what they have");
            return Ok(true);
        }
        let tuning = Tuning {
            congestion_control: self.congestion_control,
            initial_window_segments: self.initial_window,
            rto_min: self.rto_min.map(|ms| Duration::from_millis(ms.into())),
        };
        let cgroup = tunings.add(cgroup, &tuning)?;
        outln!("{cgroup}: new connections have {}", in_words(&tuning));
        Ok(true)
    }
}

fn status(tunings: &Tunings, json: bool) -> Result<bool> {
    let all = tunings.all()?;
    let is_any = !all.is_empty();
    if json {
        let rows: Vec<Row> = all.into_iter().map(Row::from).collect();
        outln!("{}", serde_json::json!({ "tuned": rows }));
        return Ok(is_any);
    }
    if !is_any {
        outln!("no control group is tuned");
    }
    for state in &all {
        outln!(
            "{}: {}{}; {} connections since",
            state.cgroup,
            in_words(&state.tuning),
            if state.by_policy { ", by policy" } else { "" },
            state.connections
        );
        for (setting, refused) in [
            ("congestion control", state.refused_congestion_control),
            ("initial window", state.refused_initial_window),
            ("minimum RTO", state.refused_rto_min),
        ] {
            if refused > 0 {
                outln!(
                    "{}: the kernel refused the {setting} {refused} times",
                    state.cgroup
                );
            }
        }
    }
    Ok(is_any)
}

fn in_words(tuning: &Tuning) -> String {
    let control = tuning.congestion_control.as_ref();
    let window = tuning.initial_window_segments;
    let rto_min = tuning.rto_min.as_ref();
    let settings = [
        control.map(|name| format!("congestion control {name}")),
        window.map(|segments| format!("initial window {segments} segments")),
        rto_min.map(|rto| format!("minimum RTO {} ms", rto.as_millis())),
    ];
    settings
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

impl From<TuningState> for Row {
    fn from(state: TuningState) -> Row {
        let tuning = state.tuning;
        Row {
            cgroup: state.cgroup,
            congestion_control: tuning.congestion_control,
            initial_window_segments: tuning.initial_window_segments,
            rto_min_ms: tuning.rto_min.map(|rto| rto.as_millis() as u64),
            by_policy: state.by_policy,
            connections: state.connections,
            refused_congestion_control: state.refused_congestion_control,
            refused_initial_window: state.refused_initial_window,
            refused_rto_min: state.refused_rto_min,
        }
    }
}
