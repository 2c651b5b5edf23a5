//! `uc demo`: the problem and the cure, in a minute.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use uc_experiment::{Case, Experiment, Measure, RunRecord};
use uc_lab::need;
use uc_report::{Meta, Report};

use crate::batch::Batch;
use crate::outputs;

/// Show one legacy guest starved by nine ECN neighbours, then the same guest translated.
///
/// Real Linux TCP in network namespaces, our BPF programs in this kernel; needs root, takes under
/// two minutes, leaves nothing behind but the report.
#[derive(Args)]
pub struct Demo {
    /// Seed of the order in which flows start and of the switch's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for report.html, results.json and records.json
    #[arg(long, value_name = "FOLDER", default_value = "out/demo")]
    out: PathBuf,
}

/// The experiment travels inside the program.
const EXPERIMENT: &str = include_str!("../../../experiments/demo.toml");

/// Cells of a bar.
const BAR_CELLS: usize = 30;

impl Demo {
    /// Runs both cases side by side, prints, writes the report.
    pub fn execute(self) -> Result<bool> {
        let experiment = Experiment::from_str("demo.toml", EXPERIMENT)?;
        experiment.validate()?;
        need::check().context("the demo can't run here")?;
        print!("{}", introduction(&experiment));

        let batch = Batch {
            repeat: 1,
            jobs: experiment.cases.len(),
            seed: self.seed,
        };
        let records = batch.run(&experiment)?;
        let arm = uc_experiment::Arm::Live;
        let evaluation = uc_experiment::evaluate(&experiment, &records, arm)?;
        let meta = Meta {
            arm: "live".to_owned(),
            seed: self.seed,
            commit: outputs::COMMIT.to_owned(),
            runs: 1,
            command: format!("uc demo --seed {}", self.seed),
        };
        let report = Report {
            experiment: &experiment,
            records: &records,
            verdicts: &evaluation.verdicts,
            meta: &meta,
        };
        let written = outputs::write(&report, &self.out)?;
        print!("{}", answer(&experiment, &records)?);
        println!("Report, for a browser: {}", written.page.display());
        Ok(report.holds())
    }
}

fn introduction(experiment: &Experiment) -> String {
    format!(
        "\
UNDERCURRENT: one congestion control law under every tenant's TCP

Ten guests send through one 10 Mb/s switch port. Nine speak ECN: where the queue is long, the
switch marks their packets and they slow down. The tenth is a legacy guest without ECN: its packets
are dropped at that same queue, and its TCP sits out one timeout after another.

  before   nothing on the legacy guest's port
  after    two BPF programs on it. They ask the network for ECN in the guest's name, keep a shadow
           of an ECN sender, and write its window into the ACKs. The guest changes nothing.

Both run now, side by side, for {} s: real Linux TCP, real BPF, {} network namespaces.

",
        experiment.duration.0 / 1_000_000_000,
        experiment.cases.len() * 12
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
            writeln!(
                text,
                "  {name:<14}{:>5.2} Mb/s  {}",
                bps / 1e6,
                bar(bps / scale)
            )?;
        }
        writeln!(text, "\n  {}\n", sentence(experiment, case, record)?)?;
    }
    Ok(text)
}

fn sentence(experiment: &Experiment, case: &Case, record: &RunRecord) -> Result<String> {
    let records = std::slice::from_ref(record);
    let repetition = uc_experiment::Repetition::of(experiment, records, record.run);
    let (case, of, to) = (case.name.clone(), "legacy".to_owned(), "ecn".to_owned());
    let share = repetition.measure(&Measure::Share {
        case: case.clone(),
        of: of.clone(),
        to,
    })?;
    let again = repetition.measure(&Measure::Retransmits {
        case: case.clone(),
        of,
    })?;
    let jain = repetition.measure(&Measure::Jain { case })?;
    Ok(format!(
        "The legacy guest gets {:.0} % of what an ECN neighbour gets; it sent {again:.0} segments \
         again. Jain's index {jain:.3}.",
        share * 100.0
    ))
}

fn goodput_bps(experiment: &Experiment, flow: &uc_experiment::FlowRecord) -> f64 {
    let measured = experiment.measured_ns();
    let mut inside = flow
        .samples
        .iter()
        .filter(|sample| measured.contains(&sample.at_ns));
    let (Some(first), Some(last)) = (inside.next(), inside.next_back()) else {
        return 0.0;
    };
    let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
    (last.delivered_bytes - first.delivered_bytes) as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE)
}

/// `share` of a bar that is full at 1.5 times the fair share.
fn bar(share: f64) -> String {
    let cells = (share / 1.5 * BAR_CELLS as f64).round() as usize;
    "█".repeat(cells.min(BAR_CELLS))
}
