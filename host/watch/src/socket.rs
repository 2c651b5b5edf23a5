//! The sockets for questions to a granter and for its answers, and the messages of the processes that use them.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};

/// Bytes of a socket's buffer: thousands of datagrams, a burst of flows to all hosts.
const BUFFER_BYTES: usize = 4 << 20;

/// Checks that an address is that of one host, with a port: at a wildcard, guests could ask, too.
pub(crate) fn names_one_host(address: SocketAddr) -> io::Result<()> {
    match address.ip().is_unspecified() || address.ip().is_multicast() || address.port() == 0 {
        true => Err(io::Error::other(
            "it is not the address of one host with a port: a wildcard, a multicast group, or \
             port 0",
        )),
        false => Ok(()),
    }
}

/// Enlarges a socket's receive buffer for a burst of datagrams; without the right for it, as far as every process may.
pub(crate) fn enlarge_buffer(socket: &UdpSocket) {
    let forced = setsockopt(socket, RcvBufForce, &BUFFER_BYTES);
    let _as_allowed = forced.or_else(|_| setsockopt(socket, RcvBuf, &BUFFER_BYTES));
}

/// Prints a line on standard error, if anybody reads it.
pub(crate) fn say(line: &str) {
    let _unread = writeln!(io::stderr(), "uc: {line}");
}
