//! Laws from outside the tree: what `uc law build` made, and what the pinned programs have.

use std::path::Path;

use anyhow::{Result, bail};
use uc_law::Law;
use uc_port::{ProgramObject, Store};
use uc_words::wording::suggest;

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

/// Returns the law of this name, also if only the pinned programs have it.
///
/// # Errors
/// If there is none: names those that there are, and why the pins could not be read.
pub fn named(name: &str) -> Result<Law> {
    if let Some(law) = Law::named(name) {
        return Ok(law);
    }
    let pinned = Store::default().laws();
    if let Ok(laws) = &pinned {
        Law::tell_outside(laws);
    }
    if let Some(law) = Law::named(name) {
        return Ok(law);
    }
    let names: Vec<_> = Law::all().map(Law::name).collect();
    let outside = match pinned {
        Ok(_) => "a law from outside is known while ports run it, or with --laws".to_owned(),
        Err(error) => format!("whether ports run a law of that name is unknown: {error}"),
    };
    bail!("no law '{name}'; {}; {outside}", suggest(name, &names))
}
