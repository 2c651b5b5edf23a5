//! Flow numbers of frames.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};

use crate::names::{GUEST_PORT_FIRST, SERVER_PORT};
use crate::plan::{Guest, Plan};

/// Flow number of frames that are not IP, and of flows beyond the maximum.
pub const OTHER_FLOWS: u32 = 0;
/// Maximum number of flows with a number of their own. A case has a few hundred; a scan inside a
/// guest must not grow the table forever.
const FLOWS_MAX: usize = 1 << 16;

/// The five fields that name a transport connection in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiveTuple {
    /// IP protocol number: 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// Sender of the packet; port 0 where the protocol has none.
    pub source: SocketAddr,
    /// Receiver of the packet; port 0 where the protocol has none.
    pub destination: SocketAddr,
}

impl FiveTuple {
    /// Returns the TCP flow from `source` to `destination`.
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            protocol: 6,
            source,
            destination,
        }
    }

    /// Returns the same connection in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            destination: self.source,
        }
    }

    /// Parses the flow of an Ethernet frame; `None` if it is not IP. Later fragments and protocols
    /// without ports have port 0.
    pub fn of_frame(bytes: &[u8]) -> Option<Self> {
        let packet = LaxSlicedPacket::from_ethernet(bytes).ok()?;
        let (source, destination, protocol) = match packet.net? {
            LaxNetSlice::Ipv4(ip) => (
                IpAddr::from(ip.header().source_addr()),
                IpAddr::from(ip.header().destination_addr()),
                ip.payload().ip_number.0,
            ),
            LaxNetSlice::Ipv6(ip) => (
                IpAddr::from(ip.header().source_addr()),
                IpAddr::from(ip.header().destination_addr()),
                ip.payload().ip_number.0,
            ),
            _ => return None,
        };
        let (source_port, destination_port) = match packet.transport {
            Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
            Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
            _ => (0, 0),
        };
        Some(Self {
            protocol,
            source: SocketAddr::new(source, source_port),
            destination: SocketAddr::new(destination, destination_port),
        })
    }
}

/// Returns the connections of a plan, in the order of the record: group by group, guest by guest.
pub fn tuples(plan: &Plan) -> Vec<FiveTuple> {
    let of_guest = |guest: &Guest| {
        let parts = guest.parts.iter();
        let servers = parts.flat_map(|part| (0..part.flows).map(|flow| part.server(flow)));
        let ends = (GUEST_PORT_FIRST..).zip(servers).map(|(port, server)| {
            let server = SocketAddr::new(plan.servers[server].address, SERVER_PORT);
            FiveTuple::tcp(SocketAddr::new(guest.address, port), server)
        });
        ends.collect::<Vec<_>>()
    };
    plan.guests.iter().flat_map(of_guest).collect()
}

/// The flows with many connections, by the guests' addresses: the TCP ports of a flow's connections differ by
/// multiples of the guest's number of flows.
#[derive(Debug, Clone, Default)]
pub struct Connections(HashMap<IpAddr, u16>);

impl Connections {
    /// Returns those of a plan.
    pub fn of(plan: &Plan) -> Self {
        let guests = plan.guests.iter();
        let many = guests.filter(|guest| guest.parts.iter().any(|part| part.arrivals.is_some()));
        Self(many.map(|it| (it.address, it.flows as u16)).collect())
    }

    /// Returns the guest's end of its flow's first connection, and the number of this connection; any
    /// other end as it is.
    pub fn of_flow(&self, end: SocketAddr) -> (SocketAddr, usize) {
        let nth = end.port().checked_sub(GUEST_PORT_FIRST);
        let (Some(&flows), Some(nth)) = (self.0.get(&end.ip()), nth) else {
            return (end, 0);
        };
        let first = SocketAddr::new(end.ip(), GUEST_PORT_FIRST + nth % flows);
        (first, usize::from(nth / flows))
    }
}

/// Flow numbers, from 1 in the order in which the flows are first seen.
#[derive(Debug, Default)]
pub struct FlowTable {
    numbers: HashMap<FiveTuple, u32>,
    connections: Connections,
}

impl FlowTable {
    /// Creates a table in which all connections of a flow have one number.
    pub fn new(connections: Connections) -> Self {
        Self {
            numbers: HashMap::new(),
            connections,
        }
    }

    /// Returns the number of the flow: a new one if it has none yet, [`OTHER_FLOWS`] if the table is full.
    pub fn number(&mut self, tuple: FiveTuple) -> u32 {
        let next = self.numbers.len() + 1;
        if next >= FLOWS_MAX {
            return self.numbers.get(&tuple).copied().unwrap_or(OTHER_FLOWS);
        }
        *self.numbers.entry(tuple).or_insert(next as u32)
    }

    /// Returns the flow number of an Ethernet frame; [`OTHER_FLOWS`] if it is not IP, or if the table is full.
    pub fn number_of_frame(&mut self, bytes: &[u8]) -> u32 {
        let Some(mut tuple) = FiveTuple::of_frame(bytes) else {
            return OTHER_FLOWS;
        };
        if !self.connections.0.is_empty() {
            tuple.source = self.connections.of_flow(tuple.source).0;
            tuple.destination = self.connections.of_flow(tuple.destination).0;
        }
        self.number(tuple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn tcp(source_port: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
            .tcp(source_port, 80, 1, 1000)
            .write(&mut bytes, b"x")
            .unwrap();
        bytes
    }

    #[test]
    fn a_flow_is_identified_by_its_five_fields() {
        let tuple = FiveTuple::of_frame(&tcp(5001)).unwrap();
        let (source, destination) = ("10.77.0.1:5001", "10.77.0.2:80");
        let expected = FiveTuple::tcp(source.parse().unwrap(), destination.parse().unwrap());
        assert_eq!(tuple, expected);
        assert_eq!(tuple.reversed().source, expected.destination);
        assert_eq!(tuple.reversed().reversed(), tuple);
    }

    #[test]
    fn ipv6_and_udp_frames_are_parsed() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(7, 9)
            .write(&mut bytes, b"abc")
            .unwrap();
        let tuple = FiveTuple::of_frame(&bytes).unwrap();
        assert_eq!(
            (
                tuple.protocol,
                tuple.source.port(),
                tuple.destination.port()
            ),
            (17, 7, 9)
        );
        assert!(tuple.source.is_ipv6());
    }

    #[test]
    fn truncated_frames_have_no_flow_or_one_without_ports() {
        let whole = tcp(5001);
        for length in 0..whole.len() {
            if let Some(tuple) = FiveTuple::of_frame(&whole[..length]) {
                assert_eq!(tuple.source.ip().to_string(), "10.77.0.1", "{length} bytes");
            }
        }
        let mut arp = whole;
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(FlowTable::default().number_of_frame(&arp), OTHER_FLOWS);
    }

    #[test]
    fn numbers_are_stable_and_the_table_is_bounded() {
        let mut table = FlowTable::default();
        let first = table.number_of_frame(&tcp(1));
        assert_eq!((first, table.number_of_frame(&tcp(2))), (1, 2));
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        for port in 0..u32::from(u16::MAX) + 10 {
            let source = SocketAddr::new(address, port as u16);
            table.number(FiveTuple {
                protocol: (port >> 16) as u8,
                source,
                destination: source,
            });
        }
        assert_eq!(table.number_of_frame(&tcp(1)), first);
        assert_eq!(table.number_of_frame(&tcp(3)), OTHER_FLOWS);
    }
}
