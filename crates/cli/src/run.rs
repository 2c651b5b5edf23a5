//! `uc run`: an experiment, from file to verdict.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use uc_experiment::Experiment;
use uc_report::{Meta, Report};

use crate::batch::Batch;
use crate::outputs;

/// Run an experiment and hold it against what the paper measured.
///
/// Exit status 0 if everything that the file expects holds, 1 if something doesn't.
#[derive(Args)]
pub struct Run {
    /// The experiment's TOML file
    experiment: PathBuf,
    /// What it runs on
    #[arg(long, value_enum, default_value = "live")]
    on: Arm,
    /// Seed of the first repetition; the others count up from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Repetitions of every case, instead of the file's `repeat`
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Change one key of the file, for example `--set network.rate=100Mbit`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run only this case (expectations that need others are left out); may be repeated
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Runs that go on at once: fewer is truer, more is sooner
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: usize,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for report.html, results.json and records.json [default: out/NAME]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The arms of an experiment.
#[derive(Clone, Copy, ValueEnum)]
enum Arm {
    /// Real Linux TCP in network namespaces, real BPF programs on real ports; needs root
    Live,
}

impl Arm {
    fn label(self) -> &'static str {
        match self {
            Arm::Live => "live",
        }
    }
}

impl Run {
    /// Runs, writes, prints.
    pub fn execute(self) -> Result<bool> {
        let mut experiment = Experiment::load(&self.experiment)?;
        for change in &self.set {
            experiment.apply_set(change)?;
        }
        if let Some(repeat) = self.repeat {
            experiment.apply_set(&format!("repeat={repeat}"))?;
        }
        experiment.validate()?;
        experiment.keep_cases(&self.case)?;
        let batch = Batch {
            repeat: experiment.repeat,
            jobs: self.jobs,
            seed: self.seed,
        };
        let folder = self
            .out
            .unwrap_or_else(|| outputs::default_folder(&experiment.name));
        let made = make_folder(&folder)?;
        let records = batch.run(&experiment).inspect_err(|_| {
            for folder in &made {
                let _not_empty = fs::remove_dir(folder);
            }
        })?;
        let arm = match self.on {
            Arm::Live => uc_experiment::Arm::Live,
        };
        let evaluation = uc_experiment::evaluate(&experiment, &records, arm)?;
        let meta = Meta {
            arm: self.on.label().to_owned(),
            seed: self.seed,
            commit: outputs::COMMIT.to_owned(),
            runs: experiment.repeat,
            command: outputs::command_line(),
        };
        let report = Report {
            experiment: &experiment,
            records: &records,
            verdicts: &evaluation.verdicts,
            meta: &meta,
        };
        let written = outputs::write(&report, &folder)?;
        if self.json {
            println!("{}", uc_report::json::json(&report)?);
        } else {
            print!("{}", uc_report::table::table(&report));
            println!("\nReport: {}", written.page.display());
        }
        Ok(report.holds())
    }
}

/// Makes the folder for the results before the hours that they may take, not after. Returns the
/// folders that were not there, the innermost first: without results they go again.
fn make_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let made = folder
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_path_buf)
        .collect();
    fs::create_dir_all(folder)
        .with_context(|| format!("could not make the folder {}", folder.display()))?;
    Ok(made)
}
