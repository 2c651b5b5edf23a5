//! Compiles native libraries outside build scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::WARNINGS;
use crate::run::{ClangError, run};

/// Compiles `sources` into the shared library `library`. `more` are further arguments of clang, such as
/// `-DNAME` or `-IFOLDER`.
///
/// # Errors
/// [`ClangError`].
pub fn library(sources: &[PathBuf], library: &Path, more: &[&str]) -> Result<(), ClangError> {
    let mut clang = Command::new("clang");
    clang
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11"])
        .args(WARNINGS)
        .args(more)
        .arg("-o")
        .arg(library)
        .args(sources);
    run(&mut clang, library).map(drop)
}

/// Returns what the preprocessor makes of a C source.
///
/// # Errors
/// [`ClangError`].
pub fn preprocess(source: &Path, more: &[&str]) -> Result<String, ClangError> {
    let mut clang = Command::new("clang");
    clang
        .args(["-E", "-P", "-std=gnu11"])
        .args(more)
        .arg(source);
    run(&mut clang, source)
}
