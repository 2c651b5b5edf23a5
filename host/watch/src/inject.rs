//! Sends frames that enter a port as if its guest had sent them.
//!
//! User space can only send a frame *out of* an interface, here toward the guest. So it marks the
//! frame, and the port's program redirects frames with that mark (`bpf/watch/watch.bpf.c`). From
//! there the frame takes the path of the guest's own frames: through the port's programs, bridge
//! and uplink.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt,
};
use uc_port::port_address;

use crate::error::WatchError;
use crate::programs::Programs;

/// A packet socket of the network namespace in which it was created.
#[derive(Debug)]
pub struct Injector {
    socket: OwnedFd,
}

impl Injector {
    /// Creates an injector for the ports of these programs in the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// [`WatchError::Kernel`]: without CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn new(programs: &Programs) -> Result<Self, WatchError> {
        let failed = |errno| WatchError::kernel("open a packet socket", io::Error::from(errno));
        // Protocol 0: the socket receives nothing.
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None::<SockProtocol>,
        )
        .map_err(failed)?;
        setsockopt(&socket, sockopt::Mark, &programs.mark).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Sends the frame into the port with this index.
    pub(crate) fn inject(&self, ifindex: u32, frame: &[u8]) -> io::Result<()> {
        let protocol = frame
            .get(12..14)
            .map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let to = port_address(ifindex, protocol);
        // SAFETY: the frame and the address outlive the call and have the given lengths.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
