//! The runs of a folder on disk. Each run is appended as soon as it has ended, so that a later command goes on where
//! one was interrupted, and another merges the folders of several machines.
//!
//! A file has one JSON object a line: a `sitting` for each command, which says what the command
//! asked for, and a `run` with the whole record of each run that it made, in the format of `stored`.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use uc_experiment::RunRecord;

use crate::outputs::COMMIT;
use crate::request::Request;
use crate::shard::Shard;
use crate::stored::Stored;

/// Name of the file to which a command appends its runs.
pub const RUNS: &str = "runs.jsonl";

/// The request of a command, and the version of its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The experiment and the part of it that is run.
    pub request: Request,
    /// The command's part of all runs; `None`: the command makes all runs.
    pub shard: Option<Shard>,
    /// Hash of the keys that decide the runs.
    pub setup: String,
    /// Commit of the program that made the runs.
    pub commit: String,
    /// Hash of the program's core ([`Request::core`]).
    pub core: String,
}

impl Head {
    /// Describes a command of this program.
    ///
    /// # Errors
    /// What is wrong with the file or with an override.
    pub fn of(request: &Request, shard: Option<Shard>) -> Result<Self> {
        Ok(Self {
            request: request.clone(),
            shard,
            setup: request.setup_hash()?,
            commit: COMMIT.to_owned(),
            core: request.core(),
        })
    }

    /// Returns why runs under `other` are none of this command's; `None` if they are this command's.
    pub fn refusal(&self, other: &Head) -> Option<String> {
        let (mine, theirs) = (&self.request, &other.request);
        let listed = |list: &[String]| match list {
            [] => "all".to_owned(),
            some => some.join(", "),
        };
        let rows = [
            ("program", self.program(), other.program()),
            ("seed", mine.seed.to_string(), theirs.seed.to_string()),
            (
                "backend",
                mine.arm.name().to_owned(),
                theirs.arm.name().to_owned(),
            ),
            ("--set", listed(&mine.set), listed(&theirs.set)),
            ("--case", listed(&mine.case), listed(&theirs.case)),
            ("--point", listed(&mine.point), listed(&theirs.point)),
            ("setup", self.setup.clone(), other.setup.clone()),
        ];
        let differs = |(_, mine, theirs): &(&str, String, String)| mine != theirs;
        let (key, mine, theirs) = rows.into_iter().find(differs)?;
        let of = if key == "setup" {
            "another experiment file, with the setup"
        } else {
            key
        };
        Some(format!("its runs are of {of} {theirs}, not {mine}"))
    }

    /// Returns why the runs under `other` are no part of this command's result: [`Head::refusal`], or `other` asks for
    /// other repetitions or expectations. `None`: they are a part.
    pub fn refusal_of_part(&self, other: &Head) -> Option<String> {
        let (mine, theirs) = (&self.request, &other.request);
        let repeat = |request: &Request| {
            let own = || "the file's".to_owned();
            request.repeat.map_or_else(own, |repeat| repeat.to_string())
        };
        self.refusal(other).or_else(|| {
            if mine.repeat != theirs.repeat {
                let (mine, theirs) = (repeat(mine), repeat(theirs));
                return Some(format!("its --repeat is {theirs}, not {mine}"));
            }
            let why = || "its experiment has other expectations, repetitions or titles".to_owned();
            (mine.text != theirs.text).then(why)
        })
    }

    fn program(&self) -> String {
        format!("{} (core {})", self.commit, self.core)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Sitting(Box<Head>),
    Run(Box<Stored>),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineOf<'a> {
    Sitting(&'a Head),
    Run(Box<Stored>),
}

/// Content of a file of runs.
#[derive(Debug, Default)]
pub struct Held {
    /// Sittings in the order of time.
    pub heads: Vec<Head>,
    /// Runs in the order in which they ended.
    pub records: Vec<RunRecord>,
    /// Size in bytes of all complete lines: a command that was killed may leave an incomplete line behind them.
    whole_bytes: u64,
}

impl Held {
    /// Reads the file in a folder; `None` without a file, or if no line of it is complete.
    ///
    /// # Errors
    /// A file that can't be read, or the number of the first complete line that is neither object.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RUNS);
        match File::open(&path) {
            Ok(file) => Self::read_from(&file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn read_from(file: &File, path: &Path) -> Result<Option<Self>> {
        let mut reader = BufReader::new(file);
        let (mut held, mut line) = (Self::default(), Vec::new());
        for number in 1.. {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            read.with_context(|| path.display().to_string())?;
            if line.last() != Some(&b'\n') {
                break;
            }
            if let Err(why) = held.add(&line) {
                bail!("{}", refused(path, number, &why));
            }
            held.whole_bytes += line.len() as u64;
        }
        Ok((!held.heads.is_empty()).then_some(held))
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line).map_err(|error| error.to_string())? {
            Line::Sitting(head) => self.heads.push(*head),
            Line::Run(_) if self.heads.is_empty() => {
                return Err(
                    "the line of a run comes before the first line of a command (`sitting`)"
                        .to_owned(),
                );
            }
            Line::Run(stored) => self.records.push(stored.into_record()?),
        }
        Ok(())
    }
}

fn refused(path: &Path, number: u32, why: &str) -> String {
    let path = path.display();
    format!("{path}:{number}: {why}; remove the file, and make its runs again")
}

/// Returns a run's line, which [`records_of`] reads.
///
/// # Errors
/// The record can't be written as JSON.
pub fn line_of(record: &RunRecord) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&LineOf::Run(Box::new(Stored::of(record))))?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the runs of lines that another process sent.
///
/// # Errors
/// A line that is not a run.
pub fn records_of(lines: &[u8]) -> Result<Vec<RunRecord>> {
    let lines = lines.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| match serde_json::from_slice(line)? {
            Line::Run(stored) => stored.into_record().map_err(|why| anyhow!(why)),
            Line::Sitting(_) => Err(anyhow!(
                "expected lines of runs only, found the line of a command (`sitting`)"
            )),
        })
        .collect()
}

/// The file of a folder, to which a command appends its runs.
pub struct Ledger {
    path: PathBuf,
    head: Head,
    /// The file, open, locked and with this command's sitting; `None` before the first run.
    file: Option<File>,
    /// Number of bytes of the file that are kept when it is opened.
    kept_bytes: u64,
    runs: usize,
}

impl Ledger {
    /// Prepares the file of a folder. With `resume` its earlier runs are kept, and returned; else
    /// the first run that is appended replaces them.
    ///
    /// # Errors
    /// With `resume`: the earlier runs can't be read, or are not this command's.
    pub fn open(folder: &Path, head: Head, resume: bool) -> Result<(Self, Vec<RunRecord>)> {
        let held = if resume { Held::read(folder)? } else { None };
        let held = held.unwrap_or_default();
        let path = folder.join(RUNS);
        for other in &held.heads {
            if let Some(why) = head.refusal(other) {
                bail!(
                    "{}: {why}; name another folder by --out, or run without --resume to replace it",
                    path.display()
                );
            }
        }
        let ledger = Self {
            path,
            head,
            file: None,
            kept_bytes: held.whole_bytes,
            runs: held.records.len(),
        };
        Ok((ledger, held.records))
    }

    /// Returns the path of the file of runs.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of runs in the file.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Begins this command's sitting, unless it has begun.
    ///
    /// # Errors
    /// The error with the file's path, or that another command writes to it.
    pub fn begin(&mut self) -> Result<&mut File> {
        if self.file.is_none() {
            let opened = self.open_file();
            let file =
                opened.with_context(|| format!("could not write {}", self.path.display()))?;
            self.file = Some(file);
        }
        self.file
            .as_mut()
            .ok_or_else(|| anyhow!("the file of runs is not open"))
    }

    fn open_file(&self) -> Result<File> {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        let mut file = options.open(&self.path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another command is appending runs to it; name another folder by --out")
            }
            // A file system without locks.
            Err(TryLockError::Error(_)) => {}
        }
        file.set_len(self.kept_bytes)?;
        file.seek(SeekFrom::End(0))?;
        let mut line = serde_json::to_vec(&LineOf::Sitting(&self.head))?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(file)
    }

    /// Appends a run.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn append(&mut self, record: &RunRecord) -> Result<()> {
        let line = line_of(record)?;
        let written = self.begin()?.write_all(&line);
        written.with_context(|| format!("could not write {}", self.path.display()))?;
        self.runs += 1;
        Ok(())
    }
}
