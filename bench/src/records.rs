//! The kept records in `results/`, and the experiments to which they belong.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use uc_experiment::{Arm, Evaluation, Experiment, Head, KeptRecord, Point, Values, judge};

/// Folder of the kept records; it has one folder for each backend.
pub const RESULTS: &str = "results";
/// Folder of the experiment files, below the repository's root.
const EXPERIMENTS: &str = "experiments";
/// Seed of repetition 0 in every kept record.
pub const SEED: u64 = 1;

/// An experiment, and the kept record of its runs on one backend.
pub struct Kept {
    /// Name of the record: that of the experiment's file, or of a variant of it.
    pub id: String,
    /// The experiment, with the record's overrides (`--set`).
    pub experiment: Experiment,
    /// Points of the experiment's sweep.
    pub points: Vec<Point>,
    /// Experiment and backend, for the record's first line.
    pub head: Head,
    /// The kept record; `None` if its file does not exist.
    pub record: Option<KeptRecord>,
    path: PathBuf,
}

impl Kept {
    /// Reads the record with this name, and its experiment. If there is no record, the experiment is the one of the
    /// same name with the overrides `set`. If there is one, `set` must be empty or equal to the record's overrides.
    ///
    /// # Errors
    /// A file can't be read, or `set` differs from the record's overrides.
    pub fn open(root: &Path, id: &str, arm: Arm, set: &[String]) -> Result<Self> {
        let path = path(root, id, arm);
        let record = match fs::read_to_string(&path) {
            Ok(text) => {
                let read = KeptRecord::read(&text);
                Some(read.with_context(|| path.display().to_string())?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let own = || (format!("{EXPERIMENTS}/{id}.toml"), set.to_vec());
        let known = record.as_ref().map(|record| &record.head);
        let (file, changes) =
            known.map_or_else(own, |head| (head.experiment.clone(), head.set.clone()));
        if !set.is_empty() && *set != *changes {
            bail!(
                "{} was made with --set {}; give the same --set, or --as NAME for another record",
                path.display(),
                changes.join(" --set ")
            );
        }
        Self::with(root, id, arm, record, &file, changes)
    }

    /// Reads the record `id`, or if there is none, prepares it for a variant of the experiment `of` with the overrides
    /// `set`.
    ///
    /// # Errors
    /// As [`Kept::open`].
    pub fn open_variant(root: &Path, id: &str, of: &str, arm: Arm, set: &[String]) -> Result<Self> {
        if path(root, id, arm).exists() {
            return Self::open(root, id, arm, set);
        }
        let file = format!("{EXPERIMENTS}/{of}.toml");
        Self::with(root, id, arm, None, &file, set.to_vec())
    }

    fn with(
        root: &Path,
        id: &str,
        arm: Arm,
        record: Option<KeptRecord>,
        file: &str,
        set: Vec<String>,
    ) -> Result<Self> {
        let mut experiment = Experiment::load(root.join(file))?;
        for change in &set {
            experiment.apply_set(change)?;
        }
        experiment.validate()?;
        experiment.suits(arm)?;
        let head = Head {
            experiment: file.to_owned(),
            set,
            arm,
            seed: SEED,
            setup: experiment.setup_hash(arm),
        };
        Ok(Self {
            id: id.to_owned(),
            points: experiment.points()?,
            experiment,
            head,
            record,
            path: path(root, id, arm),
        })
    }

    /// Returns whether the record is stale: the experiment has changed since, so the record's head differs.
    pub fn is_stale(&self) -> bool {
        let of_another = |record: &KeptRecord| record.head != self.head;
        self.record.as_ref().is_some_and(of_another)
    }

    /// Returns the kept values; empty if there is no record or it is stale.
    ///
    /// # Errors
    /// A row of the record is of a point that the experiment does not have.
    pub fn values(&self) -> Result<Values> {
        match &self.record {
            Some(record) if !self.is_stale() => {
                let values = record.values(&self.points);
                values.with_context(|| self.path.display().to_string())
            }
            _ => Ok(Values::default()),
        }
    }

    /// Returns those of the kept values that the file's expectations need now; earlier versions of the file may have
    /// needed more.
    ///
    /// # Errors
    /// As [`Kept::values`].
    pub fn needed_values(&self) -> Result<Values> {
        let needed = Values::of(&self.experiment, &self.points, &[], self.head.arm);
        let kept = self.values()?;
        let rows = kept.rows().iter();
        let rows = rows.filter(|row| needed.row(row.point, &row.measure).is_some());
        Ok(rows.cloned().collect())
    }

    /// Judges the expectations by the kept values of complete repetitions.
    ///
    /// # Errors
    /// There is no record, the record is stale, or it lacks a measure or a run.
    pub fn evaluation(&self) -> Result<Evaluation> {
        let path = self.path.display();
        let arm = self.head.arm;
        let remedy = format!("uc-bench reproduce {} --on {arm} --accept", self.id);
        if self.record.is_none() {
            bail!("{path}: this record does not exist; make it: {remedy}");
        }
        if self.is_stale() {
            bail!(
                "{path}: {} was changed after this record was made; make the record again: \
                 {remedy}",
                self.head.experiment
            );
        }
        let mut values = self.needed_values()?;
        values.keep_complete(self.experiment.repeats(arm));
        let found = judge(&self.experiment, &self.points, &values, arm);
        found.with_context(|| format!("{path}: the record lacks runs; make them: {remedy}"))
    }

    /// Writes the record's file in one step: readers see either the old or the new file.
    pub fn write(&self, record: &KeptRecord) -> Result<()> {
        write_file(&self.path, &record.text()?)
    }

    /// Returns the path of the record's file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a record's file in one step.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    let write = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let part = path.with_extension("part");
        fs::write(&part, text)?;
        fs::rename(&part, path)
    };
    write().with_context(|| format!("could not write {}", path.display()))
}

/// Returns the path of the record of this name.
pub fn path(root: &Path, id: &str, arm: Arm) -> PathBuf {
    let folder = root.join(RESULTS).join(arm.name());
    folder.join(format!("{id}.jsonl"))
}

/// Returns the name of an experiment, which a user gave as `vcc/fig1` or `experiments/vcc/fig1.toml`.
pub fn id(given: &str) -> &str {
    let inside = given.strip_prefix(&format!("{EXPERIMENTS}/"));
    let name = inside.unwrap_or(given);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// Returns the names of all experiments that the backend may run and of all its kept records, sorted by [`place`].
///
/// # Errors
/// A folder or file can't be read.
pub fn ids(root: &Path, arm: Arm) -> Result<Vec<String>> {
    let experiments = root.join(EXPERIMENTS);
    let mut found = BTreeSet::new();
    for id in names(&experiments, "toml")? {
        let path = experiments.join(format!("{id}.toml"));
        if Experiment::load(&path)?.suits(arm).is_ok() {
            found.insert(id);
        }
    }
    found.extend(kept_ids(root, arm)?);
    let mut ids: Vec<String> = found.into_iter().collect();
    ids.sort_by_key(|id| place(id));
    Ok(ids)
}

/// Returns a key that sorts names by folder, then by length, so that figure 4 comes before figure 10.
pub fn place(id: &str) -> (String, usize, String) {
    let folder = id.rsplit_once('/').map_or("", |(folder, _)| folder);
    (folder.to_owned(), id.len(), id.to_owned())
}

/// Returns the names of the kept records of a backend, sorted.
///
/// # Errors
/// A folder can't be read.
pub fn kept_ids(root: &Path, arm: Arm) -> Result<Vec<String>> {
    names(&root.join(RESULTS).join(arm.name()), "jsonl")
}

/// Returns the paths of the files with this extension below a folder, relative to it and without the extension; none if
/// the folder does not exist.
fn names(folder: &Path, extension: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inside) = open.pop() {
        let here = folder.join(&inside);
        let entries = match fs::read_dir(&here) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.with_context(|| here.display().to_string())?,
        };
        for entry in entries {
            let entry = entry?;
            let path = inside.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path.with_extension("").display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}
