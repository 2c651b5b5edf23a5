//! Names of interfaces, for messages.

/// Returns the name of the interface with this index, for messages.
pub(crate) fn name_of(ifindex: u32) -> String {
    name_if_there(ifindex).unwrap_or_else(|| format!("interface {ifindex}"))
}

/// Returns the interface's name; `None` if it is gone, for which nix returns an empty name.
pub(crate) fn name_if_there(ifindex: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(ifindex).ok()?;
    let name = name.to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}
