//! Names and indices of interfaces.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use nix::net::if_::if_indextoname;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use uc_words::BitsPerSec;

use crate::error::PortError;

/// Returns the index of an interface of the calling thread's network namespace.
///
/// # Errors
/// No interface has the name.
pub fn interface_index(name: &str) -> Result<u32, PortError> {
    nix::net::if_::if_nametoindex(name).map_err(|_| {
        PortError::Other(format!(
            "no interface '{name}' here; `ip link` lists those of this network namespace"
        ))
    })
}

/// Returns the name of an interface of the calling thread's network namespace, or its index if it is
/// gone.
pub(crate) fn interface_name(ifindex: u32) -> String {
    if_indextoname(ifindex).map_or_else(
        |_| ifindex.to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Returns the names of all interfaces of the calling thread's network namespace, by interface index.
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
        Some((name, link_type)) => Err(PortError::Other(format!(
            "port {name}: its frames have no Ethernet header (link type {link_type}), so the \
             programs would misread them; attach to a tap or veth"
        ))),
    }
}

/// Returns an interface's name and the type of its link (`ARPHRD_…`); `None` if the interface does not exist.
fn link_type(ifindex: u32) -> Option<(String, u16)> {
    let (mut request, name) = request(ifindex)?;
    // SAFETY: the kernel reads and writes an ifreq, which outlives the call.
    unsafe { ask(libc::SIOCGIFHWADDR, &mut request) }?;
    // SAFETY: after success the kernel has written this member, which consists of plain integers.
    let link_type = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Some((name, link_type))
}

/// Returns an empty request about an interface, and the interface's name; `None` if the interface does not exist.
fn request(ifindex: u32) -> Option<(libc::ifreq, String)> {
    let name = if_indextoname(ifindex).ok()?;
    // SAFETY: all zeroes are a valid value of plain integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = from as libc::c_char;
    }
    Some((request, name.to_string_lossy().into_owned()))
}

/// Sends a request about an interface to the kernel; `None` if it is refused.
///
/// # Safety
/// What the request points to, if this call reads or writes it, must be valid for that.
unsafe fn ask(call: libc::c_ulong, request: &mut libc::ifreq) -> Option<()> {
    let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
    let any = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).ok()?;
    // SAFETY: the kernel reads and writes an ifreq, which outlives the call; the caller vouches for
    // what it points to.
    let code = unsafe { libc::ioctl(any.as_raw_fd(), call as _, &raw mut *request) };
    (code == 0).then_some(())
}

/// Request and answer of the call by which a driver reports its link (linux/ethtool.h): the older call, without lists
/// of link modes, which reports the rate, too.
#[repr(C)]
#[derive(Default)]
struct EthtoolCmd {
    cmd: u32,
    modes: [u32; 2],
    speed: u16,
    duplex_to_mdio: [u8; 6],
    maxpkt: [u32; 2],
    speed_hi: u16,
    mdix: [u8; 2],
    lp_modes: [u32; 3],
}

const ETHTOOL_GSET: u32 = 1;

/// Returns the rate of an interface's link as its driver reports it; `None` if it reports none, as
/// without a carrier.
pub(crate) fn speed(ifindex: u32) -> Option<BitsPerSec> {
    let mut link = EthtoolCmd {
        cmd: ETHTOOL_GSET,
        ..EthtoolCmd::default()
    };
    let (mut request, _) = request(ifindex)?;
    request.ifr_ifru.ifru_data = (&raw mut link).cast();
    // SAFETY: the kernel writes one struct ethtool_cmd, which outlives the call.
    unsafe { ask(libc::SIOCETHTOOL, &mut request) }?;
    let mbits = u32::from(link.speed_hi) << 16 | u32::from(link.speed);
    // Unknown is -1, of 32 bits or, with some drivers, of 16.
    let known = ![0, u32::MAX, u32::from(u16::MAX)].contains(&mbits);
    known.then(|| BitsPerSec(u64::from(mbits) * 1_000_000))
}

/// Request and answer of the call by which a driver names itself (linux/ethtool.h).
#[repr(C)]
struct EthtoolDrvinfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const ETHTOOL_GDRVINFO: u32 = 3;

/// Returns whether an interface of the calling thread's network namespace is a bridge. Packets that a
/// bridge forwards do not pass its own hooks.
pub fn is_bridge(ifindex: u32) -> bool {
    let mut info = EthtoolDrvinfo {
        cmd: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    let Some((mut request, _)) = request(ifindex) else {
        return false;
    };
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: the kernel writes one struct ethtool_drvinfo, which outlives the call.
    let answered = unsafe { ask(libc::SIOCETHTOOL, &mut request) }.is_some();
    answered && info.driver.starts_with(b"bridge\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_size_of_the_kernels_struct() {
        assert_eq!(size_of::<EthtoolDrvinfo>(), 196);
        assert_eq!(size_of::<EthtoolCmd>(), 44);
        assert_eq!(std::mem::offset_of!(EthtoolCmd, speed_hi), 28);
    }

    #[test]
    fn loopback_and_no_interface_report_no_rate() {
        let loopback = interface_index("lo").unwrap();
        assert_eq!(speed(loopback), None);
        assert_eq!(speed(u32::MAX), None);
    }
}
