//! The options of a split connection's two sockets.
//!
//! Each socket lingers for 0 seconds until its connection has ended in order: if it is closed before,
//! also because this process is killed, the kernel sends a reset. So no end takes a part of the stream
//! for all of it, and none waits for a connection that nobody holds.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::error::SplitError;
use crate::side::Side;

/// Receive buffer of a connection to a guest, in bytes; the kernel doubles it for its own overhead. It bounds what the
/// host holds of a guest's data; a guest on the same host needs no more for tens of Gb/s.
const INNER_RECEIVE_BYTES: usize = 1024 * 1024;
/// Maximum unsent data in a socket, in bytes. The socket also holds data in flight, which does not count.
const UNSENT_BYTES: u32 = 1024 * 1024;
/// Maximum number of connections that wait to be accepted; the sysctl net.core.somaxconn may lower it.
const BACKLOG: i32 = 4096;
/// Idle time after which an end is probed; next lines: interval of the probes, and their number. An end that vanished
/// is noticed after two minutes. The ends' own probes can't notice it, since they do not pass this host.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;

/// Creates a listener on the loopback address of an IP version. `port` 0: the kernel chooses the port. Accepted
/// sockets inherit the listener's options. Several listeners of one port share its connections. `opener`: the end that
/// opens them.
pub fn listen(is_ipv6: bool, port: u16, opener: Side) -> io::Result<Socket> {
    let address = match is_ipv6 {
        true => SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        false => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    let socket = socket(address, Protocol::TCP)?;
    if is_ipv6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    if opener == Side::Guest {
        limit_received(&socket)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Creates the socket towards the far end with the guest's address, and begins to connect, without waiting.
pub fn open_outer(
    guest: SocketAddr,
    far: SocketAddr,
    mptcp: bool,
    congestion_control: Option<&str>,
) -> io::Result<Socket> {
    let protocol = match mptcp {
        true => Protocol::MPTCP,
        false => Protocol::TCP,
    };
    let socket = socket(far, protocol)?;
    control(&socket, congestion_control)?;
    connect(socket, guest, far)
}

/// Creates the socket towards the guest with the far end's address, and begins to connect, without waiting.
pub fn open_inner(far: SocketAddr, guest: SocketAddr) -> io::Result<Socket> {
    let socket = socket(guest, Protocol::TCP)?;
    limit_received(&socket)?;
    connect(socket, far, guest)
}

/// Sets the socket's congestion control; `None` keeps the host's default.
pub fn control(socket: &Socket, congestion_control: Option<&str>) -> io::Result<()> {
    congestion_control.map_or(Ok(()), |name| socket.set_tcp_congestion(name.as_bytes()))
}

fn connect(socket: Socket, from: SocketAddr, to: SocketAddr) -> io::Result<Socket> {
    // One end has one port for many others.
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Limits the receive buffer of a socket towards a guest to [`INNER_RECEIVE_BYTES`].
fn limit_received(socket: &Socket) -> io::Result<()> {
    // The kernel's limit without the capability, which was checked, would be small.
    Ok(setsockopt(
        socket,
        sockopt::RcvBufForce,
        &INNER_RECEIVE_BYTES,
    )?)
}

/// Creates a non-blocking socket with the options that all sockets of split connections need.
fn socket(address: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    prepare(&socket, address)?;
    Ok(socket)
}

/// Sets the options that all sockets of split connections need.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_EVERY)
        .with_retries(PROBES);
    if_supported(socket.set_tcp_keepalive(&probes))?;
    // Urgent data stays in its place of the stream.
    if_supported(socket.set_out_of_band_inline(true))?;
    if_supported(socket.set_tcp_notsent_lowat(UNSENT_BYTES))
}

/// Ignores the error of an option that this kernel, or its Multipath TCP, lacks.
fn if_supported(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Socket option that tells whether the socket uses Multipath TCP with its peer: linux/tcp.h, since Linux 6.4.
const TCP_IS_MPTCP: libc::c_int = 43;

/// Returns whether a connected socket uses Multipath TCP with its peer, rather than TCP; false if the kernel can't
/// tell.
pub fn is_multipath(socket: &Socket) -> bool {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are to live values, and the length is the first one's.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_IS_MPTCP,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    done == 0 && value != 0
}

/// Returns whether the peer has acknowledged all that was sent, also the end of the stream; true if the kernel can't
/// tell.
pub fn is_acknowledged(socket: &Socket) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the pointer is to a live integer, as the request asks.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    done != 0 || bytes == 0
}

/// Checks that this process may use other hosts' addresses.
pub fn check_transparent() -> Result<(), SplitError> {
    match trial(Protocol::TCP)?.set_ip_transparent_v4(true) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(SplitError::Refused(
            "CAP_NET_ADMIN is missing: run as root, or grant it to the program with setcap".into(),
        )),
        Err(error) => Err(SplitError::resource(
            "open sockets with the guests' addresses (IP_TRANSPARENT)",
            error,
        )),
        Ok(()) => Ok(()),
    }
}

/// Checks that the kernel has a congestion control, which may load its module.
pub fn check_congestion_control(name: &str) -> Result<(), SplitError> {
    match trial(Protocol::TCP)?.set_tcp_congestion(name.as_bytes()) {
        Ok(()) => Ok(()),
        Err(_) => {
            let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let list = list.unwrap_or_default();
            let available: Vec<&str> = list.split_whitespace().collect();
            Err(SplitError::Refused(format!(
                "this kernel has no congestion control '{name}'; it has {available}: name one of \
                 them, or load its module",
                available = available.join(", ")
            )))
        }
    }
}

/// Checks that Multipath TCP is there and turned on.
pub fn check_mptcp() -> Result<(), SplitError> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => SplitError::Refused(
                "Multipath TCP is turned off here: set the sysctl net.mptcp.enabled to 1".into(),
            ),
            Some(libc::EPROTONOSUPPORT | libc::EINVAL) => SplitError::Refused(
                "this kernel lacks Multipath TCP: it needs CONFIG_MPTCP, since Linux 5.6".into(),
            ),
            _ => SplitError::resource("create a Multipath TCP socket", error),
        }),
    }
}

fn trial(protocol: Protocol) -> Result<Socket, SplitError> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))
        .map_err(|error| SplitError::resource("create a socket", error))
}

/// Returns the address as an IP address and a port.
pub fn ip(address: &SockAddr) -> io::Result<SocketAddr> {
    address
        .as_socket()
        .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_congestion_control_is_refused_with_the_available_ones() {
        let error = check_congestion_control("no-such").unwrap_err().to_string();
        assert!(error.contains("'no-such'; it has "), "{error}");
        assert!(error.contains("reno"), "{error}");
        assert!(check_congestion_control("reno").is_ok());
    }
}
