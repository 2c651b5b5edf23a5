//! Compiles native libraries outside build scripts.

use std::path::{Path, PathBuf};

use crate::WARNINGS;
use crate::run::{ClangError, clang, run};

/// Compiles `sources` into the shared library `library`. Clang runs in `folder`, from which it finds
/// relative paths. `more` are further arguments of clang, such as `-DNAME` or `-IFOLDER`.
pub fn library(
    folder: &Path,
    sources: &[PathBuf],
    library: &Path,
    more: &[&str],
) -> Result<(), ClangError> {
    let mut clang = clang(folder);
    clang
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11"])
        .args(WARNINGS)
        .args(more)
        .arg("-o")
        .arg(library)
        .args(sources);
    run(&mut clang, library).map(drop)
}

/// Returns the output of the C preprocessor for a source. Clang runs in `folder`, from which it finds
/// relative paths.
pub fn preprocess(folder: &Path, source: &Path, more: &[&str]) -> Result<String, ClangError> {
    let mut clang = clang(folder);
    clang
        .args(["-E", "-P", "-std=gnu11"])
        .args(more)
        .arg(source);
    run(&mut clang, source)
}
