//! What keeps an agent from its work.

use std::io;
use std::path::PathBuf;

/// Errors of this crate. Each names the thing, the place and the mend.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A file or socket that could not be used.
    #[error("could not {action}: {source}")]
    Io {
        /// What was tried, and on what.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// There is an agent already.
    #[error("an agent runs on this host already (it holds {path}); end it first")]
    Running {
        /// Its lock.
        path: PathBuf,
    },
    /// A file that can't be read, or that somebody else could have written.
    #[error(transparent)]
    Untrusted(#[from] uc_policy::trusted::Untrusted),
    /// The first policy is invalid, and there is no older one.
    #[error(transparent)]
    Policy(#[from] uc_policy::PolicyError),
    /// The log's filter can't be understood.
    #[error("--log {0}")]
    NoFilter(String),
    /// There is no agent to talk to.
    #[error("no agent answers on {path}: {source}")]
    NoAgent {
        /// Its socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is one, but it says nothing.
    #[error("the agent on {path} doesn't answer: {why}")]
    Silent {
        /// Its socket.
        path: PathBuf,
        /// What is to be made of that.
        why: String,
    },
    /// The agent refused.
    #[error("the agent says: {text}")]
    Refused {
        /// Its words.
        text: String,
    },
    /// The ports' side.
    #[error(transparent)]
    Port(#[from] uc_port::PortError),
}

impl AgentError {
    /// A system call that failed.
    pub fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action: action.into(),
            source: source.into(),
        }
    }
}
