//! Taps: interfaces where frames leave a real kernel for the emulated network and return.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::LabError;
use crate::netns::Namespace;

/// Maximum size of a frame that is read: Ethernet's header and the largest IP packet. The
/// interfaces' MTU keeps frames far below; the kernel segments an offloading sender's frames before
/// the tap.
pub const FRAME_BYTES_MAX: usize = 65_536 + 14;

/// The kernel's `struct ifreq` as TUNSETIFF reads it.
#[repr(C)]
struct TapRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    padding: [u8; 22],
}

/// An open tap. The interface exists as long as this value does.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Creates the tap `name` inside `namespace`, down, without an address.
    ///
    /// Without a virtio header the kernel offers the interface no offloads: frames come out at most
    /// one MTU long with complete checksums, as they would on a wire.
    ///
    /// # Errors
    /// The kernel's error when the device or the name is refused, [`LabError::Namespace`] when the
    /// namespace can't be entered.
    pub fn open(namespace: &Namespace, name: &str) -> Result<Self, LabError> {
        Self::with_flags(namespace, name, libc::IFF_TAP)
    }

    /// Creates the tap `name` inside `namespace` for a VM, whose network card is behind it. With
    /// `offload` frames come with a virtio header and may be segments of up to 64 KiB.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn for_machine(namespace: &Namespace, name: &str, offload: bool) -> Result<Self, LabError> {
        let header = if offload { libc::IFF_VNET_HDR } else { 0 };
        Self::with_flags(namespace, name, libc::IFF_TAP | header)
    }

    /// Creates `name` inside `namespace` as packetdrill does: packets come without Ethernet's header,
    /// after a virtio header, and may be segments of up to 64 KiB in both directions.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn without_ethernet(namespace: &Namespace, name: &str) -> Result<Self, LabError> {
        let tun = Self::with_flags(namespace, name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        // linux/if_tun.h: TUNSETOFFLOAD, _IOW('T', 208, unsigned int), with TUN_F_CSUM, TUN_F_TSO4,
        // TUN_F_TSO6 and TUN_F_TSO_ECN.
        let code = nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>());
        // SAFETY: the descriptor is open, and the argument is a number, not a pointer.
        if unsafe { libc::ioctl(tun.file.as_raw_fd(), code, 0x0f as libc::c_ulong) } < 0 {
            return Err(failed(name, "configuring", &io::Error::last_os_error()));
        }
        Ok(tun)
    }

    fn with_flags(namespace: &Namespace, name: &str, flags: i32) -> Result<Self, LabError> {
        let made = namespace.enter(|| open_here(name, flags))?;
        let file = made.map_err(|source| failed(name, "opening", &source))?;
        Ok(Self {
            file,
            name: name.into(),
        })
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one frame into `buffer`; `None` when there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>, LabError> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The interface is down, before the wiring is complete.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(None),
                Err(source) => return Err(failed(&self.name, "reading", &source)),
            }
        }
    }

    /// Writes one frame to the kernel behind the tap. Returns `false` when it had no room for the
    /// frame.
    pub fn write(&self, frame: &[u8]) -> Result<bool, LabError> {
        loop {
            match (&self.file).write(frame) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(false),
                Err(source) => return Err(failed(&self.name, "writing", &source)),
            }
        }
    }
}

fn failed(name: &str, action: &str, source: &io::Error) -> LabError {
    LabError::Refused(format!(
        "tap {name}: {action} failed: {source}; check /dev/net/tun and CAP_NET_ADMIN"
    ))
}

impl From<Tap> for OwnedFd {
    fn from(tap: Tap) -> Self {
        tap.file.into()
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens the tap. It belongs to the namespace of the thread that opens the device.
fn open_here(name: &str, flags: i32) -> io::Result<File> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the interface name has more than 15 bytes, the kernel's limit",
        ));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = TapRequest {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_NO_PI | flags) as libc::c_short,
        padding: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // linux/if_tun.h: _IOW('T', 202, int), although the argument is an ifreq.
    let code = nix::request_code_write!(b'T', 202, size_of::<libc::c_int>());
    // SAFETY: the descriptor is open and the argument points to a live ifreq of the kernel's size.
    if unsafe { libc::ioctl(file.as_raw_fd(), code, &raw const request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

const _: () = assert!(size_of::<TapRequest>() == size_of::<libc::ifreq>());
