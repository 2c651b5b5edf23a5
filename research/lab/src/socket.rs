//! TCP sockets of the traffic, with the same options everywhere.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, getsockopt, setsockopt,
    sockopt,
};

use crate::error::LabError;

/// Creates a receiver's listener: non-blocking, with room for `flows` connections. Accepted
/// connections inherit its options. The calling thread must be in the receiver's namespace, which
/// messages name `node`.
pub fn listen(
    node: &str,
    address: SocketAddr,
    flows: usize,
    congestion_control: &str,
) -> Result<TcpListener, LabError> {
    let fd = open(node, address, congestion_control, SockFlag::SOCK_NONBLOCK)?;
    // The kernel limits the backlog to somaxconn by itself; i32 is nix's type for it.
    let backlog = Backlog::new(i32::try_from(flows).unwrap_or(i32::MAX).clamp(16, 4096));
    backlog
        .and_then(|backlog| nix::sys::socket::listen(&fd, backlog))
        .map_err(|errno| failed(node, "listening", errno))?;
    Ok(TcpListener::from(fd))
}

/// Creates a guest's socket, bound and not connected. The calling thread must be in the guest's
/// namespace.
pub fn sender(
    guest: &str,
    address: SocketAddr,
    congestion_control: &str,
) -> Result<TcpStream, LabError> {
    Ok(TcpStream::from(open(
        guest,
        address,
        congestion_control,
        SockFlag::empty(),
    )?))
}

/// Creates a non-blocking socket, bound to an address without a port. The calling thread must be in
/// the receiver's namespace, which messages name `node`.
pub fn client(
    node: &str,
    address: SocketAddr,
    congestion_control: &str,
) -> Result<TcpStream, LabError> {
    let flags = SockFlag::SOCK_NONBLOCK;
    open(node, address, congestion_control, flags).map(TcpStream::from)
}

/// Connects a blocking socket, and waits at most `deadline` for the answer.
pub fn connect(socket: &TcpStream, server: SocketAddr, deadline: Duration) -> io::Result<()> {
    // The send timeout bounds connect(2), and would bound every write, so it is removed again.
    socket.set_write_timeout(Some(deadline))?;
    match nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(server)) {
        Ok(()) => socket.set_write_timeout(None),
        Err(nix::Error::EINPROGRESS) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the connection attempt timed out: no SYN was answered",
        )),
        Err(errno) => Err(errno.into()),
    }
}

fn open(
    node: &str,
    address: SocketAddr,
    congestion_control: &str,
    flags: SockFlag,
) -> Result<OwnedFd, LabError> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    let fd = nix::sys::socket::socket(family, SockType::Stream, flags, None)
        .map_err(|errno| failed(node, "making a socket", errno))?;
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&fd, sockopt::Linger, &linger)
        .map_err(|errno| failed(node, "setting SO_LINGER", errno))?;
    set_congestion_control(&fd, congestion_control).map_err(|errno| {
        LabError::Refused(format!(
            "{node}: congestion control {congestion_control} is not available: {errno}; load it \
             with `modprobe tcp_{congestion_control}` or choose another for the stack"
        ))
    })?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))
        .map_err(|errno| failed(node, "binding its address", errno))?;
    Ok(fd)
}

/// Limits the window that a connection offers its peer.
pub fn limit_window(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the length given, which the kernel only reads.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets the congestion control by socket, not by sysctl: a namespace's default accepts unrestricted
/// algorithms only (tcp_cong.c), which excludes DCTCP, and the restriction is a setting of the
/// whole host.
fn set_congestion_control(fd: &OwnedFd, name: &str) -> nix::Result<()> {
    setsockopt(fd, sockopt::TcpCongestion, &OsString::from(name))?;
    // The kernel pads the answer with zeros.
    let found = getsockopt(fd, sockopt::TcpCongestion)?
        .to_string_lossy()
        .into_owned();
    if found.trim_end_matches('\0') == name {
        Ok(())
    } else {
        Err(nix::Error::EINVAL)
    }
}

fn failed(node: &str, action: &'static str, errno: nix::Error) -> LabError {
    LabError::Socket {
        node: node.into(),
        action,
        source: errno.into(),
    }
}
