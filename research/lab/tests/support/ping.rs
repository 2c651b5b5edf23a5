//! Echo requests between namespaces.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use uc_lab::Lab;

/// Size of the headers of an echo request: Ethernet, IPv4, ICMP.
pub const ECHO_HEADER_BYTES: usize = 14 + 20 + 8;

/// Sends one echo request with `payload` from guest number `guest`, and returns the time to its answer, whose
/// payload must be the same.
pub fn ping(lab: &Lab, guest: usize, to: IpAddr, sequence: u8, payload: &[u8]) -> Duration {
    let ping = || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(
            AddressFamily::Inet,
            SockType::Raw,
            flags,
            SockProtocol::Icmp,
        )
        .unwrap();
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(2)).unwrap();
        let mut request = vec![8, 0, 0, 0, 0x75, 0x63, 0, sequence];
        request.extend_from_slice(payload);
        let checksum = internet_checksum(&request);
        request[2..4].copy_from_slice(&checksum.to_be_bytes());
        let address = SockaddrStorage::from(SocketAddr::new(to, 0));
        let start = Instant::now();
        sendto(fd.as_raw_fd(), &request, &address, MsgFlags::empty()).unwrap();
        let mut answer = [0; 2048];
        let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
        let elapsed = start.elapsed();
        assert_eq!(answer[20], 0, "an echo reply");
        assert_eq!(&answer[24..length], &request[4..]);
        elapsed
    };
    lab.wiring.guests[guest].enter(ping).unwrap()
}

/// Computes the checksum of RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
