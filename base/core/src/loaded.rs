//! A core from a shared library: a changed copy of this one, or one with laws from outside the tree.
//!
//! Libraries stay mapped until the process ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use libloading::Library;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::sys::core_table;
use crate::{Core, LAYOUT};

/// Reasons why a library cannot be the core of a process.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The system's loader refuses the library.
    #[error(
        "{}: the core with the laws was not loaded: {why}; build them on this machine with `uc law build`",
        path.display()
    )]
    Load {
        /// Path of the library that was refused.
        path: PathBuf,
        /// Reason that the system or its loader gives.
        why: String,
    },
    /// The library was made for other structs.
    #[error(
        "{}: it was built by another version of uc; build the laws again with `uc law build` of this \
         version",
        path.display()
    )]
    OtherVersion {
        /// Path of the library that was built by another version.
        path: PathBuf,
    },
}

impl Core {
    /// Loads a library built from this crate's `shim.c`, `shim_law.c` and some `core/*.h`.
    ///
    /// # Safety
    /// The library must have been built with the contract's structs (`segment.h`, `flow.h`, `policy.h`,
    /// `edit.h`) unchanged.
    ///
    /// # Errors
    /// The loader's own: no such file, no such symbol.
    pub unsafe fn open_library(path: &Path) -> Result<Core, libloading::Error> {
        // SAFETY: the library has no initialisers; the caller answers for its contents.
        let library = unsafe { Library::new(path) }?;
        let table = table(&library)?;
        // SAFETY: the caller answers for the library.
        Ok(unsafe { of_table(table, library) })
    }

    /// Loads a library that `uc law build` made, from the bytes of its file. `path` names it in errors.
    ///
    /// The library is loaded from memory. So a file that was built again counts as another library, and a process that
    /// cannot read the file can load its bytes.
    pub fn of_library(bytes: &[u8], path: &Path) -> Result<Core, LibraryError> {
        let refused = |why: String| LibraryError::Load {
            path: path.to_owned(),
            why,
        };
        let file = in_memory(bytes).map_err(|error| refused(error.to_string()))?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: libraries of `uc law build` have no initialisers.
        let library = unsafe { Library::new(&name) }.map_err(|error| {
            let why = error.to_string();
            let prefix = format!("{name}: ");
            refused(why.strip_prefix(&prefix).unwrap_or(&why).to_owned())
        })?;
        // SAFETY: shim.c begins the table with the number.
        let own = |table: &*const core_table| unsafe { table.cast::<u64>().read() } == LAYOUT;
        let table = table(&library).ok().filter(own);
        let table = table.ok_or_else(|| LibraryError::OtherVersion {
            path: path.to_owned(),
        })?;
        // The loader knows libraries by path, here that of an open file: while the file is open, no other
        // library gets the path.
        std::mem::forget(file);
        // SAFETY: the number shows that the library was compiled with this program's structs.
        Ok(unsafe { of_table(table, library) })
    }
}

/// Returns the address of the table of a library.
fn table(library: &Library) -> Result<*const core_table, libloading::Error> {
    // SAFETY: an address is of no type yet.
    unsafe { library.get(b"uc_shim_table\0") }.map(|table| *table)
}

/// Returns the core of a library, which stays mapped.
///
/// # Safety
/// `table` must be the library's, which was compiled with this program's structs.
unsafe fn of_table(table: *const core_table, library: Library) -> Core {
    std::mem::forget(library);
    // SAFETY: the table is a constant of the library.
    Core::of_table(unsafe { &*table })
}

/// Returns a file in memory with these bytes.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(c"core.so", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}
