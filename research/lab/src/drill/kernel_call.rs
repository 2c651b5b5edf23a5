//! System calls that only a real kernel can make, with arguments in the kernel's memory layout.

use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use uc_drill::target::Answer;
use uc_drill::{Argument, KernelCall};

use super::calls::Sockets;

/// Number of arguments of a system call.
const ARGUMENTS: usize = 6;

/// Returns the number of the system call `name`, and the position of its flags argument if it may raise SIGPIPE; `None`
/// for an unknown call.
fn number_of(name: &str) -> Option<(libc::c_long, Option<usize>)> {
    Some(match name {
        "setsockopt" => (libc::SYS_setsockopt, None),
        "getsockopt" => (libc::SYS_getsockopt, None),
        "send" | "sendto" => (libc::SYS_sendto, Some(3)),
        "recv" | "recvfrom" => (libc::SYS_recvfrom, None),
        "write" => (libc::SYS_write, None),
        "read" => (libc::SYS_read, None),
        "sendmsg" => (libc::SYS_sendmsg, Some(2)),
        "recvmsg" => (libc::SYS_recvmsg, None),
        "connect" => (libc::SYS_connect, None),
        "shutdown" => (libc::SYS_shutdown, None),
        "listen" => (libc::SYS_listen, None),
        "epoll_create" => (libc::SYS_epoll_create1, None),
        "epoll_ctl" => (libc::SYS_epoll_ctl, None),
        "epoll_wait" => (libc::SYS_epoll_pwait, None),
        "ioctl" => (libc::SYS_ioctl, None),
        "pipe" => (libc::SYS_pipe2, None),
        "splice" => (libc::SYS_splice, None),
        _ => return None,
    })
}

/// Returns an argument as the kernel takes it: a number, or the address of its memory. Writes into that memory the
/// addresses that it points to.
fn place(argument: &mut Argument, peer: &SockaddrStorage) -> usize {
    let memory = match argument {
        Argument::Number(number) => return *number as usize,
        Argument::Peer => return &raw const *peer as usize,
        Argument::AddressLength => return peer.len() as usize,
        Argument::Memory(memory) => memory,
    };
    for (at, inner) in &mut memory.pointers {
        let address = place(inner, peer);
        if let Some(bytes) = memory.bytes.get_mut(*at..*at + size_of::<usize>()) {
            bytes.copy_from_slice(&address.to_ne_bytes());
        }
    }
    memory.bytes.as_mut_ptr() as usize
}

/// Makes a call; `peer` is the address that its arguments may name.
pub(super) fn make(sockets: &Sockets, mut call: KernelCall, peer: SocketAddr) -> Answer {
    let Some((number, flags)) =
        number_of(&call.name).or((call.name == "poll").then_some((0, None)))
    else {
        return Answer::fails(libc::ENOSYS.into());
    };
    let address = SockaddrStorage::from(peer);
    let mut raw = [0usize; ARGUMENTS];
    for (raw, argument) in raw.iter_mut().zip(&mut call.arguments) {
        *raw = place(argument, &address);
    }
    match call.name.as_str() {
        // Its only argument is a size that counts no more.
        "epoll_create" => raw[0] = libc::EPOLL_CLOEXEC as usize,
        "recvfrom" => (raw[4], raw[5]) = (0, 0),
        _ => {}
    }
    if let Some(at) = flags {
        raw[at] |= libc::MSG_NOSIGNAL as usize;
    }
    let result = if call.name == "poll" {
        let descriptors = raw[0] as *mut libc::pollfd;
        // SAFETY: the pointer is to `raw[1]` structures that `call` owns until the call returns.
        unsafe { libc::c_long::from(libc::poll(descriptors, raw[1] as _, raw[2] as _)) }
    } else {
        // SAFETY: every pointer among the arguments, and in their memory, is null or to memory that
        // `call` and `address` own until the call returns, as long as the lengths beside it say.
        unsafe { libc::syscall(number, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]) }
    };
    if result < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Answer::fails(errno.unwrap_or(libc::EIO).into());
    }
    match call.name.as_str() {
        "epoll_create" => adopt(sockets, result as RawFd),
        "pipe" => {
            if let [Argument::Memory(made)] = call.arguments.as_slice() {
                for bytes in made.bytes.chunks_exact(4) {
                    adopt(
                        sockets,
                        i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                    );
                }
            }
        }
        _ => {}
    }
    Answer {
        after: call.arguments,
        ..Answer::returns(result)
    }
}

fn adopt(sockets: &Sockets, fd: RawFd) {
    // SAFETY: the kernel has just made the descriptor for this call, so nothing else owns it.
    sockets.add(unsafe { OwnedFd::from_raw_fd(fd) });
}
