//! Settings of the agent's log: filter and format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Format of the lines of the agent's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text lines for people.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

const LEVELS: [&str; 12] = [
    "off", "error", "warn", "info", "debug", "trace", "0", "1", "2", "3", "4", "5",
];

/// Checks a filter for the log: directives separated by commas, each `level`, `target=level` or `target[span]=level`,
/// as `tracing-subscriber` reads them.
///
/// # Errors
/// The problem and the remedy, as text.
pub fn check_log_filter(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("is empty; write a level, for example \"info\"".to_owned());
    }
    if is_filter(text) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a log filter; write a level such as info, or info,uc_agent=debug"
    ))
}

fn is_filter(text: &str) -> bool {
    let mut depth = 0;
    // a span's fields may have commas of their own
    let directives = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    directives.filter(|one| !one.is_empty()).all(is_directive)
}

fn is_directive(text: &str) -> bool {
    let bare = text.trim_start();
    let begins = |c: char| c.is_alphanumeric() || "-:_[".contains(c);
    if !bare.starts_with(begins) || (bare != text && text.contains('=')) {
        return false;
    }
    let rest = &bare[bare.find(['[', '=']).unwrap_or(bare.len())..];
    let level = match rest.strip_prefix('[') {
        None => rest,
        Some(span) => match span.split_once(']') {
            Some((_, level)) => level,
            None => return false,
        },
    };
    match level.strip_prefix('=') {
        None => level.is_empty(),
        Some(level) => LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)),
    }
}
