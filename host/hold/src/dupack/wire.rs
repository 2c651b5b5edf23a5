//! The packet socket at a port. It sends frames out of the interface, which is towards the guest: they
//! pass the port's programs like packets from the network. And it receives each SYN and SYN-ACK of the
//! guest, to learn the Ethernet addresses of guest and gateway; nothing else tells them on a bridge.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use socket2::{SockFilter, Socket};
use uc_port::bind_to_port;

use crate::dupack::frame::Link;
use crate::error::HoldError;
use crate::wire::packet_socket;

/// Maximum number of guests' addresses that are stored at a port; one more clears them, and all are learnt again.
const GUESTS_MAX: usize = 1024;
/// Maximum number of frames that are read at once, so that no guest keeps the process busy.
const FRAMES_MAX: usize = 256;
/// Bytes of the Ethernet header; next line: of Ethernet and IPv6 headers, the part of a frame that the filter keeps.
const ETHERNET_BYTES: usize = 14;
const KEPT_BYTES: usize = ETHERNET_BYTES + 40;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE_AT_X: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const LOAD_IPV4_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offset at which a classic BPF filter reads a packet's type; next line: the type of packets that leave the
/// interface.
const DIRECTION: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const OUTGOING: u32 = libc::PACKET_OUTGOING as u32;
const IPV4: u32 = libc::ETH_P_IP as u32;
const IPV6: u32 = libc::ETH_P_IPV6 as u32;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const SYN: u32 = 2;

/// Returns the filter that passes the first bytes of TCP segments with SYN that come in through the interface, and
/// nothing else.
fn syns_of_the_guest() -> [SockFilter; 18] {
    [
        (LOAD_BYTE, 0, 0, DIRECTION),
        (IF_EQUAL, 15, 0, OUTGOING),
        (LOAD_HALF, 0, 0, 12),
        (IF_EQUAL, 0, 7, IPV4),
        (LOAD_BYTE, 0, 0, 23),
        (IF_EQUAL, 0, 11, TCP),
        (LOAD_HALF, 0, 0, 20),
        (IF_ANY_BIT, 9, 0, 0x1fff), // a later fragment
        (LOAD_IPV4_LENGTH, 0, 0, 14),
        (LOAD_BYTE_AT_X, 0, 0, 27),
        (IF_ANY_BIT, 5, 6, SYN),
        (IF_EQUAL, 0, 5, IPV6),
        (LOAD_BYTE, 0, 0, 20),
        (IF_EQUAL, 0, 3, TCP),
        (LOAD_BYTE, 0, 0, 67),
        (IF_ANY_BIT, 0, 1, SYN),
        (RETURN, 0, 0, KEPT_BYTES as u32),
        (RETURN, 0, 0, 0),
    ]
    .map(|(code, yes, no, value)| SockFilter::new(code, yes, no, value))
}

/// The socket at one port, and the links of its guests by their IP addresses.
#[derive(Debug)]
pub struct Wire {
    socket: Socket,
    links: HashMap<IpAddr, Link>,
}

impl Wire {
    /// Opens the socket at the interface with this index.
    ///
    /// # Errors
    /// The kernel's refusal, for instance if CAP_NET_RAW is missing.
    pub fn open(ifindex: u32) -> Result<Wire, HoldError> {
        let open = || -> io::Result<Socket> {
            let socket = packet_socket()?;
            socket.attach_filter(&syns_of_the_guest())?;
            bind_to_port(socket.as_fd(), ifindex, libc::ETH_P_ALL as u16)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| HoldError::kernel("open a packet socket", error))?;
        Ok(Wire {
            socket,
            links: HashMap::new(),
        })
    }

    /// Learns the guests' addresses from the SYNs and SYN-ACKs that they sent since the last call, at most
    /// [`FRAMES_MAX`].
    pub fn learn(&mut self) {
        let mut buffer = [0; KEPT_BYTES];
        for _ in 0..FRAMES_MAX {
            // An interface that is down or gone receives nothing.
            let Ok(length) = (&self.socket).read(&mut buffer) else {
                return;
            };
            if let Some((guest, link)) = link_of(&buffer[..length]) {
                if self.links.len() >= GUESTS_MAX && !self.links.contains_key(&guest) {
                    self.links.clear();
                }
                self.links.insert(guest, link);
            }
        }
    }

    /// Returns the link of a guest. `None` if no SYN or SYN-ACK of the guest was read since the socket was opened, or
    /// since [`GUESTS_MAX`] was exceeded.
    pub fn link(&self, guest: IpAddr) -> Option<Link> {
        self.links.get(&guest).copied()
    }

    /// Sends a frame to the guest. Returns whether the interface took it.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.socket.send(frame).is_ok()
    }
}

/// Returns the guest's IP address and link, from a frame that the guest sent; `None` unless it is IPv4 or IPv6.
fn link_of(frame: &[u8]) -> Option<(IpAddr, Link)> {
    let octets = |at: usize| <[u8; 6]>::try_from(frame.get(at..at + 6)?).ok();
    let link = Link {
        gateway: octets(0)?,
        guest: octets(6)?,
    };
    let kind = u16::from_be_bytes(frame.get(12..ETHERNET_BYTES)?.try_into().ok()?);
    let guest = match u32::from(kind) {
        IPV4 => IpAddr::from(Ipv4Addr::from(
            <[u8; 4]>::try_from(frame.get(26..30)?).ok()?,
        )),
        IPV6 => IpAddr::from(Ipv6Addr::from(
            <[u8; 16]>::try_from(frame.get(22..38)?).ok()?,
        )),
        _ => return None,
    };
    Some((guest, link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dupack::frame::frame;
    use uc_core::Segment;

    #[test]
    fn a_guests_frame_shows_its_addresses_and_a_short_one_nothing() {
        let link = Link {
            guest: [2; 6],
            gateway: [4; 6],
        };
        // What the guest sends goes from its address to the gateway's.
        let back = Link {
            guest: link.gateway,
            gateway: link.guest,
        };
        for (guest, remote) in [
            ("10.1.0.2:80", "10.2.0.2:81"),
            ("[fd01::2]:80", "[fd02::2]:81"),
        ] {
            let (guest, remote) = (guest.parse().unwrap(), remote.parse().unwrap());
            let bytes = frame(back, guest, remote, &Segment::default()).unwrap();
            assert_eq!(link_of(&bytes[..KEPT_BYTES]), Some((guest.ip(), link)));
            assert_eq!(link_of(&bytes[..20]), None);
        }
        assert_eq!(link_of(&[0; KEPT_BYTES]), None);
    }
}
