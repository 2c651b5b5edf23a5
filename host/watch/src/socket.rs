//! The sockets of questions to a granter and of its answers, and what their processes say of them.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};

/// Bytes of a socket's buffer: thousands of datagrams, a burst of flows to all hosts.
const BUFFER_BYTES: usize = 4 << 20;

/// Refuses an address that is no single host's: at a wildcard, guests could ask, too.
pub(crate) fn names_one_host(address: SocketAddr) -> io::Result<()> {
    match address.ip().is_unspecified() || address.ip().is_multicast() || address.port() == 0 {
        true => Err(io::Error::other("it names no single host and port")),
        false => Ok(()),
    }
}

/// Gives a socket a buffer for a burst; without the right for it, as much as every process may have.
pub(crate) fn enlarge_buffer(socket: &UdpSocket) {
    let forced = setsockopt(socket, RcvBufForce, &BUFFER_BYTES);
    let _as_allowed = forced.or_else(|_| setsockopt(socket, RcvBuf, &BUFFER_BYTES));
}

/// Prints a line on standard error, if anybody reads it.
pub(crate) fn say(line: &str) {
    let _unread = writeln!(io::stderr(), "uc: {line}");
}
