//! The C sources that laws are compiled with.

use std::fs;
use std::path::Path;

use crate::outside::error::LawError;

// `SOURCES`: paths in the repository, and texts
include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Writes every source into the folder, under its path in the repository.
pub(crate) fn unpack(folder: &Path) -> Result<(), LawError> {
    for (name, text) in SOURCES {
        let path = folder.join(name);
        let within = path.parent().unwrap_or(folder);
        fs::create_dir_all(within).map_err(|error| LawError::write(within, error))?;
        fs::write(&path, text).map_err(|error| LawError::write(&path, error))?;
    }
    Ok(())
}

/// Returns the paths of the sources of the native core, in the repository.
pub(crate) fn shims() -> impl Iterator<Item = &'static str> {
    let names = SOURCES.iter().map(|(name, _)| *name);
    names.filter(|name| name.starts_with("base/core/") && name.ends_with(".c"))
}
