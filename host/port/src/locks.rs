//! Locks among the processes of this host: files in a folder that only root can enter, so nobody else
//! can hold one. A lock ends with the process that holds it.

use std::fs::{self, DirBuilder, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};

use crate::error::PortError;

/// The folder of all locks.
pub const LOCKS_FOLDER: &str = "/run/undercurrent";
/// Interval at which a lock that another process holds is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// Mode bits that let the group or everybody write.
const OTHERS_WRITE: u32 = 0o022;

/// Opens the file of a lock, whose name is within [`LOCKS_FOLDER`], and creates both if needed.
///
/// # Errors
/// [`PortError::Exposed`] if others than root may write the folder; the system's.
pub fn lock_file(name: &str) -> Result<File, PortError> {
    let folder = Path::new(LOCKS_FOLDER);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| PortError::from_kernel(format!("make {LOCKS_FOLDER}"), error))?;
    check_owner(folder)?;
    let path = folder.join(name);
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(|error| PortError::from_kernel(format!("open {}", path.display()), error))
}

/// The calling thread's network namespace.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Claims an interface of the calling thread's network namespace for one purpose: a lock on one byte of
/// a file, whose number is the interface's index; one file for each namespace and purpose. The claim ends
/// with the last process that has the file's description. Returns `None` if another process has it.
///
/// # Errors
/// As [`lock_file`].
pub fn claim_port(purpose: &str, ifindex: u32) -> Result<Option<File>, PortError> {
    let failed = |error| PortError::from_kernel(format!("claim port {ifindex}"), error);
    let namespace = fs::metadata(NAMESPACE).map_err(failed)?.ino();
    let file = lock_file(&format!("{purpose}-{namespace:x}.lock"))?;
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
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Takes a lock, for which it waits up to `most`.
///
/// # Errors
/// [`PortError::Busy`] if another process holds it all that time; the system's.
pub(crate) fn take(name: &str, most: Duration) -> Result<Flock<File>, PortError> {
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
                return Err(PortError::Busy {
                    path: path_of(name),
                    most,
                });
            }
            Err((_, errno)) => {
                let action = format!("lock {}", path_of(name).display());
                return Err(PortError::from_kernel(action, errno.into()));
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
/// [`PortError::Exposed`]; the system's.
pub(crate) fn check_owner(folder: &Path) -> Result<(), PortError> {
    let found = fs::symlink_metadata(folder)
        .map_err(|error| PortError::from_kernel(format!("look at {}", folder.display()), error))?;
    if is_owned(&found) {
        return Ok(());
    }
    Err(PortError::Exposed {
        path: folder.to_owned(),
        mode: found.mode() & 0o7777,
    })
}

fn is_owned(folder: &Metadata) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    folder.is_dir()
        && (folder.uid() == 0 || folder.uid() == own)
        && folder.mode() & OTHERS_WRITE == 0
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
        let first = take(&name, Duration::ZERO).unwrap();
        let most = Duration::from_millis(60);
        let refused = take(&name, most).unwrap_err().to_string();
        assert!(refused.contains("fuser"), "{refused}");
        drop(first);
        take(&name, Duration::from_secs(10)).unwrap();
        fs::remove_file(path_of(&name)).unwrap();
    }
}
