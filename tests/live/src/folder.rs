//! Copies of folders, which tests may change.

use std::fs;
use std::path::Path;

/// Copies a folder and all folders in it.
///
/// # Panics
/// A file can't be read or written.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room for a folder");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("room for a file");
        }
    }
}
