//! What a batch leaves on disk: the page, the object and the records.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uc_report::Report;

/// The commit that this program was built from.
pub const COMMIT: &str = env!("UC_COMMIT");

/// Paths of what was written.
pub struct Written {
    /// The page for people.
    pub page: PathBuf,
}

/// Writes `report.html`, `results.json` and `records.json` into `folder`.
pub fn write(report: &Report<'_>, folder: &Path) -> Result<Written> {
    fs::create_dir_all(folder)
        .with_context(|| format!("could not make the folder {}", folder.display()))?;
    let page = folder.join("report.html");
    put(&page, &uc_report::html::html(report)?)?;
    put(
        &folder.join("results.json"),
        &uc_report::json::json(report)?,
    )?;
    put(
        &folder.join("records.json"),
        &serde_json::to_string(report.records)?,
    )?;
    Ok(Written { page })
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("could not write {}", path.display()))
}

/// Where results go if nobody says: `out/` and the experiment's name.
pub fn default_folder(experiment: &str) -> PathBuf {
    Path::new("out").join(experiment.replace('/', "-"))
}

/// The command that was given, for the report.
pub fn command_line() -> String {
    let quote = |word: String| {
        let plain = !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c));
        if plain {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    std::iter::once("uc".to_owned())
        .chain(std::env::args().skip(1).map(quote))
        .collect::<Vec<_>>()
        .join(" ")
}
