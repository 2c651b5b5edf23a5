//! The packet sockets at a port. Both send out of the interface, that is, towards the guest. By the socket,
//! `bpf/hold/gate.h` lets frames for the guest skip all other programs, and redirects frames for the network
//! into the port as if the guest had sent them. A frame for the guest has the mark and the priority of the
//! packet that was held.
//!
//! Each frame goes with the header that tells the kernel how to complete its checksum and how to cut it
//! (`struct virtio_net_hdr` of linux/virtio_net.h): so a super-segment stays whole if the guest's
//! interface accepts super-segments.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};
use uc_port::{bind_to_port, draw_mark};

use crate::error::HoldError;
use crate::frame::{CHECKSUM, Checksum, FLAGS, Frame, Marks};

/// Values of the fields `flags` and `gso_type` of `struct virtio_net_hdr`.
const NEEDS_CHECKSUM: u8 = 1;
const TYPE_TCP_IPV4: u8 = 1;
const TYPE_TCP_IPV6: u8 = 4;
const TYPE_ECN: u8 = 0x80;
/// CWR in byte 13 of the TCP header, which only the first segment of a super-segment keeps.
const CWR: u8 = 0x80;
/// Size of a socket's send buffer: the bytes that may wait for a slow interface.
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// Cookies and mark by which the programs recognize the frames of a port's sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// Cookie of the socket that sends towards the guest.
    pub to_guest_cookie: u64,
    pub to_network_cookie: u64,
    /// The mark of frames towards the network.
    pub to_network_mark: u32,
}

/// The packet sockets with which frames are sent at one port.
#[derive(Debug)]
pub struct Wire {
    to_guest: Socket,
    /// Mark and priority that are set at `to_guest`.
    marks: Cell<Marks>,
    to_network: Socket,
    own: Own,
}

impl Wire {
    /// Opens the sockets at the interface with this index.
    ///
    /// # Errors
    /// The kernel's refusal, for instance if a capability is missing.
    pub fn open(ifindex: u32) -> Result<Self, HoldError> {
        let to_network_mark = draw_mark()?;
        let open = || {
            let (to_guest, to_network) = (open(ifindex)?, open(ifindex)?);
            to_network.set_mark(to_network_mark)?;
            Ok(Self {
                own: Own {
                    to_guest_cookie: to_guest.cookie()?,
                    to_network_cookie: to_network.cookie()?,
                    to_network_mark,
                },
                to_guest,
                marks: Cell::default(),
                to_network,
            })
        };
        open().map_err(|error| HoldError::kernel("open a packet socket", error))
    }

    /// Returns the cookies and the mark by which the programs recognize this process's frames.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// Sends a frame to the guest. Returns whether the interface took it.
    pub fn to_guest(&self, frame: &Frame) -> bool {
        self.mark(frame.marks()).is_ok() && send(&self.to_guest, frame)
    }

    /// Sets the mark and priority of the next frames towards the guest.
    fn mark(&self, marks: Marks) -> io::Result<()> {
        let before = self.marks.get();
        if before.mark != marks.mark {
            self.to_guest.set_mark(marks.mark)?;
        }
        if before.priority != marks.priority {
            self.to_guest.set_priority(marks.priority)?;
        }
        self.marks.set(marks);
        Ok(())
    }

    /// Sends a frame into the port, as if the guest had sent it. Returns whether the interface took it.
    pub fn to_network(&self, frame: &Frame) -> bool {
        send(&self.to_network, frame)
    }
}

/// Opens a non-blocking packet socket, which receives nothing until it is bound with a protocol.
pub fn packet_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn open(ifindex: u32) -> io::Result<Socket> {
    let socket = packet_socket()?;
    setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER_BYTES)?;
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to a live integer of the given length.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_VNET_HDR,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    bind_to_port(socket.as_fd(), ifindex, 0)?;
    Ok(socket)
}

fn send(socket: &Socket, frame: &Frame) -> bool {
    let header = header_of(frame);
    let parts = [IoSlice::new(&header), IoSlice::new(frame.bytes())];
    socket.send_vectored(&parts).is_ok()
}

/// Returns the `struct virtio_net_hdr` of a frame; zeros unless the checksum is partial. Its fields: flags, type, then
/// four numbers of 16 bits: length of the headers, payload of a segment on the wire, begin of the checksummed bytes,
/// and offset of the checksum field from there.
fn header_of(frame: &Frame) -> [u8; 10] {
    let mut header = [0; 10];
    if frame.checksum() != Checksum::Partial {
        return header;
    }
    header[0] = NEEDS_CHECKSUM;
    let mut numbers = [frame.header_bytes(), 0, frame.tcp_at(), CHECKSUM];
    if frame.gso_bytes() > 0 {
        header[1] = match frame.is_ipv6() {
            true => TYPE_TCP_IPV6,
            false => TYPE_TCP_IPV4,
        };
        if frame.bytes()[frame.tcp_at() + FLAGS] & CWR != 0 {
            header[1] |= TYPE_ECN;
        }
        numbers[1] = frame.gso_bytes();
    }
    for (at, number) in numbers.into_iter().enumerate() {
        header[2 + 2 * at..4 + 2 * at].copy_from_slice(&(number as u16).to_ne_bytes());
    }
    header
}
