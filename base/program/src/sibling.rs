//! How `uc` finds `uc-bench`, and `uc-bench` finds `uc`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

/// A program of this repository that another one starts.
#[derive(Debug, Clone, Copy)]
pub struct Sibling {
    /// File name of the executable.
    pub name: &'static str,
    /// Debian package that contains the program.
    pub package: &'static str,
    /// Crate that builds the program.
    pub of: &'static str,
}

/// `uc`, the operator's program.
pub const UC: Sibling = Sibling {
    name: "uc",
    package: "undercurrent",
    of: "uc-cli",
};
/// `uc-bench`, the researcher's program.
pub const BENCH: Sibling = Sibling {
    name: "uc-bench",
    package: "undercurrent-bench",
    of: "uc-bench",
};

impl Sibling {
    /// Returns the path of the program: in the folder of the running program, or on PATH.
    ///
    /// # Errors
    /// If it is at neither place; the error names the package and the command that builds it.
    pub fn find(self) -> Result<PathBuf> {
        let running = std::env::current_exe().ok();
        let beside = running.as_deref().and_then(Path::parent);
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.find_in(beside, &path).ok_or_else(|| {
            anyhow!(
                "`{}` is neither beside this program nor on PATH: install the package {}, or run \
                 `cargo build -p {}`",
                self.name,
                self.package,
                self.of
            )
        })
    }

    fn find_in(self, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
        let folders = beside.map(Path::to_owned).into_iter();
        let mut places = folders
            .chain(std::env::split_paths(path))
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(self.name));
        places.find(|place| place.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_beside_the_running_one_is_found_before_one_on_path() {
        let [own, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let find = || BENCH.find_in(Some(own.path()), other.path().as_os_str());
        assert_eq!(find(), None);
        for folder in [&other, &own] {
            std::fs::write(folder.path().join("uc-bench"), "").unwrap();
            assert_eq!(find(), Some(folder.path().join("uc-bench")));
        }
    }
}
