//! The agent's locks: files that one agent holds at a time. The lock of the store names the agent's socket, so that
//! commands find it.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;
use uc_files::{LOCKS_FOLDER, beside, try_lock};

use crate::error::AgentError;

/// Returns the path of the lock for the programs and maps of this host, without its suffix `.lock`; `store` is the
/// folder of their pins. The agent holds this lock, and writes its socket's path into it. Without the lock, two agents
/// with sockets of their own would install two policies in turns.
///
/// # Errors
/// If the folder above `store`, where the BPF file system is mounted, does not exist.
pub fn of_store(store: &Path) -> Result<PathBuf, AgentError> {
    let mount = store.parent().unwrap_or(store);
    let metadata = fs::metadata(mount)
        .map_err(|error| AgentError::io(format!("look at {}", mount.display()), error))?;
    Ok(Path::new(LOCKS_FOLDER).join(format!("bpffs-{:x}", metadata.dev())))
}

/// Returns the socket of the agent that holds the store's lock, or held it until it was killed. `None` if the lock
/// can't be read or names no socket.
pub fn socket_of(store: &Path) -> Option<PathBuf> {
    let text = uc_files::read(&beside(&of_store(store).ok()?, "lock")).ok()?;
    let path = PathBuf::from(text.trim_end_matches('\n'));
    path.is_absolute().then_some(path)
}

/// Writes the path of an agent's socket into a lock that the agent holds; `None`: the agent listens on no socket.
pub fn say_socket(lock: &mut Flock<File>, socket: Option<&Path>) -> Result<(), AgentError> {
    let text = socket.map_or(&b""[..], |path| path.as_os_str().as_bytes());
    let written = lock.set_len(0).and_then(|()| lock.write_all_at(text, 0));
    written.map_err(|error| AgentError::io("write into the store's lock", error))
}

/// Takes the lock of a socket, so that only one agent uses the socket: the file `SOCKET.lock`. Does not wait.
///
/// # Errors
/// [`AgentError::Running`] if another agent holds it.
pub fn only_one(socket: &Path) -> Result<Flock<File>, AgentError> {
    let path = beside(socket, "lock");
    try_lock(&path)?.ok_or(AgentError::Running { path })
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
