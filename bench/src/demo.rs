//! `uc-bench demo`: shows in a minute how a guest without ECN starves, and how it is translated.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use uc_batch::circumstances;
use uc_batch::outputs::{self, Folder, Source};
use uc_experiment::{
    Arm, Case, Experiment, FlowRecord, Measure, OfGroup, Repetition, RunRecord, SharedBy,
};
use uc_lab::need;
use uc_program::cancel_on_signal;
use uc_report::{Meta, Report};

use crate::batch::Batch;
use crate::run::On;
use crate::traces::Traces;

/// Show one legacy guest starved by nine ECN neighbours, then the same guest translated.
///
/// As root with real Linux TCP in network namespaces and the BPF programs in this kernel, in under
/// two minutes; without root in the simulator, in seconds. Leaves nothing behind but the report.
#[derive(Args)]
pub struct Demo {
    /// Backend that runs the demo [default: live for root, sim for others]
    #[arg(long, value_enum)]
    on: Option<On>,
    /// Seed of the order in which flows start and of the switch's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder into which report.html, results.json, flows.csv, verdicts.csv, values.jsonl and records.json are
    /// written
    #[arg(long, value_name = "FOLDER", default_value = "out/demo")]
    out: PathBuf,
}

/// TOML text of the demo's experiment, included in the program.
const EXPERIMENT: &str = include_str!("../../experiments/demo.toml");

/// Number of characters of a full bar.
const BAR_CELLS: usize = 30;

impl Demo {
    /// Runs both cases at the same time, prints the result, and writes the report.
    pub fn execute(self) -> Result<bool> {
        let experiment = Experiment::from_str("demo.toml", EXPERIMENT)?;
        let arm = On::arm(self.on, &experiment)?;
        experiment.validate()?;
        if arm != Arm::Sim {
            need::check().context(
                "the demo can't run on this machine's kernel; run it in the simulator: --on sim",
            )?;
        }
        let points = experiment.points()?;
        let batch = Batch {
            arm,
            repeat: 1,
            jobs: experiment.cases.len(),
            seed: self.seed,
            cancel: cancel_on_signal()?,
            until: None,
            traces: Traces::default(),
        };
        let folder = Folder::make(self.out)?;
        out!("{}", introduction(&experiment, arm));
        let mut circumstances = circumstances::of(arm);
        let records = batch.run(&points)?;
        circumstances::end(&mut circumstances);
        let evaluation = uc_experiment::evaluate(&experiment, &records, arm)?;
        let meta = Meta {
            arm: arm.name().to_owned(),
            seed: self.seed,
            commit: outputs::COMMIT.to_owned(),
            runs: 1,
            command: format!("uc-bench demo --on {arm} --seed {}", self.seed),
        };
        let report = Report {
            experiment: &experiment,
            points: &points,
            records: &records,
            evaluation: &evaluation,
            meta: &meta,
        };
        let source = Source { arm, circumstances };
        let page = folder.write(&report, &source)?;
        out!("{}", answer(&experiment, &records)?);
        outln!("Report, for a browser: {}", page.display());
        Ok(report.holds())
    }
}

fn introduction(experiment: &Experiment, arm: Arm) -> String {
    let seconds = experiment.duration.0 / 1_000_000_000;
    let how = match arm {
        Arm::Vm => format!(
            "Both run now, side by side, for {seconds} s: real Linux TCP in {} machines, real BPF.",
            experiment.cases.len() * 10
        ),
        Arm::Live => format!(
            "Both run now, side by side, for {seconds} s: real Linux TCP, real BPF, {} network \
             namespaces.",
            experiment.cases.len() * 12
        ),
        Arm::Sim => format!(
            "\
Both run now in the SIMULATOR, {seconds} s of virtual time each: the same C that the BPF programs
are made of, between TCP hosts that follow the RFCs. As root the demo runs on real kernels."
        ),
    };
    format!(
        "\
UNDERCURRENT: one congestion control law under every tenant's TCP

Ten guests send through one 10 Mb/s switch port. Nine speak ECN: where the queue is long, the
switch marks their packets and they slow down. The tenth is a legacy guest without ECN: its packets
are dropped at that same queue, and its TCP sits out one timeout after another.

  before   nothing on the legacy guest's port
  after    two BPF programs on it. They ask the network for ECN in the guest's name, keep a shadow
           of an ECN sender, and write its window into the ACKs. The guest changes nothing.

{how}

"
    )
}

fn answer(experiment: &Experiment, records: &[RunRecord]) -> Result<String> {
    let mut text = String::new();
    let scale = experiment.network.rate.0 as f64 / 10.0;
    for (case, record) in experiment.cases.iter().zip(records) {
        writeln!(text, "{}\n", case.title())?;
        for flow in &record.flows {
            let bps = goodput_bps(experiment, flow);
            let name = if flow.group == "ecn" {
                "ECN neighbour"
            } else {
                "LEGACY GUEST"
            };
            let bar = bar(bps / scale);
            writeln!(text, "  {name:<14}{:>5.2} Mb/s  {bar}", bps / 1e6)?;
        }
        writeln!(text, "\n  {}\n", sentence(experiment, case, record)?)?;
    }
    Ok(text)
}

fn sentence(experiment: &Experiment, case: &Case, record: &RunRecord) -> Result<String> {
    let records = std::slice::from_ref(record);
    let repetition = Repetition::of(experiment, records, record.run);
    let (case, of, to) = (case.name.clone(), "legacy".to_owned(), "ecn".to_owned());
    let share = repetition.measure(&Measure::Share {
        case: case.clone(),
        of: of.clone(),
        to,
        during: None,
    })?;
    let again = repetition.measure(&Measure::Retransmits(OfGroup {
        case: case.clone(),
        of,
    }))?;
    let jain = repetition.measure(&Measure::Jain {
        case,
        of: Vec::new(),
        by: SharedBy::Flow,
        during: None,
    })?;
    Ok(format!(
        "The legacy guest gets {:.0} % of what an ECN neighbour gets; it sent {again:.0} segments \
         again. Jain's index {jain:.3}.",
        share * 100.0
    ))
}

fn goodput_bps(experiment: &Experiment, flow: &FlowRecord) -> f64 {
    let series = uc_experiment::series::Series::of(flow, &experiment.measured_ns());
    series.map_or(0.0, |series| series.goodput_bps())
}

/// Returns a bar that shows `share`, a goodput relative to the fair share; the bar is full at 1.5.
fn bar(share: f64) -> String {
    let cells = (share / 1.5 * BAR_CELLS as f64).round() as usize;
    "█".repeat(cells.min(BAR_CELLS))
}
