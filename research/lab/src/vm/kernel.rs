//! Guests' kernels, which `scripts/vm-kernels` and `scripts/vm-kasan` put into the user's cache.

use std::fs;
use std::path::{Path, PathBuf};

use crate::vm::error::VmError;
use crate::vm::series::{self, is_checked};

/// Kernel series of guests whose stack names none.
pub const DEFAULT_SERIES: &str = "6.1";

/// Memory of a VM in MiB. The kernel takes 50 MiB. The archive takes its size twice while it is unpacked, and may take
/// half of the memory unpacked: the test programs, `uc`, CRIU and their libraries are about 90 MB. A program that
/// reads its kernel's type information takes 30 MiB. Pages that are never touched cost nothing.
const MEMORY_MIB: u32 = 384;
/// Memory of a VM whose kernel has KASAN, in MiB: KASAN takes a byte for each eight, and keeps freed memory for a time.
const CHECKED_MEMORY_MIB: u32 = 1024;

/// A kernel that guests can boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// Series as a stack names it, such as `6.1`.
    pub series: String,
    /// Full version, such as `6.1.0-56-amd64`.
    pub release: String,
    folder: PathBuf,
}

impl Kernel {
    /// Finds the kernel of a series in the user's cache.
    ///
    /// # Errors
    /// When it is missing, with the command that fetches it.
    pub fn find(series: &str) -> Result<Self, VmError> {
        Self::find_in(&cache_folder()?, series)
    }

    fn find_in(kernels: &Path, series: &str) -> Result<Self, VmError> {
        let folder = kernels.join(series);
        match fs::read_to_string(folder.join("release")) {
            Ok(release) if folder.join("vmlinuz").is_file() => Ok(Self {
                series: series.into(),
                release: release.trim().into(),
                folder,
            }),
            _ => Err(VmError::Refused(format!(
                "no kernel {series} for guests in {folder}; build it with {}",
                series::command(series, ""),
                folder = kernels.display()
            ))),
        }
    }

    /// Returns the memory that a VM with this kernel needs, in MiB.
    pub(crate) fn memory_mib(&self) -> u32 {
        if is_checked(&self.series) {
            CHECKED_MEMORY_MIB
        } else {
            MEMORY_MIB
        }
    }

    /// Returns the path of the kernel image.
    pub fn vmlinuz(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Returns the folder of the kernel's modules, without subfolders.
    pub fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }

    /// Returns the path of PVTCP's module (`guest/pvtcp`), built for this kernel.
    ///
    /// # Errors
    /// When it is missing, with the command that builds it.
    pub fn pvtcp(&self) -> Result<PathBuf, VmError> {
        let path = self.folder.join("uc_pvtcp.ko");
        if path.is_file() {
            return Ok(path);
        }
        Err(VmError::Refused(format!(
            "no module of PVTCP for {release} at {path}; build it with {}",
            series::command(&self.series, "--pvtcp "),
            release = self.release,
            path = path.display()
        )))
    }
}

/// Returns `$XDG_CACHE_HOME/undercurrent/kernels`, by the XDG Base Directory Specification.
pub(crate) fn cache_folder() -> Result<PathBuf, VmError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|| set("HOME").map(|platform| PathBuf::from(platform).join(".cache")));
    let cache = cache.ok_or_else(|| {
        VmError::Refused(
            "neither XDG_CACHE_HOME nor HOME is set: set one; guests' kernels are below it".into(),
        )
    })?;
    Ok(cache.join("undercurrent/kernels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kernel_is_named_with_the_command_that_fetches_it() {
        let error = Kernel::find_in(Path::new("/nowhere"), "6.12").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere"), "{text}");
        assert!(text.ends_with("scripts/vm-kernels 6.12"), "{text}");
        let error = Kernel::find_in(Path::new("/nowhere"), "6.12-kasan").unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("/nowhere; build it with scripts/vm-kasan"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_module_is_named_with_the_command_that_builds_it() {
        let kernel = Kernel {
            series: "6.12".into(),
            release: "6.12.1".into(),
            folder: "/nowhere".into(),
        };
        let text = kernel.pvtcp().unwrap_err().to_string();
        assert!(text.contains("6.12.1 at /nowhere/uc_pvtcp.ko"), "{text}");
        assert!(text.ends_with("scripts/vm-kernels --pvtcp 6.12"), "{text}");
    }
}
