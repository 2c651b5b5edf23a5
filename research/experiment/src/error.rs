//! Errors in an experiment file, with place and remedy.

use std::path::PathBuf;

/// Why an experiment can't be read or run. Each message is one line: place, problem, remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("{}: {source}; name an experiment file (*.toml)", path.display())]
    Read {
        /// Path as it was given.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The text is not TOML, or not an experiment: it has a key or value that the schema does not
    /// know.
    #[error("{place}: {message}")]
    Parse {
        /// Place as `file:line:column`.
        place: String,
        /// The problem, and what is expected.
        message: String,
    },
    /// The file can be read, but has an impossible number or an unknown name.
    #[error("{place}: {key}: {message}")]
    Invalid {
        /// Place as `file:line:column`, or the file alone if the value was overridden or has no
        /// place.
        place: String,
        /// Path of the key, for example `case.1.guests.0.stack`.
        key: String,
        /// The problem, and the remedy.
        message: String,
    },
    /// An override (`network.rate=100Mbit`) that can't be applied.
    #[error("--set {text}: {message}")]
    Set {
        /// Override as it was given.
        text: String,
        /// Description of the error, and the remedy.
        message: String,
    },
    /// A case was selected that the file doesn't have.
    #[error("--case {name}: no such case; the file has {known}")]
    Case {
        /// Name as it was given.
        name: String,
        /// Names of the file's cases.
        known: String,
    },
}
