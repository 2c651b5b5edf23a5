//! Cookies, the numbers by which the kernel and its programs identify network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::GuestError;

/// Returns the cookie of the calling thread's network namespace.
///
/// # Errors
/// The kernel's; cookies need Linux 5.14.
pub fn cookie() -> Result<u64, GuestError> {
    read().map_err(|error| failed("of this process", error))
}

/// Returns the cookie of the network namespace that this file names, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
///
/// # Errors
/// The file can't be opened, names no network namespace, or the process may not enter it.
pub fn cookie_at(path: &Path) -> Result<u64, GuestError> {
    let inside = || -> io::Result<u64> {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
        read()
    };
    // The call runs in a thread of its own, so that the caller stays in its namespace.
    let read = std::thread::scope(|scope| scope.spawn(inside).join());
    let read = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    read.map_err(|error| failed(&path.display().to_string(), error))
}

fn failed(whose: &str, error: io::Error) -> GuestError {
    GuestError::from_kernel(
        format!("read the cookie of the network namespace {whose}"),
        error,
    )
}

fn read() -> io::Result<u64> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the integer's size.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &raw mut length,
        )
    };
    if answer == 0 {
        Ok(cookie)
    } else {
        Err(io::Error::last_os_error())
    }
}
