//! The agent's log on standard error, for people or as one JSON object per line.

use std::io::IsTerminal;

use tracing_subscriber::filter::EnvFilter;
use uc_client::AgentError;
use uc_policy::{LogFormat, check_log_filter};

/// Starts logging of the events that `filter` accepts.
///
/// # Errors
/// The filter is invalid.
pub fn begin(filter: &str, format: LogFormat) -> Result<(), AgentError> {
    let filter = parsed(filter).map_err(AgentError::NoFilter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // An existing log, for instance a test's, stays in use.
    let _there_is_one = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    check_log_filter(filter)?;
    EnvFilter::try_new(filter).map_err(|error| {
        format!(
            "`{filter}` is not a filter for the log ({error}); give a level, as info, or \
             info,uc_agent=debug"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_and_log_accept_the_same_filters() {
        for (filter, accepted) in [
            ("info", true),
            ("WARN", true),
            ("3", true),
            ("off", true),
            ("uc_agent", true),
            ("info,uc_agent=debug", true),
            ("info,,uc_agent::links=trace", true),
            ("uc_agent[span]=debug", true),
            ("[span{port=\"tap0\"}]=trace,warn", true),
            ("uc_agent=loud", false),
            ("uc_agent=6", false),
            ("info,[", false),
            ("a=b=c", false),
            ("=info", false),
            ("info, uc_agent=debug", false),
        ] {
            assert_eq!(
                check_log_filter(filter).is_ok(),
                accepted,
                "policy: {filter}"
            );
            assert_eq!(
                EnvFilter::try_new(filter).is_ok(),
                accepted,
                "log: {filter}"
            );
        }
    }
}
