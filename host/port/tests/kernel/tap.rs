//! A tap with a virtio header: its other end sends and gets super-segments and partial checksums.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use etherparse::checksum::Sum16BitWords;

use super::frame::ETHERNET;

/// The virtio header: flags, GSO kind, header bytes, GSO size, begin and offset of the checksum.
const HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

/// TUNSETOFFLOAD and what it may ask for: checksums, TSO of IPv4, IPv6 and with CWR.
const SET_OFFLOAD: libc::c_ulong = 0x4004_54d0;
const OFFLOADS: libc::c_ulong = 1 | 2 | 4 | 8;
const SET_INTERFACE: libc::c_ulong = 0x4004_54ca;

/// What a frame leaves to the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offload {
    pub gso_size: u32,
    pub partial: bool,
}

#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    padding: [u8; 22],
}

pub struct Tap {
    file: File,
    name: String,
}

/// Returns where a frame's TCP header is, and the sum of its pseudo-header.
fn transport(bytes: &[u8]) -> (usize, u16) {
    let ipv4 = bytes[12..14] == [8, 0];
    let (at, addresses) = if ipv4 {
        let at = ETHERNET + usize::from(bytes[ETHERNET] & 15) * 4;
        (at, &bytes[ETHERNET + 12..ETHERNET + 20])
    } else {
        (ETHERNET + 40, &bytes[ETHERNET + 8..ETHERNET + 40])
    };
    let sum = Sum16BitWords::new()
        .add_slice(addresses)
        .add_slice(&((bytes.len() - at) as u32).to_be_bytes())
        .add_slice(&[0, 6]);
    (at, !sum.ones_complement())
}

impl Tap {
    /// Creates the tap in this namespace, down.
    pub fn open(name: &str) -> Tap {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .unwrap();
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            flags: (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short,
            padding: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the request is as long as struct ifreq and outlives the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), SET_INTERFACE, &raw mut request) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the argument is a number.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), SET_OFFLOAD, OFFLOADS) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        let name = name.to_owned();
        Tap { file, name }
    }

    pub fn index(&self) -> u32 {
        nix::net::if_::if_nametoindex(self.name.as_str()).unwrap()
    }

    /// Sends a frame whose checksums hold, leaving to the device what `offload` says.
    pub fn write(&self, bytes: &[u8], offload: Offload) {
        let mut header = [0u8; HEADER];
        let mut frame = bytes.to_vec();
        if offload.partial {
            let (at, sum) = transport(bytes);
            frame[at + 16..at + 18].copy_from_slice(&sum.to_ne_bytes());
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&(at as u16).to_ne_bytes());
            header[8..10].copy_from_slice(&16u16.to_ne_bytes());
            if offload.gso_size > 0 {
                let ends = at + usize::from(bytes[at + 12] >> 4) * 4;
                let ipv4 = bytes[12..14] == [8, 0];
                header[1] = if ipv4 { GSO_TCPV4 } else { GSO_TCPV6 };
                header[2..4].copy_from_slice(&(ends as u16).to_ne_bytes());
                header[4..6].copy_from_slice(&(offload.gso_size as u16).to_ne_bytes());
            }
        }
        let whole = [&header[..], &frame].concat();
        let written = (&self.file).write(&whole).unwrap();
        assert_eq!(written, whole.len());
    }

    /// Returns the next frame with complete checksums, and what it left to the device; `None` if
    /// none comes within `patience`.
    pub fn read(&self, patience: Duration) -> Option<(Vec<u8>, Offload)> {
        let until = Instant::now() + patience;
        loop {
            let read = self.read_now();
            if read.is_some() || Instant::now() > until {
                return read;
            }
        }
    }

    /// Returns the same; `None` if no frame is there.
    pub fn read_now(&self) -> Option<(Vec<u8>, Offload)> {
        let mut buffer = vec![0u8; HEADER + 65_600];
        let length = match (&self.file).read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{}: {error}", self.name),
        };
        let (header, frame) = buffer[..length].split_at(HEADER);
        let mut frame = frame.to_vec();
        let offload = Offload {
            gso_size: u16::from_ne_bytes([header[4], header[5]]).into(),
            partial: header[0] & NEEDS_CHECKSUM != 0,
        };
        if offload.partial {
            let at = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            let sum = Sum16BitWords::new()
                .add_slice(&frame[at..])
                .ones_complement();
            frame[at + 16..at + 18].copy_from_slice(&sum.to_ne_bytes());
        }
        Some((frame, offload))
    }
}
