//! Names and indices of interfaces.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use nix::net::if_::if_indextoname;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::PortError;

/// Returns the index of an interface of the calling thread's network namespace.
///
/// # Errors
/// [`PortError::NoInterface`].
pub fn interface_index(name: &str) -> Result<u32, PortError> {
    nix::net::if_::if_nametoindex(name).map_err(|_| PortError::NoInterface {
        name: name.to_owned(),
    })
}

/// Returns the names of the calling thread's network namespace, by index.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn interfaces() -> Result<BTreeMap<u32, String>, PortError> {
    let list = nix::net::if_::if_nameindex()
        .map_err(|errno| PortError::from_kernel("list the interfaces", errno.into()))?;
    let name = |entry: &nix::net::if_::Interface| entry.name().to_string_lossy().into_owned();
    Ok(list
        .iter()
        .map(|entry| (entry.index(), name(entry)))
        .collect())
}

/// Refuses an interface of the calling thread's network namespace whose frames have no Ethernet
/// header, where the programs would read the IP header 14 bytes too far. An interface that does not
/// exist is left to the kernel to refuse.
pub(crate) fn check_ethernet(ifindex: u32) -> Result<(), PortError> {
    match link_type(ifindex) {
        None | Some((_, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK)) => Ok(()),
        Some((name, link_type)) => Err(PortError::NotEthernet { name, link_type }),
    }
}

/// Returns an interface's name and the type of its link.
fn link_type(ifindex: u32) -> Option<(String, u16)> {
    let name = if_indextoname(ifindex).ok()?;
    let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
    let any = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).ok()?;
    // SAFETY: all zeroes are a valid value of plain integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads and writes an ifreq, which outlives the call.
    let code = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    // SAFETY: after success the kernel has written this member, which consists of plain integers.
    let link_type = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    (code == 0).then(|| (name.to_string_lossy().into_owned(), link_type))
}
