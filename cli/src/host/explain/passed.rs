//! Prints flows that are not translated.

use anyhow::Result;
use serde::Serialize;
use uc_port::Passed;

use crate::host::seen::clock::{Clock, time_of_day};

#[derive(Serialize)]
struct PassedRow<'a> {
    name: &'a str,
    unix_s: f64,
    reason: &'static str,
    meaning: &'static str,
}

/// Prints flows that passed, with the reason.
///
/// # Errors
/// If they can't be put into JSON.
pub fn tell(passed: &[(Passed, String)], clock: &Clock, json: bool) -> Result<()> {
    let rows: Vec<PassedRow<'_>> = passed
        .iter()
        .map(|(passed, name)| PassedRow {
            name,
            unix_s: clock.unix_s(passed.at_ns),
            reason: passed.reason.label(),
            meaning: passed.reason.meaning(),
        })
        .collect();
    if json {
        outln!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "passed": rows }))?
        );
        return Ok(());
    }
    let name = rows.first().map_or("", |row| row.name);
    outln!("{name}\n  is not translated: it passes as it is");
    for row in &rows {
        let at = time_of_day(row.unix_s);
        outln!("    {at}  {}: {}", row.reason, row.meaning);
    }
    Ok(())
}
