//! Files that a batch writes: the page, the object, the tables, the values and the records.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uc_experiment::{Arm, Circumstances, Head, KeptRecord, Sitting, Values};
use uc_report::Report;

/// The commit from which this program was built.
pub const COMMIT: &str = env!("UC_COMMIT");

/// Git's hash of the folder `core/` at that commit.
pub const CORE: &str = env!("UC_CORE");

/// Name of the file by which results are compared.
pub const VALUES: &str = "values.jsonl";

/// Names of all files that a batch writes.
pub const FILES: [&str; 6] = [
    "report.html",
    "results.json",
    "flows.csv",
    "verdicts.csv",
    VALUES,
    "records.json",
];

/// Where the runs of a report come from.
pub struct Source {
    /// Backend on which the runs were made.
    pub arm: Arm,
    /// Program and machine that made the runs.
    pub circumstances: Circumstances,
}

impl Source {
    /// Returns the values of the report's runs, in the form of a kept record.
    fn values(&self, report: &Report<'_>) -> KeptRecord {
        let (experiment, points) = (report.experiment, report.points);
        let values = Values::of_results(experiment, points, report.records, self.arm);
        // The number of repetitions decides no run.
        let overrides = experiment.overrides();
        let overrides = overrides.filter(|set| !set.starts_with("repeat"));
        let sitting = Sitting::of(self.circumstances.clone(), points, &values);
        KeptRecord {
            head: Head {
                experiment: experiment.name.clone(),
                set: overrides.map(str::to_owned).collect(),
                arm: self.arm,
                seed: report.meta.seed,
                setup: experiment.setup_hash(self.arm),
            },
            sittings: vec![sitting],
        }
    }
}

/// A folder for results. It is created before the runs, which may take hours, so that an error shows early. Dropping it
/// removes the created folders unless something was written.
pub struct Folder {
    path: PathBuf,
    /// The folders that were created, the innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Creates the folder unless it exists.
    pub fn make(path: PathBuf) -> Result<Self> {
        let made = path
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_path_buf)
            .collect();
        // If only some of them could be created, those are removed again.
        let folder = Self { path, made };
        fs::create_dir_all(&folder.path)
            .with_context(|| format!("could not make the folder {}", folder.path.display()))?;
        Ok(folder)
    }

    /// Returns the path of the result's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all [`FILES`], under temporary names until all of them are complete. Returns the
    /// page's path.
    ///
    /// # Errors
    /// The error with the file's path; the folder is then as it was.
    pub fn write(self, report: &Report<'_>, source: &Source) -> Result<PathBuf> {
        let folder = self.write_whole(&FILES, |folder| folder.write_parts(report, source))?;
        Ok(folder.join(FILES[0]))
    }

    /// Writes these texts, by the names of their files, as [`Folder::write`] does. Returns the
    /// folder's path.
    ///
    /// # Errors
    /// As [`Folder::write`].
    pub fn write_texts<'a>(
        self,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<PathBuf> {
        let texts: Vec<(&str, &str)> = texts.into_iter().collect();
        let names: Vec<&str> = texts.iter().map(|(name, _)| *name).collect();
        self.write_whole(&names, |folder| {
            let mut texts = texts.iter();
            texts.try_for_each(|(name, text)| {
                folder.put(name, |file| Ok(file.write_all(text.as_bytes())?))
            })
        })
    }

    /// Renames what `write` has written under temporary names, or removes it if it failed.
    fn write_whole(
        &self,
        names: &[&str],
        write: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<PathBuf> {
        let written = write(self);
        if written.is_err() {
            for name in names {
                let _not_made = fs::remove_file(self.part(name));
            }
        }
        written?;
        for name in names {
            let path = self.path.join(name);
            fs::rename(self.part(name), &path)
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(self.path.clone())
    }

    fn write_parts(&self, report: &Report<'_>, source: &Source) -> Result<()> {
        let [page, object, flows, verdicts, values, records] = FILES;
        // Computations that can fail come before the first file.
        let page_text = uc_report::html::html(report)?;
        let object_text = uc_report::json::json(report)?;
        let values_text = source.values(report).text()?;
        self.put(page, |file| Ok(file.write_all(page_text.as_bytes())?))?;
        self.put(object, |file| Ok(file.write_all(object_text.as_bytes())?))?;
        self.put(flows, |file| Ok(uc_report::csv::flows(report, file)?))?;
        self.put(verdicts, |file| Ok(uc_report::csv::verdicts(report, file)?))?;
        self.put(values, |file| Ok(file.write_all(values_text.as_bytes())?))?;
        self.put(records, |file| {
            Ok(uc_report::records::write(report.records, file)?)
        })
    }

    /// Returns the path of a file while it is being written.
    fn part(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.part"))
    }

    fn put(
        &self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    ) -> Result<()> {
        let path = self.part(name);
        let write = || -> Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            content(&mut file)?;
            Ok(file.flush()?)
        };
        write().with_context(|| format!("could not write {}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in &self.made {
            let _not_empty = fs::remove_dir(folder);
        }
    }
}

/// Returns the default folder of results: `out/` and the experiment's name.
pub fn default_folder(experiment: &str) -> PathBuf {
    Path::new("out").join(experiment.replace('/', "-"))
}
