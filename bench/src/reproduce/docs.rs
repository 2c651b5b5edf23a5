//! Documents that quote numbers from kept records, and the page that lists all records.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uc_experiment::{Arm, Evaluation, Verdict};
use uc_report::overview::{Entry, Shown, overview};
use uc_report::quotes::{Field, Quote, Quoted, ROWS, fill, unsourced};
use uc_report::tables;

use super::rows;
use crate::records::{Kept, RESULTS, ids, kept_ids};

/// Name of the page of all records, in the folder of the records.
const PAGE: &str = "README.md";
/// Name of the file with each document's number of results that quote no record.
const COUNTS: &str = "unsourced.counts";
const COUNTS_HEAD: &str = "# How many numbers of each document look like results and are not from a record. These only fall.\n";

/// A document whose numbers differ from the records.
pub struct Changed {
    /// Path from the root of the repository.
    pub path: PathBuf,
    /// The file's text with the numbers of the records.
    pub text: String,
}

impl Changed {
    /// Writes the changed document.
    pub fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.path);
        fs::write(&path, &self.text).with_context(|| path.display().to_string())
    }
}

/// The differences between the documents and the records that they quote.
pub struct Documents {
    /// Files whose numbers differ from the records.
    pub changed: Vec<Changed>,
    /// Problems that --accept cannot remedy, one line each.
    pub problems: Vec<String>,
    /// Number of numbers in the documents that are quoted from records.
    pub quotes: usize,
}

/// Compares the README, the pages in `docs/`, the page of all records and the counts of unsourced numbers with the
/// records.
///
/// # Errors
/// A file can't be read.
pub fn read(root: &Path) -> Result<Documents> {
    let mut found = Documents {
        changed: Vec::new(),
        problems: Vec::new(),
        quotes: 0,
    };
    let records = Records::new(root);
    let allowed = counts(root)?;
    let mut counted = COUNTS_HEAD.to_owned();
    for path in documents(root)? {
        let text = read_file(root, &path)?;
        let of_tables = tables::fill(&text, |table| records.rows.table(table));
        let mut filled = fill(&of_tables.text, |quote| records.look_up(quote));
        filled.problems.extend(of_tables.problems);
        filled.quotes += of_tables.quotes;
        let name = path.display();
        let problems = filled.problems.iter();
        found
            .problems
            .extend(problems.map(|problem| format!("{name}: {problem}")));
        found.quotes += filled.quotes;
        let count = unsourced(&tables::without(&filled.text));
        let most = allowed.get(&path).copied().unwrap_or(0);
        if count > most {
            found.problems.push(format!(
                "{name}: {count} numbers are not from a record, at most {most} may be; quote new ones from \
                 records"
            ));
        }
        counted.push_str(&format!("{name} {}\n", count.min(most)));
        found.compare(root, path, filled.text)?;
    }
    found.compare(root, Path::new(RESULTS).join(COUNTS), counted)?;
    found.compare(root, Path::new(RESULTS).join(PAGE), page(root)?)?;
    Ok(found)
}

impl Documents {
    fn compare(&mut self, root: &Path, path: PathBuf, text: String) -> Result<()> {
        if read_file(root, &path)? != text {
            self.changed.push(Changed { path, text });
        }
        Ok(())
    }
}

/// Reads a file; returns an empty text if it does not exist.
fn read_file(root: &Path, path: &Path) -> Result<String> {
    let path = root.join(path);
    if !path.exists() {
        return Ok(String::new());
    }
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Returns the README and the pages of `docs/`, sorted.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("README.md")];
    let folder = root.join("docs");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let name = entry?.file_name();
        let path = Path::new("docs").join(name);
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads for each document how many results without a source it may have.
fn counts(root: &Path) -> Result<BTreeMap<PathBuf, usize>> {
    let text = read_file(root, &Path::new(RESULTS).join(COUNTS))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let counts = lines.filter_map(|line| {
        let (path, count) = line.rsplit_once(' ')?;
        Some((PathBuf::from(path), count.parse().ok()?))
    });
    Ok(counts.collect())
}

/// Returns the text of the page that lists all experiments and records.
fn page(root: &Path) -> Result<String> {
    let mut entries: Vec<Entry> = Vec::new();
    for arm in Arm::ALL {
        let kept = kept_ids(root, arm)?;
        for id in ids(root, arm)? {
            if !entries.iter().any(|entry| entry.id == id) {
                let opened = Kept::open(root, &id, arm, &[])?;
                entries.push(Entry {
                    id: id.clone(),
                    experiment: opened.experiment,
                    file: opened.head.experiment,
                    set: opened.head.set,
                    kept: Vec::new(),
                });
            }
            if !kept.contains(&id) {
                continue;
            }
            let shown = shown(&Kept::open(root, &id, arm, &[])?)?;
            if let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) {
                entry.kept.push(shown);
            }
        }
    }
    entries.sort_by_key(|entry| crate::records::place(&entry.id));
    Ok(overview(&entries))
}

fn shown(kept: &Kept) -> Result<Shown> {
    let evaluation = kept.evaluation().map_err(|error| format!("{error:#}"));
    let sittings = kept.record.as_ref().map(|record| record.sittings.clone());
    Ok(Shown {
        arm: kept.head.arm,
        seed: kept.head.seed,
        repetitions: kept.values()?.runs().last().map_or(0, |run| run + 1),
        sittings: sittings.unwrap_or_default(),
        evaluation,
    })
}

/// The records, each of which is read and judged only once.
struct Records<'a> {
    root: &'a Path,
    rows: rows::Records<'a>,
    judged: RefCell<BTreeMap<(Arm, String), Result<Evaluation, String>>>,
}

impl<'a> Records<'a> {
    fn new(root: &'a Path) -> Self {
        Self {
            root,
            rows: rows::Records::new(root),
            judged: RefCell::default(),
        }
    }

    fn look_up(&self, quote: &Quote) -> Result<Quoted, String> {
        if quote.arm == ROWS {
            return self.rows.look_up(quote);
        }
        let arm = Arm::ALL.into_iter().find(|arm| arm.name() == quote.arm);
        let arm = arm.ok_or("no backend has this name; write sim, live, vm or rows")?;
        let mut judged = self.judged.borrow_mut();
        let key = (arm, quote.id.clone());
        let evaluation = judged.entry(key).or_insert_with(|| {
            let kept = Kept::open(self.root, &quote.id, arm, &[]);
            let judged = kept.and_then(|kept| kept.evaluation());
            judged.map_err(|error| format!("{error:#}"))
        });
        quoted(evaluation.as_ref().map_err(String::clone)?, quote)
    }
}

/// Returns the quoted number from the verdicts of a record.
///
/// # Errors
/// Why the quotation names no number, or several.
fn quoted(evaluation: &Evaluation, quote: &Quote) -> Result<Quoted, String> {
    let named = evaluation.verdicts.iter();
    let mut named = named
        .filter(|verdict| verdict.name == quote.name)
        .peekable();
    if named.peek().is_none() {
        return Err(
            "the experiment has no expectation of this name with runs in the record; correct the \
             quotation's name"
                .to_owned(),
        );
    }
    let found: Vec<Option<Quoted>> = named.filter_map(|verdict| at(verdict, quote)).collect();
    match found[..] {
        [Some(one)] => Ok(one),
        [None] => {
            Err("the expectation's verdict lacks the quoted field; quote another field".to_owned())
        }
        [] => Err(
            "the expectation has no verdict at these labels of the sweep; correct the quotation's \
             labels"
                .to_owned(),
        ),
        _ => Err(
            "several verdicts have this name and these labels; quote with more labels".to_owned(),
        ),
    }
}

/// Returns the number of a verdict at the quote's labels. Outer `None`: the verdict is of another point; inner `None`:
/// it lacks the quoted field.
fn at(verdict: &Verdict, quote: &Quote) -> Option<Option<Quoted>> {
    let is_fixed = |label: &&(String, String)| verdict.at.contains(label);
    let (fixed, moving): (Vec<_>, Vec<_>) = quote.at.iter().partition(is_fixed);
    if fixed.len() != verdict.at.len() {
        return None;
    }
    let step = match moving[..] {
        [] => None,
        [(_, label)] => Some(verdict.steps.iter().find(|step| step.label == *label)?),
        _ => return None,
    };
    Some(match (quote.field, step) {
        (Field::Mean, Some(step)) => Some((step.ours, step.spread)),
        (Field::N, Some(step)) => Some((step.n as f64, None)),
        (Field::Mean, None) => verdict.ours.map(|ours| (ours, verdict.spread)),
        (Field::N, None) => Some((verdict.n as f64, None)),
        (Field::Paper, _) => verdict.paper.map(|paper| (paper, None)),
        (Field::Least, _) => verdict.extremes.map(|[least, _]| (least, None)),
        (Field::Most, _) => verdict.extremes.map(|[_, most]| (most, None)),
    })
}
