//! Locks among the processes of this host: files in a folder that only root can enter, so nobody else
//! can hold one. A lock ends with the process that holds it.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};

use crate::error::FileError;
use crate::{is_exposed, mode_of};

/// The folder that has the files of all locks.
pub const LOCKS_FOLDER: &str = "/run/undercurrent";
/// Interval at which a lock that another process holds is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Opens the file of a lock, whose name is within [`LOCKS_FOLDER`], and creates both if needed.
///
/// # Errors
/// [`FileError::ExposedFolder`] if others than root may write the folder; the system's.
pub fn lock_file(name: &str) -> Result<File, FileError> {
    let folder = Path::new(LOCKS_FOLDER);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| FileError::io(format!("make {LOCKS_FOLDER}"), error))?;
    check_folder_owner(folder)?;
    open(&folder.join(name))
}

/// Opens the file of a lock, and creates it if needed.
fn open(path: &Path) -> Result<File, FileError> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(|error| FileError::io(format!("open {}", path.display()), error))
}

/// The network namespace of the calling thread, as a file.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Claims an interface of the calling thread's network namespace for one purpose, without waiting. Returns `None` if
/// another process has the claim. The claim is a lock on one byte of a file, at the interface's index; each namespace
/// and purpose has its own file. The claim ends when the last descriptor of the returned file, also an inherited one,
/// is closed.
///
/// # Errors
/// As [`lock_file`].
pub fn claim_port(purpose: &str, ifindex: u32) -> Result<Option<File>, FileError> {
    let file = lock_file(&of_namespace(purpose, "lock")?)?;
    let byte = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: ifindex.into(),
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&byte)) {
        Ok(_) => Ok(Some(file)),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
        Err(errno) => {
            let what = match ifindex {
                0 => "this network namespace".to_owned(),
                _ => format!("the port with interface index {ifindex}"),
            };
            Err(FileError::io(format!("claim {what} for {purpose}"), errno))
        }
    }
}

/// Claims the calling thread's network namespace for one purpose, as [`claim_port`] claims an interface. Returns
/// `None` if another process has the claim.
///
/// # Errors
/// As [`lock_file`].
pub fn claim_namespace(purpose: &str) -> Result<Option<File>, FileError> {
    // No interface has the index 0.
    claim_port(purpose, 0)
}

/// Returns the path of the socket for one purpose in the calling thread's network namespace, in [`LOCKS_FOLDER`].
pub fn socket_path(purpose: &str) -> Result<PathBuf, FileError> {
    of_namespace(purpose, "sock").map(|name| path_of(&name))
}

/// Returns the name of a file for one purpose in the calling thread's network namespace.
fn of_namespace(purpose: &str, extension: &str) -> Result<String, FileError> {
    let found = fs::metadata(NAMESPACE);
    let found = found.map_err(|error| FileError::io(format!("look at {NAMESPACE}"), error))?;
    Ok(format!("{purpose}-{:x}.{extension}", found.ino()))
}

/// Takes a lock by the path of its file, without waiting. Returns `None` if another process holds it.
pub fn try_lock(path: &Path) -> Result<Option<Flock<File>>, FileError> {
    match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(FileError::io(format!("lock {}", path.display()), errno)),
    }
}

/// Takes a lock within [`LOCKS_FOLDER`], for which it waits up to `most`.
///
/// # Errors
/// [`FileError::Busy`] if another process holds it all that time; the system's.
pub fn wait_for_lock(name: &str, most: Duration) -> Result<Flock<File>, FileError> {
    let mut file = lock_file(name)?;
    let until = Instant::now() + most;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EWOULDBLOCK | Errno::EINTR)) if Instant::now() < until => {
                file = again;
                std::thread::sleep(AGAIN);
            }
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(FileError::Busy {
                    path: path_of(name),
                    most,
                });
            }
            Err((_, errno)) => {
                let action = format!("lock {}", path_of(name).display());
                return Err(FileError::io(action, errno));
            }
        }
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(LOCKS_FOLDER).join(name)
}

/// Checks that only root, or the calling user, can write a folder that exists.
///
/// # Errors
/// [`FileError::ExposedFolder`]; the system's.
pub fn check_folder_owner(folder: &Path) -> Result<(), FileError> {
    let found = fs::symlink_metadata(folder)
        .map_err(|error| FileError::io(format!("look at {}", folder.display()), error))?;
    if found.is_dir() && !is_exposed(&found) {
        return Ok(());
    }
    Err(FileError::ExposedFolder {
        path: folder.to_owned(),
        mode: mode_of(&found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_a_lock_that_another_holds_is_waited_for_only_so_long() {
        if !nix::unistd::geteuid().is_root() {
            uc_live::skip("root");
            return;
        }
        let name = format!("test-{}.lock", std::process::id());
        let first = wait_for_lock(&name, Duration::ZERO).unwrap();
        let most = Duration::from_millis(60);
        let refused = wait_for_lock(&name, most).unwrap_err().to_string();
        assert!(refused.contains("fuser"), "{refused}");
        drop(first);
        wait_for_lock(&name, Duration::from_secs(10)).unwrap();
        fs::remove_file(path_of(&name)).unwrap();
    }

    #[test]
    fn live_a_port_is_claimed_once_until_the_last_copy_of_the_claim_is_closed() {
        if !nix::unistd::geteuid().is_root() {
            uc_live::skip("root");
            return;
        }
        // No interface has these indices.
        let [one, two] = [0, 1].map(|at| u32::MAX / 2 - std::process::id() - at);
        let claim = |ifindex| claim_port("test", ifindex).unwrap();
        let first = claim(one).unwrap();
        assert!(claim(one).is_none() && claim(two).is_some());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(claim(one).is_none(), "the claim's copy is open");
        drop(copy);
        // A test beside this one that starts a program holds copies of all open files, until the program begins.
        let began = Instant::now();
        while claim(one).is_none() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{one} stays taken"
            );
            std::thread::yield_now();
        }
    }
}
