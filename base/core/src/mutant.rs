//! Copies of the core with one fault each, for tests that must tell them from the right one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use uc_live::folder;

use crate::Core;

/// A fault in one header of `core/`.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Description of the fault that is planted in the core.
    pub name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

impl Mutant {
    /// Describes a core in whose header `file` the text `right`, which must occur exactly once, is
    /// replaced by `wrong`.
    pub const fn new(
        name: &'static str,
        file: &'static str,
        right: &'static str,
        wrong: &'static str,
    ) -> Mutant {
        Mutant {
            name,
            file,
            right,
            wrong,
        }
    }

    /// Replaces the text in the copied header.
    fn plant(&self, headers: &Path) {
        let path = headers.join(self.file);
        let text = fs::read_to_string(&path).expect("the header is there");
        let times = text.matches(self.right).count();
        assert_eq!(times, 1, "{}: occurrences in {}", self.name, self.file);
        fs::write(&path, text.replace(self.right, self.wrong)).expect("room for a header");
    }
}

/// Compiles a copy of the core in the folder `scratch`, with this fault or with none.
///
/// # Panics
/// If the text to replace does not occur exactly once, or if clang fails.
#[must_use]
pub fn compile(scratch: &Path, mutant: Option<&Mutant>) -> Core {
    let name = mutant.map_or("none", |mutant| mutant.name);
    let name = name.replace(|c: char| !c.is_alphanumeric(), "-");
    let headers = scratch.join(&name);
    folder::copy(&own("../../core"), &headers);
    if let Some(mutant) = mutant {
        mutant.plant(&headers);
    }
    let library = scratch.join(name.clone() + ".so");
    let clang = Command::new("clang")
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11", "-w", "-o"])
        .arg(&library)
        .arg("-I")
        .arg(&headers)
        .args([own("src/shim.c"), own("src/shim_law.c")])
        .output()
        .expect("clang runs");
    let errors = String::from_utf8_lossy(&clang.stderr);
    assert!(clang.status.success(), "{name}: {errors}");
    // SAFETY: built from this crate's sources; no fault touches a struct of the contract.
    unsafe { Core::open_library(&library) }.expect("the library that was just built")
}

/// Returns the path of a file or folder beside this crate's manifest.
fn own(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}
