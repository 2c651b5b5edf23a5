//! Claims on ports: each is watched by one process. A claim ends with the last process that has it,
//! however that ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use uc_port::PortError;

use crate::error::WatchError;
use crate::names::name_of;

/// Claims a port of the calling thread's network namespace.
///
/// # Errors
/// [`WatchError::AlreadyWatched`]; the kernel's refusal.
pub(crate) fn claim(ifindex: u32) -> Result<File, WatchError> {
    let taken = || WatchError::AlreadyWatched {
        name: name_of(ifindex),
    };
    let failed = |source| WatchError::kernel(format!("claim {}", name_of(ifindex)), source);
    if is_watched_by_older(ifindex).map_err(failed)? {
        return Err(taken());
    }
    uc_files::claim_port("watch", ifindex)
        .map_err(PortError::from)?
        .ok_or_else(taken)
}

/// Parts of `linux/sock_diag.h` and `linux/unix_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 0x01;
const UDIAG_SHOW_UID: u32 = 0x40;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
/// Length of `struct nlmsghdr`, and of `struct unix_diag_msg`.
const HEADER_BYTES: usize = 16;
const UNIX_BYTES: usize = 16;

/// Returns whether a process of an earlier version watches the port: its claim is an abstract socket
/// name. Any user can take such a name, so only root's counts.
fn is_watched_by_older(ifindex: u32) -> io::Result<bool> {
    let name = format!("\0undercurrent-watch-{ifindex}");
    let asked = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    send(asked.as_raw_fd(), &request(), MsgFlags::empty())?;
    loop {
        let mut answer = vec![0; 1 << 16];
        let length = recv(asked.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let mut rest = &answer[..length];
        while rest.len() >= HEADER_BYTES {
            let kind = u16_at(rest, 4);
            let bytes = (u32_at(rest, 0) as usize).clamp(HEADER_BYTES, rest.len());
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(false),
                // A kernel without unix_diag: an older version's claim is not found there.
                libc::NLMSG_ERROR => return Ok(false),
                _ if is_roots(&rest[HEADER_BYTES..bytes], name.as_bytes()) => return Ok(true),
                _ => {}
            }
            rest = &rest[bytes.next_multiple_of(4).min(rest.len())..];
        }
        if length == 0 {
            return Ok(false);
        }
    }
}

/// Returns a request for all Unix sockets of the namespace, with names and owners.
fn request() -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = Vec::new();
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend((UDIAG_SHOW_NAME | UDIAG_SHOW_UID).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Returns whether a socket has this name and is root's.
fn is_roots(message: &[u8], name: &[u8]) -> bool {
    let (mut is_named, mut is_root) = (false, false);
    let mut rest = message.get(UNIX_BYTES..).unwrap_or_default();
    while rest.len() >= 4 {
        let bytes = usize::from(u16_at(rest, 0)).clamp(4, rest.len());
        let value = &rest[4..bytes];
        match u16_at(rest, 2) {
            UNIX_DIAG_NAME => is_named = value == name,
            UNIX_DIAG_UID => is_root = value == [0; 4],
            _ => {}
        }
        rest = &rest[bytes.next_multiple_of(4).min(rest.len())..];
    }
    is_named && is_root
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::time::{Duration, Instant};

    use super::*;

    fn named(ifindex: u32) -> UnixDatagram {
        let name = format!("undercurrent-watch-{ifindex}");
        let address = SocketAddr::from_abstract_name(name).unwrap();
        UnixDatagram::bind_addr(&address).unwrap()
    }

    fn is_taken(ifindex: u32) -> bool {
        match claim(ifindex) {
            Ok(_) => false,
            Err(WatchError::AlreadyWatched { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until a port is free, and asserts that it becomes so. A test beside this one that starts a program
    /// holds copies of all open files, until the program begins.
    fn assert_free(ifindex: u32) {
        let began = Instant::now();
        while is_taken(ifindex) {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{ifindex} stays taken"
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn live_a_port_is_claimed_once_and_only_by_root() {
        if !nix::unistd::geteuid().is_root() {
            uc_live::skip("root");
            return;
        }
        // No interface has these indices.
        let [one, two, older, strange] =
            [0, 1, 2, 3].map(|at| u32::MAX / 2 - std::process::id() - at);
        let first = claim(one).unwrap();
        assert!(is_taken(one) && !is_taken(two));
        let child: OwnedFd = first.try_clone().unwrap().into();
        drop(first);
        assert!(
            is_taken(one),
            "a child of the process that claimed it lives on"
        );
        drop(child);
        assert_free(one);

        let root = named(older);
        assert!(is_taken(older), "an earlier version watches it");
        drop(root);
        assert_free(older);
        // A socket belongs to the user by whose rights it is made; of this thread only.
        let other = std::thread::spawn(move || {
            // SAFETY: a plain system call that affects the calling thread.
            unsafe { libc::setfsuid(65_534) };
            named(strange)
        });
        let _other = other.join().unwrap();
        assert!(!is_taken(strange), "any user can take a name");
    }
}
