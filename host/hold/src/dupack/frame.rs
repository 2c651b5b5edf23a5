//! A duplicate ACK as a frame for the guest.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;
use uc_core::Segment;

/// Ethernet addresses on the link between a guest and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Ethernet address of the guest.
    pub guest: [u8; 6],
    /// Ethernet address to which the guest sends its frames.
    pub gateway: [u8; 6],
}

/// Hop limit of the frame, which crosses no router.
const HOPS: u8 = 64;

/// Returns the frame of an ACK without data from `remote` to `guest`, with complete checksums. ACK number and window
/// are as the network would deliver them: the port's programs edit them on the way to the guest. `None` if one address
/// is IPv4 and the other IPv6.
pub fn frame(link: Link, remote: SocketAddr, guest: SocketAddr, ack: &Segment) -> Option<Vec<u8>> {
    let ethernet = PacketBuilder::ethernet2(link.gateway, link.guest);
    let ip = match (remote.ip(), guest.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), HOPS),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), HOPS),
        _ => return None,
    };
    let tcp = ip
        .tcp(remote.port(), guest.port(), ack.seq, ack.window)
        .ack(ack.ack);
    let mut bytes = Vec::with_capacity(tcp.size(0));
    tcp.write(&mut bytes, &[]).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::parsed;

    #[test]
    fn a_frame_is_a_pure_ack_from_the_remote_end_with_right_checksums() {
        let link = Link {
            guest: [2; 6],
            gateway: [4; 6],
        };
        let ack = Segment {
            seq: 7,
            ack: 9,
            window: 500,
            ..Segment::default()
        };
        for (remote, guest) in [
            ("10.2.0.2:80", "10.1.0.2:5000"),
            ("[fd02::2]:80", "[fd01::2]:5000"),
        ] {
            let (remote, guest): (SocketAddr, SocketAddr) =
                (remote.parse().unwrap(), guest.parse().unwrap());
            let bytes = frame(link, remote, guest, &ack).unwrap();
            assert_eq!(&bytes[..12], [[2; 6], [4; 6]].concat());
            let (header, payload) = parsed(&bytes);
            let ports = (header.source_port, header.destination_port);
            assert_eq!(ports, (remote.port(), guest.port()));
            let numbers = (header.sequence_number, header.acknowledgment_number);
            assert_eq!((numbers, header.window_size), ((7, 9), 500));
            assert!(header.ack && !header.psh && !header.ece && !header.cwr);
            assert!(payload.is_empty());
        }
        let mixed = frame(
            link,
            "[fd02::2]:80".parse().unwrap(),
            "10.1.0.2:5000".parse().unwrap(),
            &ack,
        );
        assert_eq!(mixed, None);
    }
}
