//! The agent's log on standard error, for people or as one JSON object per line.

use std::io::IsTerminal;

use uc_policy::LogFormat;

use crate::error::AgentError;

/// Begins to log what the filter lets through.
///
/// # Errors
/// Where the filter is none.
pub fn begin(filter: &str, format: LogFormat) -> Result<(), AgentError> {
    let filter = uc_policy::log_filter(filter).map_err(AgentError::NoFilter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // Where there is a log already, for instance a test's, that one goes on.
    let _there_is_one = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}
