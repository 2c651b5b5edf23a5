//! Laws from outside the tree that `uc law build` made.

use std::path::Path;

use anyhow::Result;
use uc_law::Law;
use uc_port::{ProgramObject, Store};

/// Reads what `uc law build` left in the folder, and makes its laws known by name.
///
/// # Errors
/// If the folder has no programs that this `uc` can load.
pub fn read(folder: &Path) -> Result<ProgramObject> {
    let object = ProgramObject::read(&folder.join(ProgramObject::FILE_NAME))?;
    Law::tell_outside(object.laws());
    Ok(object)
}

/// Returns this host's store, whose ports are to run the programs of the folder if one is given.
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
