//! The whole result from the folders of several commands.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::ledger::{Head, Held, RUNS};
use crate::shard::Shard;
use crate::sweep::Sweep;

/// Reads the runs in these folders, which together must have each run of the first round.
///
/// # Errors
/// A folder without runs, runs that do not belong together or to this program, or the first shard
/// that lacks runs, with the command that makes them.
pub fn merge(folders: &[PathBuf]) -> Result<Sweep> {
    let (mut found, mut empty) = (Vec::new(), None);
    for folder in folders {
        match Held::read(folder)? {
            Some(held) => found.push((folder, held)),
            None => empty = empty.or(Some(folder)),
        }
    }
    let no_runs = empty.map_or_else(String::new, |folder| {
        format!("{}: no runs", folder.join(RUNS).display())
    });
    let first = found.first();
    let Some((first, head)) = first.and_then(|(folder, held)| Some((folder, held.heads.last()?)))
    else {
        bail!("{no_runs}; make them by `uc-bench run` with --shard and --out");
    };
    let whole = Head::of(&head.request, None)?;
    for (folder, held) in &found {
        if let Some(why) = refusal(&whole, held) {
            let (path, first) = (folder.join(RUNS), first.display());
            bail!(
                "{}: {why}; merge folders of one command and program only, here that of {first}",
                path.display()
            );
        }
    }
    let parts = found.iter().map(|(folder, held)| {
        let shard = held.heads.last().and_then(|head| head.shard);
        (folder.as_path(), shard)
    });
    let parts: Vec<(&Path, Option<Shard>)> = parts.collect();
    let mut sweep = Sweep::new(head.request.clone())?;
    for (folder, held) in found {
        for record in held.records {
            let added = sweep.add(record);
            added.with_context(|| folder.join(RUNS).display().to_string())?;
        }
    }
    refuse_missing(&sweep, &parts)?;
    if empty.is_some() {
        bail!("{no_runs}; do not name this folder: the other folders have all runs");
    }
    Ok(sweep)
}

/// Returns why the runs of a folder can't be merged into the result that `whole` describes; `None`: they can.
fn refusal(whole: &Head, held: &Held) -> Option<String> {
    let last = held.heads.last()?;
    let mut heads = held.heads.iter();
    let of_others = heads.find_map(|head| whole.refusal(head));
    of_others.or_else(|| whole.refusal_of_part(last))
}

/// Checks that no run of the first round is missing.
fn refuse_missing(sweep: &Sweep, parts: &[(&Path, Option<Shard>)]) -> Result<()> {
    let count = parts
        .iter()
        .find_map(|(_, shard)| Some(shard.as_ref()?.count));
    let Some((shard, lacking, all)) = sweep.first_lacking(count.unwrap_or(1)) else {
        return Ok(());
    };
    let command = |shard| {
        let folder = folder_of(shard, parts);
        sweep.request.command_of(shard, &folder)
    };
    match count {
        Some(_) => bail!(
            "shard {shard} is missing: {lacking} of its {all} runs; make them: {}",
            command(Some(shard))
        ),
        None => bail!(
            "{lacking} of {all} runs are missing; make them: {}",
            command(None)
        ),
    }
}

/// Returns the folder of a part of the runs. For a part without one, it derives the name from the folders of other
/// parts.
fn folder_of(wanted: Option<Shard>, parts: &[(&Path, Option<Shard>)]) -> PathBuf {
    let known = parts.iter().find(|(_, shard)| *shard == wanted);
    if let Some((folder, _)) = known {
        return folder.to_path_buf();
    }
    let index = wanted.map_or(0, |shard| shard.index).to_string();
    let neighbours = parts.iter().filter_map(|(folder, shard)| {
        let name = folder.file_name()?.to_str()?;
        let stem = name.strip_suffix(&shard.as_ref()?.index.to_string())?;
        Some(folder.with_file_name(format!("{stem}{index}")))
    });
    let guess = || {
        let first = parts.first().map_or(Path::new("out"), |(folder, _)| folder);
        first.with_file_name(format!("shard-{index}"))
    };
    neighbours.into_iter().next().unwrap_or_else(guess)
}
