//! `uc run`: an experiment, from file to verdict.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use uc_batch::keep_points;
use uc_batch::outputs::{self, Folder};
use uc_experiment::{Arm, Evaluation, Experiment, Outcome};
use uc_report::{Meta, Report};

use crate::research::batch::{Batch, cancel_on_signal};
use crate::research::arms;

/// Run an experiment and compare it with what the paper measured.
///
/// Exit status 0 if each expectation of the file holds, or differs from the paper for a reason that
/// the file gives; 1 if one fails or stays undecided; 2 after an error, such as a reason for a
/// difference that there is not.
///
/// Runs every case at every point of the file's sweeps, `repeat` times each, and cases that
/// undecided expectations need up to `repeat_max` times. In the simulator the same command gives
/// the same bytes, whatever --jobs is.
#[derive(Args)]
pub struct Run {
    /// The experiment's TOML file
    experiment: PathBuf,
    /// Backend [default: live for root, sim for others, or the only one that the file allows]
    #[arg(long, value_enum)]
    on: Option<On>,
    /// Seed of the first repetition; the others count up from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Repetitions of every case, instead of the file's `repeat`; no more where undecided
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Change one key of the file, for example `--set network.rate=100Mbit`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run only this case (expectations that need others are left out); may be repeated
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Run only the points of the sweep with this label, for example `--point ecn=9` (expectations
    /// that need others are left out); may be repeated
    #[arg(long, value_name = "AXIS=LABEL")]
    point: Vec<String>,
    /// Number of concurrent runs [default: sim one per core, live 4, vm 1; fewer disturb each other
    /// less]
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    jobs: Option<usize>,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for report.html, results.json, flows.csv, verdicts.csv and records.json
    /// [default: out/NAME]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The backend that `--on` chooses.
#[derive(Clone, Copy, ValueEnum)]
pub enum On {
    /// The simulator: the same C core on hosts that follow the RFCs, on a virtual clock
    Sim,
    /// Real Linux TCP in network namespaces, real BPF programs on real ports; needs root
    Live,
    /// Real kernels with VMs under QEMU as guests, each with a kernel of its own; needs root
    Vm,
}

impl On {
    /// Returns the named backend, or the default for this experiment and this user.
    ///
    /// # Errors
    /// The experiment can't be run on it.
    pub fn arm(on: Option<Self>, experiment: &Experiment) -> Result<Arm> {
        let Some(on) = on else {
            return arms::default_arm(experiment);
        };
        let arm = Arm::from(on);
        experiment.suits(arm)?;
        Ok(arm)
    }
}

impl From<On> for Arm {
    fn from(on: On) -> Self {
        match on {
            On::Sim => Arm::Sim,
            On::Live => Arm::Live,
            On::Vm => Arm::Vm,
        }
    }
}

impl Run {
    /// Runs the experiment, writes the files, and prints the result.
    pub fn execute(self) -> Result<bool> {
        let experiment = self.experiment()?;
        let arm = On::arm(self.on, &experiment)?;
        if self.on.is_none() && arm == Arm::Sim && !self.json {
            errln!("{}", why_simulated(&experiment));
        }
        let batch = Batch {
            arm,
            repeat: experiment.repeats(arm),
            jobs: self.jobs.unwrap_or_else(|| arms::default_jobs(arm)),
            seed: self.seed,
            cancel: cancel_on_signal()?,
            until: None,
        };
        let points = experiment.points()?;
        batch.check(&points)?;
        let folder = self.out.clone();
        let folder = folder.unwrap_or_else(|| outputs::default_folder(&experiment.name));
        let folder = Folder::make(folder)?;
        let told = |text: &str| {
            if !self.json {
                errln!("uc: {text}");
            }
        };
        let (records, evaluation) = batch.run_until_decided(&experiment, &points, told)?;
        let meta = Meta {
            arm: arm.name().to_owned(),
            seed: self.seed,
            commit: outputs::COMMIT.to_owned(),
            runs: experiment.repeats(arm),
            command: outputs::command_line(),
        };
        let report = Report {
            experiment: &experiment,
            points: &points,
            records: &records,
            evaluation: &evaluation,
            meta: &meta,
        };
        let page = folder.write(&report)?;
        if self.json {
            outln!("{}", uc_report::json::json(&report)?);
        } else {
            out!("{}", uc_report::table::table(&report));
            outln!("\nReport: {}", page.display());
        }
        refuse_stale(&evaluation)?;
        Ok(report.holds())
    }

    /// Reads the file and applies the other arguments to it.
    fn experiment(&self) -> Result<Experiment> {
        let mut experiment = Experiment::load(&self.experiment)?;
        for change in &self.set {
            experiment.apply_set(change)?;
        }
        if let Some(repeat) = self.repeat {
            experiment.repeat_max = None;
            experiment.apply_set(&format!("repeat={repeat}"))?;
            experiment.repeat_sim = None;
            experiment.repeat_max = Some(repeat);
        }
        experiment.validate()?;
        experiment.keep_cases(&self.case)?;
        keep_points(&mut experiment, &self.point)?;
        Ok(experiment)
    }
}

/// Checks that no expectation holds whose result differs according to the file.
fn refuse_stale(evaluation: &Evaluation) -> Result<()> {
    let mut stale = evaluation.with(Outcome::Stale);
    if let Some(verdict) = stale.next() {
        bail!(
            "the expectation `{}` holds, and the file says why it differs; remove `differs`",
            verdict.name
        );
    }
    Ok(())
}

/// Returns why the simulator is used, for a message when no backend was named.
fn why_simulated(experiment: &Experiment) -> String {
    let name = &experiment.name;
    if arms::is_root() {
        format!("uc: {name} is for the simulator: running there")
    } else if experiment.suits(Arm::Live).is_ok() {
        format!("uc: not root: {name} runs in the simulator; as root, on real kernels")
    } else {
        format!("uc: {name} runs in the simulator")
    }
}
