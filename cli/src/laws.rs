//! Laws from outside the tree that `uc law build` compiled.

use std::path::Path;

use anyhow::Result;
use uc_law::Law;
use uc_port::{ProgramObject, Store};

/// Reads the programs that `uc law build` wrote into the folder, and makes the names of its laws known to this process.
///
/// # Errors
/// The folder has no programs that this `uc` can load.
pub fn read(folder: &Path) -> Result<ProgramObject> {
    let object = ProgramObject::read(&folder.join(ProgramObject::FILE_NAME))?;
    Law::tell_outside(object.laws());
    Ok(object)
}

/// Returns this host's store of pins. Ports that the store attaches run the folder's programs; with `None`, the
/// programs of the tree's laws.
///
/// # Errors
/// As [`read`].
pub fn store(folder: Option<&Path>) -> Result<Store> {
    let store = Store::default();
    Ok(match folder {
        Some(folder) => store.with_object(read(folder)?),
        None => store,
    })
}
