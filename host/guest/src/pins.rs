//! Pins of one object in a folder of bpffs: its links, and the maps from which other processes read its state.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use zerocopy::FromBytes;

use crate::control::{map_of, missing};
use crate::error::GuestError;
use crate::groups::from_bytes;

/// Pins links and maps by their names.
///
/// # Errors
/// The kernel's refusal; links and maps that were pinned before it stay pinned.
pub(crate) fn pin(
    folder: &Path,
    links: &mut [(&'static str, Link)],
    object: &Object,
    maps: &[&str],
) -> Result<(), GuestError> {
    let failed = |path: &Path| {
        let action = format!("pin {}", path.display());
        move |error| GuestError::from_libbpf(action, &error)
    };
    for (name, link) in links {
        let path = folder.join(name);
        link.pin(&path).map_err(failed(&path))?;
    }
    for name in maps {
        let path = folder.join(name);
        map_of(object, name)?.pin(&path).map_err(failed(&path))?;
    }
    Ok(())
}

/// Reads the only value of a pinned array map.
pub(crate) fn read<T: FromBytes>(path: &Path) -> Result<T, GuestError> {
    let action = || format!("read {}", path.display());
    let failed = |error| GuestError::from_libbpf(action(), &error);
    let map = MapHandle::from_pinned_path(path).map_err(failed)?;
    let found = map.lookup(&[0; 4], MapFlags::ANY).map_err(failed)?;
    let value = found.and_then(|bytes| from_bytes(&bytes));
    value.ok_or_else(|| missing(&action()))
}
