//! `uc-bench compare`: compares two results measure by measure.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use uc_batch::outputs::{Folder, VALUES};
use uc_batch::quoted;
use uc_experiment::{Arm, Comparison, KeptRecord};
use uc_report::compare::{self, Sides};

use crate::records;

/// Names of the files that a comparison writes.
pub const FILES: [&str; 2] = ["compare.html", "compare.json"];

/// Compare two results measure by measure, over the runs with equal seeds.
///
/// A and B are folders that `uc-bench run` wrote, kept records (`results/sim/vcc/fig11.jsonl`), or names of
/// kept records with their backend (`vcc/fig11@sim`, in the repository). Measures are those of the
/// file's expectations, and goodput and completion time of each group of guests and queueing delay as
/// far as the result has them; a kept record has what its expectations need.
///
/// For each measure prints the means of both, the mean of the paired differences B − A relative to the
/// mean of A, its 95 % interval by Student's t, and a verdict: `more` or `less` (of completion times
/// `slower` or `faster`) if the interval does not contain 0, `can't say` if it does or with a single
/// pair, `same` if each pair is equal.
///
/// Exit status 0 if no measure differs; 1 if one does, in whichever direction; 2 after an error, such as
/// results without a common measure or seed.
#[derive(Args)]
pub struct Compare {
    /// Result A, the baseline: a folder, a kept record, or EXPERIMENT@BACKEND
    a: String,
    /// Result B, which is compared with A: a folder, a kept record, or EXPERIMENT@BACKEND
    b: String,
    /// Compare one case of A with another of B, such as two laws on one network: `--case reno=dctcp`.
    /// Measures of both cases with groups of equal names are compared
    #[arg(long, value_name = "CASE_OF_A=CASE_OF_B")]
    case: Option<String>,
    /// Folder into which compare.html, a page with charts, and compare.json are written
    #[arg(long, value_name = "FOLDER", default_value = "out/compare")]
    out: PathBuf,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
}

impl Compare {
    /// Compares, writes the files, and prints the result.
    pub fn execute(self) -> Result<bool> {
        let root = Path::new("");
        let (mut a, mut b) = (read(root, &self.a)?, read(root, &self.b)?);
        let mut names = [self.a.clone(), self.b.clone()];
        if let Some(cases) = &self.case {
            let Some((of_a, of_b)) = cases.split_once('=') else {
                bail!(
                    "--case {cases}: write the names of a case of either result: \
                     CASE_OF_A=CASE_OF_B"
                );
            };
            keep_case(&mut a, &mut names[0], of_a, of_a)?;
            keep_case(&mut b, &mut names[1], of_b, of_a)?;
        }
        let comparison = Comparison::of(&a, &b);
        if comparison.compared.is_empty() {
            let [name_a, name_b] = &names;
            let why = why_nothing([&a, &b], &comparison);
            bail!("could not compare {name_a} with {name_b}: {why}");
        }
        let mut command = format!("uc-bench compare {} {}", quoted(&self.a), quoted(&self.b));
        if let Some(cases) = &self.case {
            command.push_str(&format!(" --case {}", quoted(cases)));
        }
        let sides = Sides {
            names: names.each_ref().map(String::as_str),
            command: &command,
            records: [&a, &b],
            comparison: &comparison,
        };
        let object = compare::json(&sides)?;
        let texts = [compare::html(&sides)?, object.clone()];
        let files = FILES.into_iter().zip(texts.iter().map(String::as_str));
        let folder = Folder::make(self.out)?.write_texts(files)?;
        if self.json {
            outln!("{object}");
        } else {
            out!("{}", compare::table(&sides));
            outln!("\nPage: {}", folder.join(FILES[0]).display());
        }
        Ok(comparison.differing() == 0)
    }
}

/// Reads a result: from a folder, from a file, or by the name of a kept record in `results/`.
fn read(root: &Path, given: &str) -> Result<KeptRecord> {
    let named = given.rsplit_once('@').and_then(|(id, arm)| {
        let arm = Arm::ALL.into_iter().find(|known| known.name() == arm)?;
        Some(records::path(root, records::id(id), arm))
    });
    let path = Path::new(given);
    let path = match named {
        _ if path.is_dir() => path.join(VALUES),
        Some(named) if !path.exists() => named,
        _ => path.to_owned(),
    };
    let text = fs::read_to_string(&path).with_context(|| {
        format!(
            "could not read {}: name a folder of `uc-bench run` of this version, a kept record, or \
             EXPERIMENT@BACKEND",
            path.display()
        )
    })?;
    let record = KeptRecord::read(&text);
    record.with_context(|| path.display().to_string())
}

/// Removes all cases of a result except `case`, renames that to `name`, under which it is compared, and adds the case
/// to the result's name.
fn keep_case(record: &mut KeptRecord, result: &mut String, case: &str, name: &str) -> Result<()> {
    let known: Vec<String> = record.cases().into_iter().collect();
    if !known.iter().any(|known| known == case) {
        bail!(
            "--case: no case `{case}` in {result}; it has {}",
            known.join(", ")
        );
    }
    record.keep_case(case, name)?;
    result.push_str(&format!(", case {case}"));
    Ok(())
}

/// Returns why two results have no measure or run in common, and the remedy.
fn why_nothing([a, b]: [&KeptRecord; 2], comparison: &Comparison) -> String {
    if comparison.left_out.is_empty() {
        format!(
            "no measure has the same case and point in both, which are of experiments {} and {}; name \
             two results of one experiment, or two cases by --case CASE_OF_A=CASE_OF_B",
            a.head.experiment, b.head.experiment
        )
    } else {
        format!(
            "no run has the same seed in both, whose first seeds are {} and {}; run both with the same \
             --seed",
            a.head.seed, b.head.seed
        )
    }
}
