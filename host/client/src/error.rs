//! Errors of an agent, and of asking one.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use uc_files::FileError;

/// Why an agent does not run, or does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An agent runs on this host already.
    #[error("an agent runs on this host already (it holds {path}); end it first")]
    Running {
        /// The lock that the running agent holds.
        path: PathBuf,
    },
    /// A file or socket that could not be used, or a file that somebody else could have written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The first policy is invalid, and there is no earlier one that could stay in force.
    #[error(transparent)]
    Policy(#[from] uc_policy::PolicyError),
    /// The log's filter can't be understood.
    #[error("--log: {0}")]
    NoFilter(String),
    /// The maps would need more memory than is left.
    #[error(
        "the tables of flows and events would take {needed_mb} MB of kernel memory, but {left}; lower \
         agent.flows_max and agent.events, or raise the limit (MemoryMax of the agent's unit)"
    )]
    NoMemory {
        /// Memory that the maps would take, in MB.
        needed_mb: u64,
        /// Memory that is left on the host or in a control group, in words.
        left: String,
    },
    /// No agent listens on the socket.
    #[error("no agent answers on {path}: {source}; {}", remedy_of_no_agent(.source))]
    NoAgent {
        /// Path of the agent's Unix socket.
        path: PathBuf,
        /// Error of the attempt to connect.
        source: io::Error,
    },
    /// An agent listens on the socket but does not answer.
    #[error("the agent on {path} doesn't answer: {why}")]
    Silent {
        /// Path of the agent's Unix socket.
        path: PathBuf,
        /// Why the agent does not answer, and what to do.
        why: String,
    },
    /// The agent refused a request.
    #[error("the agent refused the request: {text}")]
    Refused {
        /// The agent's reason for the refusal.
        text: String,
    },
    /// A port could not be attached, detached or read.
    #[error(transparent)]
    Port(#[from] uc_port::PortError),
}

impl AgentError {
    /// Makes an error of an action, such as "open FILE", and the system's error.
    pub fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        FileError::io(action, source).into()
    }
}

/// Returns what to do if the agent's socket could not be used.
fn remedy_of_no_agent(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "only root may ask an agent: run it with sudo",
        _ => "start one: `systemctl start undercurrent`, or `uc agent`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_agent_is_reported_with_the_remedy_of_its_cause() {
        for (kind, remedy) in [
            (ErrorKind::NotFound, "; start one: `systemctl"),
            (ErrorKind::ConnectionRefused, "; start one: `systemctl"),
            (ErrorKind::PermissionDenied, ": run it with sudo"),
        ] {
            let error = AgentError::NoAgent {
                path: "/run/a.sock".into(),
                source: kind.into(),
            };
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}
