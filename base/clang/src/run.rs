//! Runs clang.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Why a C source was not compiled or linked.
#[derive(Debug, thiserror::Error)]
pub enum ClangError {
    /// A file or folder that the build needs could not be written.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// Path of the file or folder that could not be written.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The compiler clang could not be started.
    #[error("could not run clang: {source}; install it (Debian's package is `clang`)")]
    NoClang {
        /// Error of the system.
        source: std::io::Error,
    },
    /// A signal ended the compiler, or it failed without a message.
    #[error(
        "clang ended without an answer ({status}); run it again with more memory (`dmesg` names \
         programs that the kernel ended for lack of it), or install another version of clang"
    )]
    NoAnswer {
        /// Exit status of clang.
        status: ExitStatus,
    },
    /// The compiler clang refused the source.
    #[error("clang refused {}:\n{messages}", path.display())]
    Refused {
        /// Path of the refused C source.
        path: PathBuf,
        /// Messages of clang, one in each line.
        messages: String,
    },
    /// The linker of libbpf could not link the object files.
    #[error("libbpf could not link {}: {source}", path.display())]
    Link {
        /// Path of the object file that was to be linked.
        path: PathBuf,
        /// Error of libbpf's linker.
        source: libbpf_rs::Error,
    },
}

impl ClangError {
    pub(crate) fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// Returns the compiler's command, to run in a folder.
pub(crate) fn clang(folder: &Path) -> Command {
    let mut clang = Command::new("clang");
    clang.current_dir(folder);
    clang
}

/// Runs the compiler on `source` and returns what it prints.
pub(crate) fn run(clang: &mut Command, source: &Path) -> Result<String, ClangError> {
    let output = clang
        .output()
        .map_err(|source| ClangError::NoClang { source })?;
    let status = output.status;
    if status.signal().is_some() || (!status.success() && output.stderr.is_empty()) {
        return Err(ClangError::NoAnswer { status });
    }
    if !status.success() {
        return Err(ClangError::Refused {
            path: source.to_owned(),
            messages: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
