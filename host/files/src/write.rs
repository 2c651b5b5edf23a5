//! The agent's own files, which only its user can write.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::FileError;

/// Writes a file that only its owner can read, in place of an earlier one: whole or not at all, whenever the process
/// dies or the power fails. When it returns, the new content is on the disk.
pub fn write(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), FileError> {
    let failed = |error| FileError::io(format!("write {}", path.display()), error);
    let beside = beside(path, "new");
    // of a process that died; or another user's, whose owner and mode the file would have
    let _removed_or_none = fs::remove_file(&beside);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .map_err(failed)?;
    file.write_all(content.as_ref())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| {
            let _is_reported = fs::remove_file(&beside);
            failed(error)
        })?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

/// Makes a folder that only its owner can enter, with those above it, unless it exists.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| FileError::io(format!("make {}", path.display()), error))
}

/// Appends a dot and `suffix` to a file's name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}
