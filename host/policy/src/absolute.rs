//! Checks of paths on the host that the file names.

use std::path::{Path, PathBuf};

use crate::fault::Faults;

/// Maximum length of a socket's path: `sun_path` of `unix(7)`, without its closing zero.
pub(crate) const SOCKET_MAX_BYTES: usize = 107;
/// Maximum length of a folder's path: the kernel's limit, less what is appended to the path.
pub(crate) const PATH_MAX_BYTES: usize = 4000;
const NAME_MAX_BYTES: usize = 255;

/// Returns the path. Adds a fault unless it is absolute and normalized, without control characters, and at most
/// `most_bytes` long.
pub(crate) fn absolute(
    key: &str,
    path: &Path,
    most_bytes: usize,
    faults: &mut Faults<'_>,
) -> PathBuf {
    let text = path.to_string_lossy();
    let mut names = text.split('/').skip(1);
    let shown = text.escape_debug();
    let message = if !path.is_absolute() {
        format!("`{shown}` is not absolute; start it with /")
    } else if text.chars().any(char::is_control) {
        format!("`{shown}` has control characters; remove them")
    } else if names.any(|name| matches!(name, "" | "." | "..")) {
        format!("`{shown}` is not normalized; remove `.`, `..`, `//` and a trailing `/`")
    } else if text.len() > most_bytes || text.split('/').any(|name| name.len() > NAME_MAX_BYTES) {
        let bytes = text.len();
        format!(
            "{bytes} bytes are too long; shorten the path to {most_bytes} bytes, and each name in \
             it to {NAME_MAX_BYTES}"
        )
    } else {
        return path.to_owned();
    };
    faults.add(key, message);
    path.to_owned()
}
