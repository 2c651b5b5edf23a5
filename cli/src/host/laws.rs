//! Laws from outside the tree: what `uc law build` made, and what the pinned programs have.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use uc_core::{LIBRARY, Running};
use uc_law::Law;
use uc_port::{LAYOUT, ProgramObject, Store};
use uc_words::fnv::fnv1a;
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

/// Has the simulator of this process run the core with the laws of the folder, makes them known by name,
/// and returns a hash of that core.
///
/// # Errors
/// As [`read`]; or why the folder's library of the core was not loaded.
pub fn simulate(folder: &Path) -> Result<String> {
    read(folder)?;
    let path = folder.join(LIBRARY);
    Running::decide_by(&path, LAYOUT)?;
    let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(format!("{:016x}", fnv1a(&bytes)))
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
