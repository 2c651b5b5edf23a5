//! Files and locks of the agent's own, which nobody else can change. What it reads of an operator's
//! it reads by [`uc_policy::trusted`].

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use uc_policy::trusted;

use crate::error::AgentError;

/// Where locks are that have nothing to do with where the socket is.
pub const FOLDER: &str = "/run/undercurrent";

/// Writes a text for the owner alone, whole or not at all, whenever the process dies.
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
    fs::rename(&beside, path).map_err(failed)
}

/// Makes the folder, for the owner alone, where there is none.
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

/// A file's name with something appended.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// What to hold for the programs and maps of this host: two agents, each with a socket of its own,
/// would tell them two policies in turns. Who listens writes its socket's path into that lock.
///
/// # Errors
/// Where there is no BPF file system.
pub fn of_store(store: &Path) -> Result<PathBuf, AgentError> {
    let mount = store.parent().unwrap_or(store);
    let metadata = fs::metadata(mount)
        .map_err(|error| AgentError::io(format!("look at {}", mount.display()), error))?;
    Ok(Path::new(FOLDER).join(format!("bpffs-{:x}", metadata.dev())))
}

/// The socket of the agent that holds the store's lock, or did until it was killed.
pub fn socket_of(store: &Path) -> Option<PathBuf> {
    let text = trusted::read(&beside(&of_store(store).ok()?, "lock")).ok()?;
    let path = PathBuf::from(text.trim_end_matches('\n'));
    path.is_absolute().then_some(path)
}

/// Writes into a lock that is held where its holder listens; none: nowhere.
///
/// # Errors
/// What the system says.
pub fn say_socket(lock: &mut Flock<File>, socket: Option<&Path>) -> Result<(), AgentError> {
    let text = socket.map_or(&b""[..], |path| path.as_os_str().as_bytes());
    let written = lock.set_len(0).and_then(|()| lock.write_all_at(text, 0));
    written.map_err(|error| AgentError::io("write into the store's lock", error))
}

/// There is one agent for each of these: whoever holds its lock is it.
///
/// # Errors
/// [`AgentError::Running`].
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
    fn a_second_agent_is_told_of_the_first_and_comes_in_when_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let first = only_one(&socket).unwrap();
        assert!(matches!(only_one(&socket), Err(AgentError::Running { .. })));
        drop(first);
        only_one(&socket).unwrap();
    }
}
