//! The agent's own files and locks, which only its user can write. Files of an operator are read by
//! [`uc_policy::trusted`].

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use uc_policy::trusted;

use crate::error::AgentError;

/// The folder of locks that do not depend on the socket's path.
pub const FOLDER: &str = uc_port::LOCKS_FOLDER;

/// Writes a file that only its owner can read, whole or not at all, whenever the process dies or the
/// power fails. When it returns, the new text is on the disk.
///
/// # Errors
/// What the system says.
pub fn write(path: &Path, text: &str) -> Result<(), AgentError> {
    let failed = |error| AgentError::io(format!("write {}", path.display()), error);
    let beside = beside(path, "new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&beside)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

/// Makes a folder that only its owner can enter, unless it exists.
///
/// # Errors
/// What the system says.
pub fn make_folder(path: &Path) -> Result<(), AgentError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| AgentError::io(format!("make {}", path.display()), error))
}

/// Appends a dot and `suffix` to a file's name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the path whose lock an agent holds for the programs and maps of this host. Without it two
/// agents, each with its own socket, would install two policies in turns. The holder writes its
/// socket's path into the lock.
///
/// # Errors
/// If no BPF file system is mounted.
pub fn of_store(store: &Path) -> Result<PathBuf, AgentError> {
    let mount = store.parent().unwrap_or(store);
    let metadata = fs::metadata(mount)
        .map_err(|error| AgentError::io(format!("look at {}", mount.display()), error))?;
    Ok(Path::new(FOLDER).join(format!("bpffs-{:x}", metadata.dev())))
}

/// Returns the socket of the agent that holds the store's lock, or held it until it was killed.
pub fn socket_of(store: &Path) -> Option<PathBuf> {
    let text = trusted::read(&beside(&of_store(store).ok()?, "lock")).ok()?;
    let path = PathBuf::from(text.trim_end_matches('\n'));
    path.is_absolute().then_some(path)
}

/// Writes the holder's socket into a lock that is held; `None`: it listens nowhere.
///
/// # Errors
/// What the system says.
pub fn say_socket(lock: &mut Flock<File>, socket: Option<&Path>) -> Result<(), AgentError> {
    let text = socket.map_or(&b""[..], |path| path.as_os_str().as_bytes());
    let written = lock.set_len(0).and_then(|()| lock.write_all_at(text, 0));
    written.map_err(|error| AgentError::io("write into the store's lock", error))
}

/// Takes the lock beside a socket, which one agent holds at a time.
///
/// # Errors
/// [`AgentError::Running`] if another agent holds it.
pub fn only_one(socket: &Path) -> Result<Flock<File>, AgentError> {
    let path = beside(socket, "lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(|error| AgentError::io(format!("open {}", path.display()), error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        nix::errno::Errno::EWOULDBLOCK => AgentError::Running { path },
        _ => AgentError::io(format!("lock {}", path.display()), errno),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_agent_is_refused_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let first = only_one(&socket).unwrap();
        assert!(matches!(only_one(&socket), Err(AgentError::Running { .. })));
        drop(first);
        only_one(&socket).unwrap();
    }
}
