//! `uc-bench reproduce`: makes the kept records of `results/` again and compares them, or extends them.

mod answer;
mod compare;
pub mod docs;
mod rows;
mod seeds;
mod sitting;
mod theorems;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use uc_batch::circumstances;
use uc_experiment::{Arm, Evaluation, KeptRecord, Outcome, Point, Sitting, Values};
use uc_program::cancel_on_signal;

use self::answer::Answer;
use self::seeds::Rows;
use crate::arms;
use crate::batch::Batch;
use crate::records::{self, Kept};
use crate::run::On;
use crate::traces::Traces;

/// Make the kept records of `results/` again and compare them.
///
/// For each experiment prints one line. Exit status 0 if each record is reproduced; 1 if one is not, is
/// missing, incomplete or stale, which means that its experiment was changed; 2 after an error.
///
/// In the simulator a record is reproduced if each value of each repetition is the same number. On
/// real kernels and machines the runs have new seeds. There a record is reproduced if no verdict is the
/// opposite and the 95 % intervals of each mean overlap.
///
/// The record `verify` has the results of the theorems' tests, which are computed as simulated runs are;
/// `verify/lift` and the other names that begin with `verify/` are parts of it.
///
/// With --accept the record is written: in the simulator as a whole; on real kernels and machines the
/// repetitions that it lacks are added, each as soon as it has ended, so that the next command goes on
/// where this one was interrupted.
#[derive(Args)]
pub struct Reproduce {
    /// Names of experiments, such as vcc/fig11, or of records in `results/`; `verify`: the theorems
    #[arg(required_unless_present_any = ["all", "docs"], conflicts_with_all = ["all", "docs"])]
    id: Vec<String>,
    /// Reproduce the records of every experiment whose file allows the backend
    #[arg(long)]
    all: bool,
    /// Run nothing: compare the documents and the page results/README.md with the records; with
    /// --accept, write them
    #[arg(long, conflicts_with = "all")]
    docs: bool,
    /// Backend: simulator, real kernels in network namespaces, or virtual machines
    #[arg(long, value_enum, default_value = "sim")]
    on: On,
    /// Write the new values into the records of `results/`
    #[arg(long)]
    accept: bool,
    /// Judge the simulated records again by runs with other seeds, from this one on. Prints each row whose
    /// verdict changes; exit status 1 if a row that holds fails, or if more than 1 % of the rows change:
    /// of some records, so many more that chance does not explain them
    #[arg(long, value_name = "N", conflicts_with_all = ["accept", "docs", "set"])]
    seed: Option<u64>,
    /// Change one key of the experiment, and store the variant as a record of its own, named by
    /// --as; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "name")]
    set: Vec<String>,
    /// Name of the record of the experiment with --set; later commands need only this name
    #[arg(long = "as", value_name = "NAME", requires = "set")]
    name: Option<String>,
    /// Begin no further run after this many minutes; runs under way are completed [default: no limit]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Number of runs at the same time [default: sim one per core, live 4 but at most 200 Mb/s in all, vm 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    jobs: Option<usize>,
}

impl Reproduce {
    /// Reproduces the records one after the other and prints a line for each. Returns false, for exit status 1, if one
    /// is not reproduced.
    pub fn execute(self) -> Result<bool> {
        let root = Path::new("");
        if self.docs {
            return documents(root, self.accept);
        }
        if let Some(seed) = self.seed {
            return self.judge_again(root, seed);
        }
        let arm = Arm::from(self.on);
        let kept = self.kept(root, arm)?;
        let cancel = cancel_on_signal()?;
        let mut all_good = true;
        let mut print = |name: String, answer: Answer| {
            let line = match answer {
                Answer::Good(line) => line,
                Answer::Bad(line) => {
                    all_good = false;
                    line
                }
            };
            outln!("{name}: {line}");
        };
        for part in self.id.iter().flat_map(|id| theorems::parts(id)) {
            if arm != Arm::Sim {
                bail!(
                    "{}: theorems have no record on backend {arm}; remove --on",
                    part.name
                );
            }
            let answer = theorems::answer(root, &part, self.accept, self.jobs(arm, &[]), &cancel)?;
            print(part.name.to_owned(), answer);
        }
        let until = self.until();
        for kept in kept {
            let answer = self.answer(&kept, &cancel, until)?;
            print(format!("{} {arm}", kept.id), answer);
        }
        Ok(all_good)
    }

    fn jobs(&self, arm: Arm, points: &[Point]) -> usize {
        self.jobs.unwrap_or_else(|| arms::default_jobs(arm, points))
    }

    fn kept(&self, root: &Path, arm: Arm) -> Result<Vec<Kept>> {
        let given = self.id.iter().filter(|id| theorems::parts(id).is_empty());
        let given = given.map(|id| records::id(id).to_owned());
        match &self.name {
            Some(name) => {
                let [of] = &self.id[..] else {
                    bail!(
                        "--as {name} names the record of one experiment; give exactly one \
                         experiment"
                    );
                };
                let of = records::id(of);
                Ok(vec![Kept::open_variant(root, name, of, arm, &self.set)?])
            }
            None if self.all => {
                let ids = records::ids(root, arm)?;
                if ids.is_empty() {
                    bail!(
                        "found no experiments for backend {arm} in ./experiments; run the command \
                         in the repository's folder"
                    );
                }
                let ids = ids.into_iter();
                ids.map(|id| Kept::open(root, &id, arm, &[])).collect()
            }
            None => given.map(|id| Kept::open(root, &id, arm, &[])).collect(),
        }
    }

    /// Judges the records by simulated runs with seeds from `seed` on. Prints a line for each record and for each row
    /// whose verdict changes. Returns false if the records do not stand (`seeds::Rows::stand`).
    fn judge_again(&self, root: &Path, seed: u64) -> Result<bool> {
        let arm = Arm::from(self.on);
        if arm != Arm::Sim {
            bail!(
                "--seed is for --on sim; runs on backend {arm} always draw new seeds; remove --seed"
            );
        }
        if let Some(id) = self.id.iter().find(|id| !theorems::parts(id).is_empty()) {
            bail!(
                "--seed judges experiments, and `{id}` is a theorem; use `uc-bench verify --seed N`"
            );
        }
        let (cancel, until) = (cancel_on_signal()?, self.until());
        let mut rows = Rows::of(self.all);
        for kept in self.kept(root, arm)? {
            let batch = self.batch(&kept, seed, &cancel, until);
            batch.check(&kept.points)?;
            let lines = rows.judge(&kept, &batch)?;
            outln!("{} {arm}: {}", kept.id, lines.join("\n"));
        }
        outln!("{}", rows.summary());
        Ok(rows.stand())
    }

    fn until(&self) -> Option<Instant> {
        let limit = self.minutes.map(|n| Duration::from_secs(60 * n));
        limit.map(|limit| Instant::now() + limit)
    }

    fn batch(
        &self,
        kept: &Kept,
        seed: u64,
        cancel: &Arc<AtomicBool>,
        until: Option<Instant>,
    ) -> Batch {
        let arm = kept.head.arm;
        Batch {
            arm,
            repeat: kept.experiment.repeats(arm),
            jobs: self.jobs(arm, &kept.points),
            seed,
            cancel: Arc::clone(cancel),
            until,
            traces: Traces::default(),
        }
    }

    fn answer(
        &self,
        kept: &Kept,
        cancel: &Arc<AtomicBool>,
        until: Option<Instant>,
    ) -> Result<Answer> {
        let arm = kept.head.arm;
        let batch = |seed| self.batch(kept, seed, cancel, until);
        batch(kept.head.seed).check(&kept.points)?;
        match (arm, self.accept) {
            (Arm::Sim, accept) => simulated(kept, &batch(kept.head.seed), accept),
            (_, true) => added(kept, &batch(kept.head.seed)),
            (_, false) => {
                // Runs of a record have other seeds, so that the two are independent.
                let made = kept.values()?.runs().last().map_or(0, |run| run + 1);
                let seed = kept.head.seed.wrapping_add(made.into());
                measured(kept, &batch(seed))
            }
        }
    }
}

/// Compares the numbers in documents with the records; with `accept` writes the records' numbers into the documents.
/// Returns false if a document still differs.
fn documents(root: &Path, accept: bool) -> Result<bool> {
    let found = docs::read(root)?;
    for problem in &found.problems {
        outln!("{problem}");
    }
    for file in &found.changed {
        let path = file.path.display();
        if accept {
            file.write(root)?;
            outln!("{path}: written");
        } else {
            outln!(
                "{path}: differs from the records; uc-bench reproduce --docs --accept writes it"
            );
        }
    }
    outln!("{} numbers come from records", found.quotes);
    Ok(found.problems.is_empty() && (accept || found.changed.is_empty()))
}

/// Simulates the experiment again and compares each value with the record; with `accept` replaces the record if it
/// differs.
fn simulated(kept: &Kept, batch: &Batch, accept: bool) -> Result<Answer> {
    let known = kept.values()?;
    let (fresh, evaluation) = sitting::complete(kept, batch, Values::default(), |_| Ok(()))?;
    let Some(evaluation) = evaluation else {
        return Ok(Answer::Bad("incomplete: the time was up".into()));
    };
    let differences = compare::values(&known, &fresh, &kept.points);
    if differences.is_empty() && !kept.is_stale() {
        return Ok(Answer::Good(format!("reproduced, {}", tally(&evaluation))));
    }
    let why = match &kept.record {
        None => "no record".to_owned(),
        Some(_) if kept.is_stale() => "stale record".to_owned(),
        Some(_) => format!(
            "{} of {} rows differ",
            differences.len(),
            fresh.rows().len()
        ),
    };
    if accept {
        let sitting = circumstances::of_program();
        let sitting = Sitting::of(sitting, &kept.points, &fresh);
        kept.write(&KeptRecord {
            head: kept.head.clone(),
            sittings: vec![sitting],
        })?;
        return Ok(Answer::Good(format!(
            "accepted ({why}), {}",
            tally(&evaluation)
        )));
    }
    let first = differences.first().filter(|_| kept.record.is_some());
    let first = first.map_or_else(String::new, |first| format!("; first: {first}"));
    Ok(Answer::Bad(format!("{why}{first}")))
}

/// Makes the repetitions that a record of real kernels or VMs lacks, and adds them.
fn added(kept: &Kept, batch: &Batch) -> Result<Answer> {
    let stale = kept.is_stale();
    let known = kept.needed_values()?;
    let earlier = kept.record.as_ref().filter(|_| !stale);
    let earlier = earlier.map_or_else(Vec::new, |record| record.sittings.clone());
    let begun = circumstances::of_machine();
    let save = |values: &Values| -> Result<()> {
        let mut now = begun.clone();
        circumstances::end(&mut now);
        let mut sittings = earlier.clone();
        sittings.push(Sitting::of(now, &kept.points, values));
        kept.write(&KeptRecord {
            head: kept.head.clone(),
            sittings,
        })
    };
    let (_, evaluation) = sitting::complete(kept, batch, known, save)?;
    let replaced = if stale { "stale record replaced; " } else { "" };
    Ok(match evaluation {
        Some(evaluation) => Answer::Good(format!("{replaced}complete, {}", tally(&evaluation))),
        None => Answer::Bad(format!(
            "{replaced}incomplete; run the same command again to continue"
        )),
    })
}

/// Makes new runs on real kernels or VMs, and compares their verdicts and intervals with the record's.
fn measured(kept: &Kept, batch: &Batch) -> Result<Answer> {
    let known = match kept.evaluation() {
        Ok(known) => known,
        Err(why) => return Ok(Answer::Bad(format!("{why:#}"))),
    };
    let (_, fresh) = sitting::complete(kept, batch, Values::default(), |_| Ok(()))?;
    let Some(fresh) = fresh else {
        return Ok(Answer::Bad("incomplete: the time was up".into()));
    };
    let differences = compare::verdicts(&known, &fresh);
    Ok(match differences.first() {
        None => Answer::Good(format!("reproduced, {}", tally(&fresh))),
        Some(first) => Answer::Bad(format!(
            "{} of {} verdicts differ; first: {first}",
            differences.len(),
            fresh.verdicts.len()
        )),
    })
}

/// Returns the numbers of verdicts as text, such as `9 of 11 hold, 2 differ from the paper`.
fn tally(evaluation: &Evaluation) -> String {
    let count = |outcome| evaluation.with(outcome).count();
    let all = evaluation.verdicts.len();
    let mut text = format!("{} of {all} hold", count(Outcome::Holds));
    for (outcome, verb) in [
        (Outcome::Differs, "differ from the paper"),
        (Outcome::Undecided, "undecided"),
        (Outcome::Fails, "fail"),
        (Outcome::Stale, "hold against the file's `differs`"),
    ] {
        let number = count(outcome);
        if number > 0 {
            text.push_str(&format!(", {number} {verb}"));
        }
    }
    text
}
