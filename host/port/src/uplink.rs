//! The link through which a port's packets come from the network: the devices below the port's bridge, or that of the
//! default route. Virtual devices do not count: a tap or veth has no rate of its own, whatever it reports.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use uc_words::BitsPerSec;

use crate::error::PortError;
use crate::interfaces::speed;
use crate::netlink::Netlink;

/// A device at the host's edge, with the rate that its driver reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Name of the network device.
    pub name: String,
    /// Present rate of the device's link.
    pub rate: BitsPerSec,
}

/// Returns the slowest link through which the port's packets may come from the network; `None` if
/// no such device reports a rate. Devices are those of the calling thread's network namespace.
///
/// # Errors
/// The kernel's refusal to list devices or routes.
pub fn uplink(port: u32) -> Result<Option<Uplink>, PortError> {
    let failed = |error| PortError::from_kernel("list the devices and routes", error);
    let netlink = Netlink::open().map_err(failed)?;
    let devices = devices(&netlink).map_err(failed)?;
    let mut edges = devices.edges_above(port);
    if edges.is_empty()
        && let Some(device) = default_route(&netlink).map_err(failed)?
    {
        edges = devices.edges_below(device);
    }
    let uplinks = edges.into_iter().filter_map(|edge| {
        Some(Uplink {
            name: devices.0.get(&edge)?.name.clone(),
            rate: speed(edge)?,
        })
    });
    Ok(uplinks.min_by_key(|uplink| uplink.rate))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// A device of hardware, or one that adds the rates of several: a bond, a team.
    Edge,
    /// A device over one other, its `lower`: a VLAN, a macvtap.
    Over,
    /// Every other: a bridge, a tap, a veth.
    #[default]
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Device {
    name: String,
    kind: Kind,
    /// Index of the bridge, bond or switch that the device is a member of.
    controller: Option<u32>,
    lower: Option<u32>,
}

impl From<LinkMessage> for Device {
    fn from(message: LinkMessage) -> Self {
        let mut device = Device::default();
        let mut kind = None;
        let mut elsewhere = false;
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => device.name = name,
                LinkAttribute::Controller(ifindex) => device.controller = Some(ifindex),
                LinkAttribute::Link(ifindex) => device.lower = Some(ifindex),
                LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                LinkAttribute::LinkInfo(infos) => {
                    kind = infos.into_iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        if elsewhere {
            device.lower = None;
        }
        device.kind = match kind {
            None if message.header.link_layer_type == LinkLayerType::Ether => Kind::Edge,
            Some(InfoKind::Bond) => Kind::Edge,
            Some(InfoKind::Other(name)) if name == "team" => Kind::Edge,
            Some(
                InfoKind::Vlan
                | InfoKind::MacVlan
                | InfoKind::MacVtap
                | InfoKind::IpVlan
                | InfoKind::IpVtap,
            ) => Kind::Over,
            _ => Kind::Other,
        };
        device
    }
}

/// The devices of a network namespace by their index.
#[derive(Debug, Default)]
struct Devices(BTreeMap<u32, Device>);

impl Devices {
    /// Returns the edges to which the port's bridge leads, or the device over which the port lies.
    fn edges_above(&self, port: u32) -> Vec<u32> {
        let Some(device) = self.0.get(&port) else {
            return Vec::new();
        };
        let lower = device.lower.filter(|_| device.kind == Kind::Over);
        let mut seen = BTreeSet::from([port]);
        let next = device.controller.into_iter().chain(lower);
        next.flat_map(|next| self.edges(next, &mut seen)).collect()
    }

    /// Returns the edges to which a device leads: itself, or those below it.
    fn edges_below(&self, device: u32) -> Vec<u32> {
        self.edges(device, &mut BTreeSet::new())
    }

    fn edges(&self, at: u32, seen: &mut BTreeSet<u32>) -> Vec<u32> {
        let Some(device) = self.0.get(&at).filter(|_| seen.insert(at)) else {
            return Vec::new();
        };
        match device.kind {
            Kind::Edge => vec![at],
            Kind::Over => {
                let lower = device.lower.into_iter();
                lower.flat_map(|lower| self.edges(lower, seen)).collect()
            }
            Kind::Other => {
                let members = self.0.iter();
                let members = members.filter(|(_, device)| device.controller == Some(at));
                let members: Vec<u32> = members.map(|(&member, _)| member).collect();
                let edges = members.into_iter();
                edges.flat_map(|member| self.edges(member, seen)).collect()
            }
        }
    }
}

fn devices(netlink: &Netlink) -> io::Result<Devices> {
    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let answers = netlink.ask(question, NLM_F_DUMP)?.into_iter();
    let devices = answers.filter_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(link) => Some((link.header.index, Device::from(link))),
        _ => None,
    });
    Ok(Devices(devices.collect()))
}

/// Returns the index of the device of the default route: of IPv4's, or else of IPv6's; `None` without such a route.
fn default_route(netlink: &Netlink) -> io::Result<Option<u32>> {
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        let answers = netlink.ask(RouteNetlinkMessage::GetRoute(question), NLM_F_DUMP)?;
        let routes = answers.iter().filter_map(default_of);
        if let Some((_, device)) = routes.min() {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

/// Returns the metric and device of a default route of the main table; `None` for other answers.
fn default_of(answer: &RouteNetlinkMessage) -> Option<(u32, u32)> {
    let RouteNetlinkMessage::NewRoute(route) = answer else {
        return None;
    };
    let header = &route.header;
    if header.destination_prefix_length != 0 || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let mut metric = 0;
    let mut device = None;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::Oif(ifindex) => device = Some(*ifindex),
            RouteAttribute::MultiPath(hops) => {
                device = hops.first().map(|hop| hop.interface_index);
            }
            _ => {}
        }
    }
    Some((metric, device?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, kind: Kind, controller: u32, lower: u32) -> Device {
        let some = |ifindex| (ifindex != 0).then_some(ifindex);
        Device {
            name: name.to_owned(),
            kind,
            controller: some(controller),
            lower: some(lower),
        }
    }

    /// A host: tap0 and eth0 on a bridge; tap1 beside a VLAN of a bond on another; macvtap3 over
    /// eth3; tap4 alone; a tap and a veth on a bridge without an uplink.
    fn host() -> Devices {
        let devices = [
            (1, device("br0", Kind::Other, 0, 0)),
            (2, device("tap0", Kind::Other, 1, 0)),
            (3, device("eth0", Kind::Edge, 1, 0)),
            (4, device("br1", Kind::Other, 0, 0)),
            (5, device("tap1", Kind::Other, 4, 0)),
            (6, device("bond0.7", Kind::Over, 4, 7)),
            (7, device("bond0", Kind::Edge, 0, 0)),
            (8, device("eth1", Kind::Edge, 7, 0)),
            (9, device("eth2", Kind::Edge, 7, 0)),
            (10, device("macvtap3", Kind::Over, 0, 11)),
            (11, device("eth3", Kind::Edge, 0, 0)),
            (12, device("tap4", Kind::Other, 0, 0)),
            (13, device("virbr0", Kind::Other, 0, 0)),
            (14, device("tap5", Kind::Other, 13, 0)),
            (15, device("veth0", Kind::Other, 13, 16)),
            (16, device("veth1", Kind::Other, 13, 15)),
        ];
        Devices(devices.into_iter().collect())
    }

    #[test]
    fn edges_are_hardware_and_bonds_and_never_the_members_of_a_bond() {
        let host = host();
        for (port, edges) in [
            (2, vec![3]),
            (5, vec![7]),
            (10, vec![11]),
            (12, vec![]),
            (14, vec![]),
            (99, vec![]),
        ] {
            assert_eq!(host.edges_above(port), edges, "{port}");
        }
        assert_eq!(host.edges_below(1), [3]);
        assert_eq!(host.edges_below(6), [7]);
        assert_eq!(host.edges_below(3), [3]);
    }

    #[test]
    fn devices_that_name_each_other_in_a_circle_lead_nowhere() {
        let mut host = host();
        host.0.insert(20, device("a", Kind::Over, 0, 21));
        host.0.insert(21, device("b", Kind::Over, 0, 20));
        assert_eq!(host.edges_above(20), Vec::<u32>::new());
    }

    #[test]
    fn default_routes_are_those_of_the_main_table_with_an_empty_destination() {
        let mut route = RouteMessage::default();
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.attributes = vec![RouteAttribute::Oif(3), RouteAttribute::Priority(100)];
        let answer = RouteNetlinkMessage::NewRoute(route.clone());
        assert_eq!(default_of(&answer), Some((100, 3)));
        let mut other = route.clone();
        other.header.destination_prefix_length = 24;
        assert_eq!(default_of(&RouteNetlinkMessage::NewRoute(other)), None);
        route.header.table = 255; // the local one
        assert_eq!(default_of(&RouteNetlinkMessage::NewRoute(route)), None);
    }

    /// Returns the device parsed from a netlink message with this kind and link-layer type.
    fn read(kind: Option<InfoKind>, layer: LinkLayerType) -> Device {
        let mut message = LinkMessage::default();
        message.header.link_layer_type = layer;
        let infos = kind.map(|kind| LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]));
        message.attributes = vec![LinkAttribute::Link(4), LinkAttribute::Controller(5)];
        message.attributes.extend(infos);
        Device::from(message)
    }

    #[test]
    fn kinds_tell_hardware_from_virtual_devices() {
        let ether = LinkLayerType::Ether;
        for (kind, layer, expected) in [
            (None, ether, Kind::Edge),
            (None, LinkLayerType::Loopback, Kind::Other),
            (Some(InfoKind::Bond), ether, Kind::Edge),
            (Some(InfoKind::Other("team".into())), ether, Kind::Edge),
            (
                Some(InfoKind::Other("openvswitch".into())),
                ether,
                Kind::Other,
            ),
            (Some(InfoKind::Vlan), ether, Kind::Over),
            (Some(InfoKind::MacVtap), ether, Kind::Over),
            (Some(InfoKind::Veth), ether, Kind::Other),
            (Some(InfoKind::Tun), ether, Kind::Other),
            (Some(InfoKind::Bridge), ether, Kind::Other),
        ] {
            let read = read(kind.clone(), layer);
            assert_eq!(read.kind, expected, "{kind:?}");
            assert_eq!((read.lower, read.controller), (Some(4), Some(5)));
        }
    }

    #[test]
    fn the_kernels_own_devices_are_read_and_loopback_leads_nowhere() {
        let devices = devices(&Netlink::open().unwrap()).unwrap();
        let loopback = crate::interface_index("lo").unwrap();
        let read = devices.0.get(&loopback).unwrap();
        assert_eq!((read.name.as_str(), read.kind), ("lo", Kind::Other));
        assert!(devices.edges_above(loopback).is_empty());
        assert!(uplink(loopback).is_ok());
    }
}
