//! `uc-bench reproduce verify`: makes the rows of the theorems' record again and compares them.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use serde_json::json;
use uc_batch::circumstances;
use uc_verify::record::{PARTS, Part};

use super::answer::Answer;
use super::rows;
use crate::records::write_file;
use crate::verify::bar;

/// Name of the whole record of the theorems; its parts are `verify/…`.
const VERIFY: &str = "verify";

/// Returns the parts of the theorems' record that a name means: all, one, or none if the name is another record's.
pub(super) fn parts(id: &str) -> Vec<Part> {
    let named = |part: &Part| id == VERIFY || id == part.name;
    PARTS.into_iter().filter(named).collect()
}

/// Makes the rows of a part again, and compares them with the record; with `accept` writes them.
pub(super) fn answer(
    root: &Path,
    part: &Part,
    accept: bool,
    jobs: usize,
    cancel: &AtomicBool,
) -> Result<Answer> {
    let path = rows::path(root, part.name);
    let known = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let fresh = made(part, jobs, cancel)?;
    let why = match &known {
        None => "no record".to_owned(),
        Some(text) => {
            // behind the head
            let known: Vec<&str> = text.lines().skip(1).collect();
            let differing = differences(&known, &fresh);
            let (count, all) = (differing.len(), fresh.len());
            let Some(first) = differing.first() else {
                return Ok(Answer::Good(format!("reproduced, {all} rows")));
            };
            format!("{count} of {all} rows differ; first: row {first}")
        }
    };
    if !accept {
        return Ok(Answer::Bad(why));
    }
    let of = circumstances::of_program();
    let head = json!({"commit": of.commit, "core": of.core});
    write_file(&path, &format!("{head}\n{}\n", fresh.join("\n")))?;
    Ok(Answer::Good(format!("accepted ({why})")))
}

/// Makes all rows of a part, `jobs` at the same time.
fn made(part: &Part, jobs: usize, cancel: &AtomicBool) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let bar = bar(part.rows as u64, "rows");
    let work = || -> Result<Vec<(usize, String)>> {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= part.rows || cancel.load(Ordering::Relaxed) {
                return Ok(made);
            }
            made.push((number, part.row(number)?));
            bar.inc(1);
        }
    };
    let mut all = std::thread::scope(|scope| -> Result<Vec<(usize, String)>> {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for thread in threads {
            let Ok(made) = thread.join() else {
                bail!(
                    "{}: computing a row failed; the panic message printed before this line has \
                     the cause",
                    part.name
                );
            };
            all.extend(made?);
        }
        Ok(all)
    })?;
    bar.finish_and_clear();
    if cancel.load(Ordering::Relaxed) {
        bail!("cancelled by a signal; no record was written");
    }
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, row)| row).collect())
}

/// Returns the numbers, from 1, of the rows that differ.
fn differences(known: &[&str], fresh: &[String]) -> Vec<usize> {
    let rows = 0..known.len().max(fresh.len());
    let differs = |row: &usize| known.get(*row).copied() != fresh.get(*row).map(String::as_str);
    rows.filter(differs).map(|row| row + 1).collect()
}
