//! Prints flows that passed unmodified.

use anyhow::Result;
use serde::Serialize;
use uc_port::Passed;

use super::split::{self, SplitBy};
use crate::seen::clock::{Clock, time_of_day};

#[derive(Serialize)]
struct PassedRow {
    name: String,
    unix_s: f64,
    reason: &'static str,
    meaning: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    split_by: Option<SplitBy>,
}

/// Prints flows that passed, each with the reason.
///
/// # Errors
/// The flows can't be written as JSON, or this host's sockets can't be listed.
pub fn tell(passed: &[(Passed, String)], clock: &Clock, json: bool) -> Result<()> {
    let row = |(passed, name): &(Passed, String)| -> Result<PassedRow> {
        Ok(PassedRow {
            name: name.clone(),
            unix_s: clock.unix_s(passed.at_ns),
            reason: passed.reason.label(),
            meaning: passed.reason.meaning(),
            split_by: split::of(passed.guest, passed.remote)?,
        })
    };
    let rows: Vec<PassedRow> = passed.iter().map(row).collect::<Result<_>>()?;
    if json {
        outln!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "passed": rows }))?
        );
        return Ok(());
    }
    let name = rows.first().map_or("", |row| row.name.as_str());
    outln!("{name}\n  is not translated: it passes as it is");
    for row in &rows {
        let at = time_of_day(row.unix_s);
        outln!("    {at}  {}: {}", row.reason, row.meaning);
        if let Some(split) = &row.split_by {
            outln!("    technique  {split}");
        }
    }
    Ok(())
}
