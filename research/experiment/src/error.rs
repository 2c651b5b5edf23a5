//! What can be wrong with an experiment file, with its place and its mend.

use std::path::PathBuf;

/// One line each: the place, the thing, the mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("{}: {source}; name an experiment file (*.toml)", path.display())]
    Read {
        /// The path as it was given.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The text is no TOML, or not an experiment: a key or value that the schema does not know.
    #[error("{place}: {message}")]
    Parse {
        /// `file:line:column`.
        place: String,
        /// What stands there and what should.
        message: String,
    },
    /// The file reads well and makes no sense: an impossible number, an unknown name.
    #[error("{place}: {key}: {message}")]
    Invalid {
        /// `file:line:column`, or the file alone if the value was overridden or has no place.
        place: String,
        /// The key's path, for example `case.1.guests.0.stack`.
        key: String,
        /// What is wrong with it and what would be right.
        message: String,
    },
    /// An override (`network.rate=100Mbit`) that can't be applied.
    #[error("--set {text}: {message}")]
    Set {
        /// The override as it was given.
        text: String,
        /// What is wrong with it and what would be right.
        message: String,
    },
    /// A case was chosen that the file doesn't have.
    #[error("--case {name}: no such case; the file has {known}")]
    Case {
        /// The name as it was given.
        name: String,
        /// Names of the cases that there are.
        known: String,
    },
}
