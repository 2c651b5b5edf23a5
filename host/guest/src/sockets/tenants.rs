//! The network namespaces behind ports. For a veth the kernel has only a number that identifies the namespace of the
//! other end. The namespace itself is found among those that have a process or a name, by comparing each one's number.
//! The number is read from the opened file, so a process that ends meanwhile, or another one that gets its PID, causes
//! no mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use netlink_packet_core::NLM_F_ACK;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use nix::sched::{CloneFlags, setns};
use uc_port::Netlink;

use crate::sockets::error::{Absent, SocketError};
use crate::sockets::socket::{self, KernelSocket};

/// Folder of the namespaces that `ip netns` names.
const NAMED: &str = "/run/netns";
/// Kinds of interfaces that come in pairs, whose two ends may be in different network namespaces.
const PAIRS: [&str; 2] = ["veth", "netkit"];

/// The guests behind ports, keyed by the port's interface index, if they share this kernel.
#[derive(Debug)]
pub struct Tenants(BTreeMap<u32, Result<Arc<Netlink>, Absent>>);

/// Location of a port's peer interface.
#[derive(Debug, PartialEq, Eq)]
enum Peer {
    /// The port's peer is in the port's own network namespace.
    Here,
    /// The port's peer is in the network namespace that has this number (link-netnsid) in the port's namespace.
    There(i32),
    Absent(Absent),
}

impl Tenants {
    /// Finds the network namespaces behind the ports with these interface indices, in one pass through the processes
    /// and names of the host. The ports are in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal. A port whose guest has no readable sockets is no error; see [`Tenants::absent`].
    pub fn find(ports: &BTreeSet<u32>) -> Result<Tenants, SocketError> {
        let failed = |error| SocketError::from_kernel("ask for the peers of ports", error);
        let route = Netlink::open().map_err(failed)?;
        let peers: BTreeMap<u32, Peer> = ports
            .iter()
            .map(|&port| Ok((port, peer(&route, port)?)))
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        let wanted = peers.values().filter_map(|peer| match peer {
            Peer::There(number) => Some(*number),
            _ => None,
        });
        let found = open_all(&route, wanted.collect())?;
        let mut here = None;
        let tenants = peers.into_iter().map(|(port, peer)| {
            let sockets = match peer {
                Peer::Absent(absent) => Err(absent),
                Peer::There(number) => {
                    let found = found.get(&number).cloned();
                    found.ok_or(Absent::Hidden { number })
                }
                Peer::Here => {
                    if here.is_none() {
                        here = Some(Arc::new(socket::open()?));
                    }
                    here.clone().ok_or(Absent::Gone)
                }
            };
            Ok((port, sockets))
        });
        Ok(Tenants(tenants.collect::<Result<_, SocketError>>()?))
    }

    /// Returns the ports whose guests' sockets can't be read, each with the reason.
    pub fn absent(&self) -> impl Iterator<Item = (u32, &Absent)> {
        let ports = self.0.iter();
        ports.filter_map(|(port, sockets)| Some((*port, sockets.as_ref().err()?)))
    }

    /// Returns the state of the guest's socket for a connection at this port. `None`: the guest's sockets can't be
    /// read, or the guest has no such connection, because it is over or the guest itself translates addresses.
    pub fn socket(
        &self,
        port: u32,
        guest: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<KernelSocket>, SocketError> {
        match self.0.get(&port) {
            Some(Ok(diag)) => socket::read(diag, guest, remote),
            _ => Ok(None),
        }
    }
}

fn peer(route: &Netlink, port: u32) -> io::Result<Peer> {
    let mut question = LinkMessage::default();
    question.header.index = port;
    let answers = match route.ask(RouteNetlinkMessage::GetLink(question), NLM_F_ACK) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            return Ok(Peer::Absent(Absent::Gone));
        }
        answers => answers?,
    };
    let link = answers.into_iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    });
    Ok(link.map_or(Peer::Absent(Absent::Gone), |link| peer_of(&link)))
}

fn peer_of(link: &LinkMessage) -> Peer {
    let (mut kind, mut number) = (None, None);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::LinkNetNsId(id) => number = Some(*id),
            LinkAttribute::LinkInfo(infos) => kind = infos.iter().find_map(kind_of),
            _ => {}
        }
    }
    let kind = kind.unwrap_or_else(|| "device of hardware".to_owned());
    match number {
        _ if !PAIRS.contains(&kind.as_str()) => Peer::Absent(Absent::OtherKernel { kind }),
        Some(number) => Peer::There(number),
        None => Peer::Here,
    }
}

fn kind_of(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(InfoKind::Tun) => Some("tap".to_owned()),
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

/// Opens a netlink socket for requests in each namespace that has one of these numbers and can be found.
fn open_all(
    route: &Netlink,
    mut wanted: BTreeSet<i32>,
) -> Result<BTreeMap<i32, Arc<Netlink>>, SocketError> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut paths = if wanted.is_empty() {
        Vec::new()
    } else {
        namespaces()
    }
    .into_iter();
    while let Some(path) = paths.next().filter(|_| !wanted.is_empty()) {
        // Its process or name may be gone by now, or be another user's.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let Ok(identity) = file.metadata().map(|meta| (meta.dev(), meta.ino())) else {
            continue;
        };
        if !seen.insert(identity) {
            continue;
        }
        let Some(number) = number_of(route, &file).filter(|number| wanted.remove(number)) else {
            continue;
        };
        found.insert(number, Arc::new(open_diag_in(file)?));
    }
    Ok(found)
}

/// Returns the files of all network namespaces that have a name or a process visible here.
fn namespaces() -> Vec<PathBuf> {
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries(NAMED).map(|entry| entry.path());
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = entries("/proc")
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
        .map(|entry| entry.path().join("ns/net"));
    named.chain(processes).collect()
}

/// Returns the number by which the network namespace of `route` knows another; `None` if it has no number for it.
fn number_of(route: &Netlink, namespace: &File) -> Option<i32> {
    let mut question = NsidMessage::default();
    let fd = u32::try_from(namespace.as_raw_fd()).ok()?;
    question.attributes.push(NsidAttribute::Fd(fd));
    // A file in /run/netns that is no namespace is refused.
    let answers = route
        .ask(RouteNetlinkMessage::GetNsId(question), NLM_F_ACK)
        .ok()?;
    let numbers = answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewNsId(message) => Some(&message.attributes),
        _ => None,
    });
    numbers?.iter().find_map(|attribute| match attribute {
        NsidAttribute::Id(number) => Some(*number).filter(|number| *number >= 0),
        _ => None,
    })
}

/// Opens a netlink socket for requests about the sockets of another network namespace. Only a temporary thread enters
/// that namespace.
fn open_diag_in(namespace: File) -> Result<Netlink, SocketError> {
    let inside = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| {
            SocketError::from_kernel("enter a guest's network namespace", errno.into())
        })?;
        socket::open()
    };
    let opened = std::thread::scope(|scope| scope.spawn(inside).join());
    opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(kind: InfoKind, number: Option<i32>) -> LinkMessage {
        let mut link = LinkMessage::default();
        let info = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]);
        link.attributes.push(info);
        link.attributes
            .extend(number.map(LinkAttribute::LinkNetNsId));
        link
    }

    #[test]
    fn peer_of_a_veth_is_a_namespace_and_a_tap_has_none() {
        assert_eq!(peer_of(&link(InfoKind::Veth, Some(3))), Peer::There(3));
        assert_eq!(peer_of(&link(InfoKind::Veth, None)), Peer::Here);
        // The number of a macvlan is that of the interface below it.
        for kind in [InfoKind::Tun, InfoKind::MacVlan] {
            let peer = peer_of(&link(kind, Some(3)));
            assert!(
                matches!(peer, Peer::Absent(Absent::OtherKernel { .. })),
                "{peer:?}"
            );
        }
        let tap = peer_of(&link(InfoKind::Tun, None));
        let Peer::Absent(absent) = tap else {
            panic!("{tap:?}")
        };
        assert!(absent.to_string().contains("is a tap"), "{absent}");
    }
}
