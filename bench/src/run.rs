//! `uc-bench run`: runs an experiment and judges its expectations.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use uc_batch::outputs::Folder;
use uc_batch::{Laws, Request, Shard, Sweep, outputs};
use uc_experiment::{Arm, Experiment};
use uc_program::cancel_on_signal;

use crate::arms;
use crate::batch::Batch;
use crate::traces::Traces;
use crate::whole::Whole;

/// Run an experiment and compare it with what the paper measured.
///
/// Exit status 0 if each expectation of the file holds, or differs from the paper for a reason that
/// the file gives; 1 if one fails or stays undecided; 2 after an error, such as a `differs` at an
/// expectation that holds.
///
/// Runs every case at every point of the file's sweeps, `repeat` times each, and cases that
/// undecided expectations need up to `repeat_max` times. In the simulator the same command gives
/// the same bytes, whatever --jobs is.
#[derive(Args)]
pub struct Run {
    /// TOML file of the experiment
    experiment: PathBuf,
    /// Backend [default: live for root, sim for others and for files with `slower`, or the only one that
    /// the file allows]
    #[arg(long, value_enum)]
    on: Option<On>,
    /// Seed of the first repetition; each further repetition has the next number as its seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of repetitions of every case, instead of the file's `repeat`; no further ones for
    /// undecided expectations
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
    /// Number of runs at the same time, at first [default: sim one per core, live 4 but at most 200 Mb/s in
    /// all, vm 1]. Runs whose emulated network was late are repeated with fewer at the same time
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    jobs: Option<usize>,
    /// The file may name laws that `uc law build` built in this folder; only in the simulator
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// Make only one of N equal parts of the runs, numbered from 0, and no result; `uc-bench merge` joins
    /// them
    #[arg(long, value_name = "I/N", conflicts_with = "json")]
    shard: Option<Shard>,
    /// Keep the runs that an earlier command wrote into the folder of --out, if they are of the same
    /// experiment, seed, options and program; make only the missing ones
    #[arg(long)]
    resume: bool,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for report.html, results.json, flows.csv, verdicts.csv, values.jsonl,
    /// records.json and runs.jsonl
    /// [default: out/NAME; with --shard out/NAME/shard-I]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// In the simulator also write the packets at the bottleneck into this folder, one pcapng file for each
    /// run: the headers, with checksums, of each packet that arrives at the bottleneck's queue, dropped ones
    /// with a comment, and of the packets in the opposite direction; at most 1,000,000 packets a file
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// Write each flow of each run also as a qlog file (JSON-SEQ) into this folder: the flow's samples and, in
    /// the simulator, the events of the flow's law
    #[arg(long, value_name = "FOLDER")]
    qlog: Option<PathBuf>,
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
    /// Returns the backend that `on` names; with `None` the default for this experiment and this user.
    ///
    /// # Errors
    /// The experiment does not allow the backend.
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
    /// Makes the runs, writes the result's files, and prints the result.
    pub fn execute(self) -> Result<bool> {
        let mut request = self.request()?;
        let experiment = request.experiment()?;
        request.arm = On::arm(self.on, &experiment)?;
        let arm = request.arm;
        if self.on.is_none() && arm == Arm::Sim && !self.json {
            errln!("{}", why_simulated(&experiment));
        }
        let sweep = Sweep::new(request)?;
        let traces = Traces {
            pcap: self.pcap.clone(),
            qlog: self.qlog.clone(),
            is_swept: sweep.points.len() > 1,
        };
        let batch = Batch {
            arm,
            repeat: experiment.repeats(arm),
            jobs: self
                .jobs
                .unwrap_or_else(|| arms::default_jobs(arm, &sweep.points)),
            seed: self.seed,
            cancel: cancel_on_signal()?,
            until: None,
            traces,
        };
        if self.pcap.is_some() && arm != Arm::Sim {
            bail!(
                "--pcap captures packets of simulated runs only; add --on sim, or remove --pcap \
                 and run tcpdump"
            );
        }
        if self.laws.is_some() && arm != Arm::Sim {
            bail!(
                "--laws: only the simulator runs laws from outside in an experiment; add --on sim, or \
                 attach ports by `uc attach --laws`"
            );
        }
        match self.shard {
            None => sweep.check_memory()?,
            Some(shard) => sweep.check_memory_of(shard)?,
        }
        arms::check(arm, &sweep.points)?;
        let _captures = self.pcap.clone().map(Folder::make).transpose()?;
        let _flows = self.qlog.clone().map(Folder::make).transpose()?;
        let whole = Whole {
            folder: self.folder(&experiment.name),
            resume: self.resume,
            json: self.json,
        };
        match self.shard {
            None => whole.complete(sweep, &batch),
            Some(shard) => whole.part(sweep, shard, &batch).map(|()| true),
        }
    }

    fn request(&self) -> Result<Request> {
        Ok(Request {
            seed: self.seed,
            repeat: self.repeat,
            set: self.set.clone(),
            case: self.case.clone(),
            point: self.point.clone(),
            laws: self.laws.as_deref().map(Laws::read).transpose()?,
            ..Request::of(&self.experiment)?
        })
    }

    fn folder(&self, experiment: &str) -> PathBuf {
        let default = || {
            let all = outputs::default_folder(experiment);
            match self.shard {
                None => all,
                Some(shard) => all.join(format!("shard-{}", shard.index)),
            }
        };
        self.out.clone().unwrap_or_else(default)
    }
}

/// Returns why the simulator is used, for a message when --on was not given.
fn why_simulated(experiment: &Experiment) -> String {
    let name = &experiment.name;
    if arms::is_root() {
        format!("uc-bench: {name} is for the simulator: running there")
    } else if experiment.suits(Arm::Live).is_ok() {
        format!("uc-bench: not root: {name} runs in the simulator; as root, on real kernels")
    } else {
        format!("uc-bench: {name} runs in the simulator")
    }
}
