//! Reasons why laws were not built.

use std::path::{Path, PathBuf};

use uc_clang::ClangError;
use uc_core::law::OUTSIDE_MAX;

use crate::error::PortError;

/// Errors of [`compile`](crate::outside::compile).
#[derive(Debug, thiserror::Error)]
pub enum LawError {
    /// The folder has no table.
    #[error("no file {}; it has the rows of the folder's laws (docs/write-a-law.md)", path.display())]
    NoTable {
        /// Path where the table was expected.
        path: PathBuf,
    },
    /// The table has no row.
    #[error("more/table.h defines no law; define UC_LAWS_MORE(X) with a row for each")]
    NoLaw,
    /// The table has more rows than numbers are free.
    #[error("more/table.h has {laws} laws; the limit is {OUTSIDE_MAX}")]
    TooMany {
        /// Number of the table's rows.
        laws: usize,
    },
    /// A law of the tree has the name.
    #[error("more/table.h: the tree has a law of the name '{name}'; choose another")]
    InTree {
        /// Name of the law in the row's second column.
        name: String,
    },
    /// The law's name has characters, or a length, that options and policy files do not allow.
    #[error(
        "more/table.h: '{name}' is no name for a law; take up to 23 small letters, digits, '-' and \
         '_', a letter first"
    )]
    BadName {
        /// Name of the law in the row's second column.
        name: String,
    },
    /// Two rows have one name.
    #[error("more/table.h: two rows have the name '{name}'; rename one")]
    Twice {
        /// Name of the law in the row's second column.
        name: String,
    },
    /// The compiler refused the laws.
    #[error("clang refuses the laws:\n{messages}")]
    Refused {
        /// The compiler's messages.
        messages: String,
    },
    /// The compiler did not run, or its results could not be kept.
    #[error(transparent)]
    Clang(ClangError),
    /// The folder's name is no UTF-8, so libbpf links no file in it.
    #[error(
        "the name of the folder {} is no UTF-8, which libbpf needs where it writes; --out names another \
         folder",
        path.display()
    )]
    NotUtf8 {
        /// The folder for the results.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("could not write {}: {source}; --out names another folder", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
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
