//! The page of all kept records, in Markdown: for each experiment what the paper says, what was
//! found on each backend, and how to repeat it.

use uc_experiment::{Arm, Basis, Evaluation, Experiment, Outcome, Sitting, Verdict};

use crate::numbers::{found, number};
use crate::words;

/// An experiment with its kept records.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the experiment's kept records.
    pub id: String,
    /// Experiment with the overrides of the records.
    pub experiment: Experiment,
    /// Path of the experiment's file, from the root of the repository.
    pub file: String,
    /// Overrides of the experiment's keys that the records have, as `--set` takes them.
    pub set: Vec<String>,
    /// Records of the experiment, at most one for each backend.
    pub kept: Vec<Shown>,
}

/// A kept record as the page shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Backend on which the record's runs were made.
    pub arm: Arm,
    /// Seed of the first repetition.
    pub seed: u64,
    /// Number of repetitions of the case that has the fewest.
    pub repetitions: u32,
    /// The sittings in which the runs were made, in the order of time.
    pub sittings: Vec<Sitting>,
    /// The verdicts; or why there are none: the record is stale or incomplete.
    pub evaluation: Result<Evaluation, String>,
}

impl Shown {
    fn verdicts(&self) -> &[Verdict] {
        let evaluation = self.evaluation.as_ref();
        evaluation.map_or(&[], |evaluation| &evaluation.verdicts)
    }
}

const HEAD: &str = "\
# Results

Every number that is kept, by experiment. `uc-bench reproduce --docs --accept` writes this page from the records
in this folder, and a test compares the two. Each row is an expectation of an experiment's file, at one point
of its sweep.

| column | content |
|---|---|
| paper | the paper's number, where it states one |
| bar | what the mean must be, and where that comes from: the paper, theory, or results that were known when it was chosen |
| simulated, real kernels, machines | mean ± standard error, and in brackets the number of repetitions; of a trend, its first, middle and last mean |
| verdict | *reproduced (number)*: the 95 % interval of the mean lies within the paper's bar, and mean and bar are within a quarter of the paper's number; *reproduced (direction)*: within the paper's bar, which states a direction or trend, or the mean is further from the number; *holds*: within a bar that is not the paper's, and no further from a number of the paper than a quarter; *differs*: outside the paper's bar, for the reason below the table; *undecided*: partly within; *fails*: outside without a known reason. Where backends differ, one for each |

A command below an experiment repeats its runs and compares each value (simulated), or verdicts and intervals (real
kernels and machines, with new seeds); see [results.md](../docs/results.md#kept-records).
";

/// Formats the page of all results.
pub fn overview(entries: &[Entry]) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&summary(entries));
    for entry in entries {
        page.push_str(&section(entry));
    }
    page
}

/// Returns the paper of a record's name: the name's folder.
fn paper(id: &str) -> &str {
    id.split_once('/').map_or(id, |(paper, _)| paper)
}

/// Counts the verdicts of each paper and backend.
fn summary(entries: &[Entry]) -> String {
    let mut text = String::from(
        "\n| experiments of | backend | records | verdicts | number reproduced | direction reproduced | hold | \
         differ | undecided | fail |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut papers: Vec<&str> = entries.iter().map(|entry| paper(&entry.id)).collect();
    papers.dedup();
    for name in papers {
        for arm in Arm::ALL {
            let of_paper = entries.iter().filter(|entry| paper(&entry.id) == name);
            let kept = of_paper.flat_map(|entry| &entry.kept);
            let kept: Vec<&Shown> = kept.filter(|shown| shown.arm == arm).collect();
            if kept.is_empty() {
                continue;
            }
            let verdicts: Vec<&Verdict> = kept.iter().flat_map(|shown| shown.verdicts()).collect();
            let count = |word: &str| {
                let those = verdicts
                    .iter()
                    .filter(|verdict| words::outcome(verdict) == word);
                those.count().to_string()
            };
            let cells = [
                name.to_owned(),
                backend(arm).to_owned(),
                kept.len().to_string(),
                verdicts.len().to_string(),
                count("reproduced (number)"),
                count("reproduced (direction)"),
                count("holds"),
                count("differs"),
                count("undecided"),
                count("fails"),
            ];
            text.push_str(&row(&cells));
        }
    }
    text
}

fn backend(arm: Arm) -> &'static str {
    match arm {
        Arm::Sim => "simulated",
        Arm::Live => "real kernels",
        Arm::Vm => "machines",
    }
}

fn row(cells: &[String]) -> String {
    let escaped = cells.iter().map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", escaped.collect::<Vec<String>>().join(" | "))
}

fn section(entry: &Entry) -> String {
    let (id, experiment) = (&entry.id, &entry.experiment);
    let mut text = format!("\n## {id}\n\n{}", experiment.title);
    if let Some(source) = &experiment.source {
        text.push_str(&format!(" ({source})"));
    }
    text.push_str(&format!(". File: [{0}](../{0})", entry.file));
    for change in &entry.set {
        text.push_str(&format!(", `--set {change}`"));
    }
    text.push_str(".\n\n");
    for shown in &entry.kept {
        text.push_str(&origin(id, shown));
    }
    if entry.kept.is_empty() {
        text.push_str("No record is kept.\n");
        return text;
    }
    let lines = lines(entry);
    if lines.is_empty() {
        return text;
    }
    let arms: Vec<Arm> = entry.kept.iter().map(|shown| shown.arm).collect();
    let mut header = vec![
        "expectation".to_owned(),
        "paper".to_owned(),
        "bar".to_owned(),
    ];
    header.extend(arms.iter().map(|arm| backend(*arm).to_owned()));
    header.push("verdict".to_owned());
    text.push('\n');
    text.push_str(&row(&header));
    text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
    for line in &lines {
        text.push_str(&row(&line.cells()));
    }
    let mut reasons: Vec<String> = Vec::new();
    for verdict in lines.iter().flat_map(|line| line.verdicts.iter().flatten()) {
        let reason = verdict.differs.as_deref().unwrap_or_default();
        let reason = format!("- {}: {reason}\n", verdict.name);
        if verdict.outcome == Outcome::Differs && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        text.push_str(&format!(
            "\nDiffers from the paper:\n\n{}",
            reasons.concat()
        ));
    }
    text
}

/// Describes where a record comes from, and how to repeat it.
fn origin(id: &str, shown: &Shown) -> String {
    let arm = shown.arm;
    let path = format!("{arm}/{id}.jsonl");
    let last = shown.seed + u64::from(shown.repetitions.saturating_sub(1));
    let runs = words::count(shown.repetitions as usize, "repetition");
    let mut text = format!(
        "- {}: `uc-bench reproduce {id} --on {arm}`; [record]({path}), up to {runs}, seeds {} to {last}",
        backend(arm),
        shown.seed
    );
    for sitting in &shown.sittings {
        let from = &sitting.circumstances;
        text.push_str(&format!("; commit {}, core {}", from.commit, from.core));
        if let Some(kernel) = &from.kernel {
            text.push_str(&format!(", Linux {kernel}"));
        }
        if let Some(machine) = &from.machine {
            text.push_str(&format!(", {machine}"));
        }
        if let Some([first, last]) = from.load {
            text.push_str(&format!(", load average {first} to {last}"));
        }
    }
    if let Err(why) = &shown.evaluation {
        text.push_str(&format!("; **not judged**: {why}"));
    }
    text.push_str(".\n");
    text
}

/// A row: the verdicts of the backends on one expectation at one point, in the order of the records.
struct Line<'a> {
    /// Verdict of the first backend that has one.
    first: &'a Verdict,
    verdicts: Vec<Option<&'a Verdict>>,
}

/// Returns the rows: first those of the first record's verdicts, in its order, then those that only later records have.
fn lines(entry: &Entry) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (number, shown) in entry.kept.iter().enumerate() {
        for verdict in shown.verdicts() {
            let same = |line: &&mut Line<'_>| {
                line.first.name == verdict.name
                    && line.first.at == verdict.at
                    && line.verdicts[number].is_none()
            };
            if let Some(line) = lines.iter_mut().find(same) {
                line.verdicts[number] = Some(verdict);
                continue;
            }
            let mut verdicts = vec![None; entry.kept.len()];
            verdicts[number] = Some(verdict);
            lines.push(Line {
                first: verdict,
                verdicts,
            });
        }
    }
    lines
}

impl Line<'_> {
    fn cells(&self) -> Vec<String> {
        let first = self.first;
        let basis = match first.basis {
            None => String::new(),
            Some(Basis::AfterRuns) => " (after runs)".to_owned(),
            Some(basis) => format!(" ({basis})"),
        };
        let mut cells = vec![
            words::verdict(first),
            first.paper.map_or_else(|| "–".into(), number),
            format!("{}{basis}", first.expect),
        ];
        let mut outcomes: Vec<String> = Vec::new();
        for verdict in &self.verdicts {
            let Some(verdict) = verdict else {
                cells.push("–".to_owned());
                continue;
            };
            cells.push(format!("{} ({})", found(verdict), verdict.n));
            outcomes.push(words::outcome(verdict));
        }
        outcomes.dedup();
        cells.push(outcomes.join(", "));
        cells
    }
}
