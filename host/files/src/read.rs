//! Files that only their owner can have changed: what the agent reads as root affects every tenant.
//! A program that judges whether a file would be accepted uses the same functions.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use crate::error::FileError;
use crate::{is_exposed, is_ours, mode_of};

/// Maximum size of a policy in bytes; etcd's limit for a value is 1.5 MB.
pub const TEXT_MAX_BYTES: u64 = 1 << 20;

/// Mode bits that let everybody, or the group, read.
const OTHERS_READ: u32 = 0o004;
const GROUP_READS: u32 = 0o040;
/// Mode bit of a folder in which nobody can replace another's file.
const STICKY: u32 = 0o1000;
/// Maximum number of links that the kernel follows in one path (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// Reads a UTF-8 text of at most [`TEXT_MAX_BYTES`]. Refuses a file that a user other than root and the caller can
/// have written or replaced: by its owner and mode, and those of the folders and links on the way to it.
pub fn read(path: &Path) -> Result<String, FileError> {
    read_most(path, TEXT_MAX_BYTES)
}

/// Reads a text file like [`read`], but of at most `most_bytes`.
pub fn read_most(path: &Path, most_bytes: u64) -> Result<String, FileError> {
    text(path, read_bytes(path, most_bytes)?)
}

/// Reads a file like [`read_most`], but of any bytes, not only text.
pub fn read_bytes(path: &Path, most_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_if(path, most_bytes, |metadata| {
        check(path, metadata)?;
        check_way(path)
    })
}

/// Reads a file like [`read`] that holds a secret. Refuses a file that other users may read; its group may read the
/// file if root owns it.
pub fn read_secret(path: &Path) -> Result<String, FileError> {
    let bytes = read_if(path, TEXT_MAX_BYTES, |metadata| {
        check(path, metadata)?;
        let group_too = if metadata.uid() == 0 { 0 } else { GROUP_READS };
        if metadata.mode() & (OTHERS_READ | group_too) != 0 {
            return Err(FileError::Readable {
                path: path.to_owned(),
                mode: mode_of(metadata),
            });
        }
        check_way(path)
    })?;
    text(path, bytes)
}

/// Reads a UTF-8 text of at most [`TEXT_MAX_BYTES`], regardless of who can have written it.
///
/// # Errors
/// [`FileError::Read`].
pub fn read_any(path: &Path) -> Result<String, FileError> {
    text(path, read_if(path, TEXT_MAX_BYTES, |_| Ok(()))?)
}

fn read_if(
    path: &Path,
    most_bytes: u64,
    may: impl FnOnce(&Metadata) -> Result<(), FileError>,
) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::unread(path, source);
    // A pipe without a writer would block.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    may(&metadata)?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(most_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > most_bytes {
        let most = format!("it has more than {most_bytes} bytes");
        return Err(failed(io::Error::other(most)));
    }
    Ok(bytes)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    let refused = |_| FileError::unread(path, io::Error::other("it is not UTF-8 text"));
    String::from_utf8(bytes).map_err(refused)
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    if !is_exposed(metadata) {
        return Ok(());
    }
    Err(exposed(path, metadata))
}

fn exposed(path: &Path, metadata: &Metadata) -> FileError {
    FileError::Exposed {
        path: path.to_owned(),
        mode: mode_of(metadata),
    }
}

/// Checks the folders on the way: whoever may write one may put another file, folder or link under
/// the next name.
fn check_way(path: &Path) -> Result<(), FileError> {
    let absolute = std::path::absolute(path).map_err(|error| FileError::unread(path, error))?;
    let mut names = names(&absolute);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = names.pop() {
        check_folder(&at)?;
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let metadata =
            fs::symlink_metadata(&next).map_err(|error| FileError::unread(&next, error))?;
        if !metadata.is_symlink() {
            at = next;
            continue;
        }
        // A link's own mode has no meaning; in a sticky folder its owner counts.
        if !is_ours(&metadata) {
            return Err(exposed(&next, &metadata));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(FileError::unread(
                &next,
                io::Error::other(format!(
                    "the path leads through more than {LINKS_MAX} symbolic links"
                )),
            ));
        }
        let target = fs::read_link(&next).map_err(|error| FileError::unread(&next, error))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        names.extend(self::names(&target));
    }
    Ok(())
}

/// Returns the parts of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    parts.filter_map(name).collect()
}

fn check_folder(folder: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(folder).map_err(|error| FileError::unread(folder, error))?;
    let sticky = metadata.mode() & STICKY != 0 && metadata.uid() == 0;
    if sticky || !is_exposed(&metadata) || is_read_only(folder, &metadata) {
        return Ok(());
    }
    Err(exposed(folder, &metadata))
}

/// Returns whether the folder belongs to root or the calling user, on a file system that is mounted read-only:
/// Kubernetes gives a ConfigMap to a container this way, and its mode would allow everybody to write.
fn is_read_only(folder: &Path, metadata: &Metadata) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    let read_only = |flags: nix::sys::statvfs::Statvfs| flags.flags().contains(FsFlags::ST_RDONLY);
    is_ours(metadata) && statvfs(folder).is_ok_and(read_only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn is_exposed(path: &Path) -> bool {
        matches!(read(path), Err(FileError::Exposed { .. }))
    }

    #[test]
    fn files_writable_by_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "[defaults]\n").unwrap();
        allow(&path, 0o644);
        assert_eq!(read(&path).unwrap(), "[defaults]\n");
        for mode in [0o666, 0o660, 0o602] {
            allow(&path, mode);
            assert!(is_exposed(&path), "{mode:o}");
            read_any(&path).unwrap();
        }
        allow(&path, 0o644);
        for mode in [0o777, 0o770] {
            allow(folder.path(), mode);
            let refused = read(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod go-w"), "{mode:o}: {refused}");
        }
    }

    #[test]
    fn secrets_readable_by_others_are_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "secret").unwrap();
        allow(&path, 0o644);
        read(&path).unwrap();
        let refused = read_secret(&path).unwrap_err().to_string();
        assert!(
            refused.contains("mode 644") && refused.contains("chmod 600"),
            "{refused}"
        );
        allow(&path, 0o600);
        assert_eq!(read_secret(&path).unwrap(), "secret");
        allow(&path, 0o640);
        let is_roots = nix::unistd::geteuid().is_root();
        assert_eq!(read_secret(&path).is_ok(), is_roots, "of root's group");
    }

    #[test]
    fn files_below_a_folder_writable_by_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("etc/undercurrent");
        fs::create_dir_all(&below).unwrap();
        let path = below.join("policy.toml");
        fs::write(&path, "").unwrap();
        allow(&path, 0o600);
        for (mode, exposed) in [(0o755, false), (0o775, true), (0o757, true), (0o700, false)] {
            allow(&folder.path().join("etc"), mode);
            assert_eq!(is_exposed(&path), exposed, "{mode:o}");
        }
        let round = below.join("../undercurrent/policy.toml");
        assert!(!is_exposed(&round));
    }

    #[test]
    fn links_through_a_folder_writable_by_others_are_refused() {
        let [open, closed, named] = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
        let path = closed.path().join("policy.toml");
        fs::write(&path, "").unwrap();
        allow(&path, 0o600);
        let between = open.path().join("between");
        symlink(closed.path(), &between).unwrap();
        let link = named.path().join("link.toml");
        symlink(between.join("policy.toml"), &link).unwrap();
        read(&link).unwrap();
        allow(open.path(), 0o777);
        assert!(is_exposed(&link));
        let round = named.path().join("round");
        symlink(&round, &round).unwrap();
        assert!(read(&round).is_err());
    }

    #[test]
    fn files_larger_than_a_policy_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "#".repeat(TEXT_MAX_BYTES as usize + 1)).unwrap();
        allow(&path, 0o600);
        assert!(read(&path).unwrap_err().to_string().contains("more than"));
        assert!(read(folder.path()).is_err(), "a folder");
    }
}
