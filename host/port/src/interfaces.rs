//! Names and indices of interfaces.

use std::collections::BTreeMap;

use crate::error::PortError;

/// Returns the index of an interface of the calling thread's network namespace.
///
/// # Errors
/// [`PortError::NoInterface`].
pub fn interface_index(name: &str) -> Result<u32, PortError> {
    nix::net::if_::if_nametoindex(name).map_err(|_| PortError::NoInterface {
        name: name.to_owned(),
    })
}

/// Returns the names of the calling thread's network namespace, by index.
pub(crate) fn interfaces() -> BTreeMap<u32, String> {
    let Ok(list) = nix::net::if_::if_nameindex() else {
        return BTreeMap::new();
    };
    list.iter()
        .map(|entry| (entry.index(), entry.name().to_string_lossy().into_owned()))
        .collect()
}
