//! Packet sockets of user space at a port, and marks of their frames.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::PortError;

/// Returns the address for a packet socket at the interface with this index. `protocol`: Ethernet type of the frames
/// that the socket receives, in host byte order; 0: it receives none.
pub fn port_address(ifindex: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Binds a packet socket to the interface with this index: it sends there, and receives frames of this Ethernet type
/// (in host byte order); 0: it receives none.
pub fn bind_to_port(socket: BorrowedFd<'_>, ifindex: u32, protocol: u16) -> io::Result<()> {
    let address = port_address(ifindex, protocol);
    // SAFETY: the address outlives the call and has the given length.
    let code = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Draws a random mark (`skb->mark`) for frames of user space; never 0, which every packet has.
pub fn draw_mark() -> Result<u32, PortError> {
    let mut bytes = [0; 4];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|source| PortError::from_kernel("draw a mark from /dev/urandom", source))?;
    Ok(u32::from_ne_bytes(bytes).max(1))
}
