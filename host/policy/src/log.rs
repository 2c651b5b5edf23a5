//! What the agent logs, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::EnvFilter;

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What a filter for the log lets through.
///
/// # Errors
/// What is wrong with it and what would be right.
pub fn log_filter(text: &str) -> Result<EnvFilter, String> {
    if text.trim().is_empty() {
        return Err("is empty; give a level, for example \"info\"".to_owned());
    }
    EnvFilter::try_new(text).map_err(|error| {
        format!(
            "`{text}` is no filter for the log ({error}); give a level, as info, or \
             info,uc_agent=debug"
        )
    })
}
