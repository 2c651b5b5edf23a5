//! Reasons why laws were not built.

use std::path::{Path, PathBuf};

use uc_clang::ClangError;

use crate::error::PortError;

/// Errors of [`compile`](crate::outside::compile), which builds laws.
#[derive(Debug, thiserror::Error)]
pub enum LawError {
    /// The folder or its table is of no use; the message names the remedy.
    #[error("{0}")]
    Other(String),
    /// The C compiler refused the laws' source.
    #[error("clang refuses the laws:\n{messages}")]
    Refused {
        /// Messages of the compiler, in full.
        messages: String,
    },
    /// The compiler did not run, or its results could not be kept.
    #[error(transparent)]
    Clang(ClangError),
    /// A file of the build could not be written.
    #[error("could not write {}: {source}; --out names another folder", path.display())]
    Write {
        /// Path of the file or folder that could not be written.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The programs that were made are not those of this build.
    #[error(transparent)]
    Object(#[from] PortError),
}

impl LawError {
    pub(crate) fn write(path: &Path, source: std::io::Error) -> LawError {
        LawError::Write {
            path: path.to_owned(),
            source,
        }
    }
}
