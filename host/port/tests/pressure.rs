//! Floods of SYNs and of abandoned connections: other ports' new connections are translated, and no
//! established flow loses its state; a new flow finds the free places. And CPUs that enter and remove
//! flows at once.

mod kernel;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Instant;

use kernel::frame::{ETHERNET, PLAIN, frame};
use kernel::host::{Host, ip};
use kernel::{IFINDEX, policy};
use nix::net::if_::if_nametoindex;
use uc_core::{Flow, Segment, consts};
use uc_port::{Direction, PacketContext, PortView, Programs};

/// Capacity of the flow table: that of an agent without settings.
const FLOWS_MAX: u32 = 65_536;

/// SYNs from strangers to one guest, SYNs of another guest, and connections that a third abandons:
/// so many of each. `UC_FLOOD` is another number.
const FLOOD: u32 = 200_000;

/// Packets of each flood during an honest handshake: one of 100 ms, with a million SYNs a minute.
const FLOOD_PER_HANDSHAKE: u32 = 1_667;

/// Established flows of each honest port before the floods.
const ESTABLISHED: u16 = 50;

const GUEST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// The kinds of segments that the test passes.
#[derive(Clone, Copy)]
enum Kind {
    GuestSyn,
    GuestAnswer,
    GuestAck,
    PeerSyn,
    PeerAnswer,
    PeerAck,
    /// The guest opens another connection on the same ports, which the peer answers without ECN: the
    /// flow is removed.
    GuestSynAnew,
    PeerRefusal,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::GuestSyn,
        Kind::GuestAnswer,
        Kind::GuestAck,
        Kind::PeerSyn,
        Kind::PeerAnswer,
        Kind::PeerAck,
        Kind::GuestSynAnew,
        Kind::PeerRefusal,
    ];

    fn direction(self) -> Direction {
        match self {
            Kind::GuestSyn | Kind::GuestAnswer | Kind::GuestAck | Kind::GuestSynAnew => {
                Direction::FromGuest
            }
            Kind::PeerSyn | Kind::PeerAnswer | Kind::PeerAck | Kind::PeerRefusal => {
                Direction::ToGuest
            }
        }
    }

    fn flags(self) -> u32 {
        match self {
            Kind::GuestSyn | Kind::GuestSynAnew => consts::SYN,
            Kind::GuestAnswer | Kind::PeerRefusal => consts::SYN | consts::ACK,
            Kind::GuestAck | Kind::PeerAck => consts::ACK,
            Kind::PeerSyn => consts::SYN | consts::ECE | consts::CWR,
            Kind::PeerAnswer => consts::SYN | consts::ACK | consts::ECE,
        }
    }

    fn segment(self) -> Segment {
        let from_guest = self.direction() == Direction::FromGuest;
        let is_syn = self.flags() & consts::SYN != 0;
        let guest = match self {
            Kind::GuestSynAnew | Kind::PeerRefusal => 50_000,
            _ => 1_000,
        };
        let own = if from_guest { guest } else { 9_000 };
        Segment {
            seq: own + u32::from(!is_syn),
            ack: if from_guest { 9_001 } else { guest + 1 },
            window: 65_535,
            mss_bytes: 1_460,
            options: if is_syn { consts::OPT_MSS as u8 } else { 0 },
            flags: self.flags() as u8,
            direction: if from_guest {
                consts::FROM_GUEST
            } else {
                consts::TO_GUEST
            } as u8,
            ..Segment::default()
        }
    }
}

/// The programs, and a frame of each kind, whose remote end is written over: the programs change
/// checksums by differences and do not check them.
#[derive(Clone)]
struct Floor {
    programs: Arc<Programs>,
    frames: Vec<Vec<u8>>,
}

/// A connection by number; each has another remote address and port.
fn remote(number: u32) -> SocketAddrV4 {
    let address = u32::from(PEER) + (number >> 15);
    SocketAddrV4::new(address.into(), 1_024 + (number & 0x7fff) as u16)
}

impl Floor {
    fn new(flows_max: u32) -> Floor {
        let end = |address: Ipv4Addr| SocketAddr::new(address.into(), 80);
        let made = |kind: Kind| frame(&kind.segment(), end(GUEST), end(PEER), &PLAIN);
        Floor {
            programs: Arc::new(Programs::load(flows_max).unwrap()),
            frames: Kind::ALL.map(made).to_vec(),
        }
    }

    fn pass(&mut self, ifindex: u32, number: u32, kind: Kind) {
        let bytes = &mut self.frames[kind as usize];
        let (address, port) = match kind.direction() {
            Direction::FromGuest => (ETHERNET + 16, ETHERNET + 22),
            Direction::ToGuest => (ETHERNET + 12, ETHERNET + 20),
        };
        let remote = remote(number);
        bytes[address..address + 4].copy_from_slice(&remote.ip().octets());
        bytes[port..port + 2].copy_from_slice(&remote.port().to_be_bytes());
        let context = PacketContext {
            ifindex,
            ..kernel::context()
        };
        self.programs
            .test_run(kind.direction(), bytes, context)
            .unwrap();
    }

    fn flow(&self, ifindex: u32, number: u32) -> Option<Flow> {
        let guest = SocketAddr::new(GUEST.into(), 80);
        let found = self.programs.flow(ifindex, guest, remote(number).into());
        found.unwrap().map(|view| view.state)
    }

    fn is_established(&self, ifindex: u32, number: u32) -> bool {
        let flow = self.flow(ifindex, number);
        flow.is_some_and(|flow| !uc_core::is_half_open(&flow))
    }

    fn port(&self, ifindex: u32) -> PortView {
        let ports = self.programs.ports().unwrap().into_iter();
        let mut own = ports.filter(|port| port.ifindex == ifindex);
        own.next().expect("a port with a plan")
    }
}

/// Creates ports with these names on the host, each with a plan. Returns their interfaces' indices.
fn planned<const N: usize>(floor: &Floor, names: [&str; N]) -> [u32; N] {
    names.map(|name| {
        ip(&format!("link add {name} type veth"));
        let ifindex = if_nametoindex(name).unwrap();
        floor.programs.set_plan(ifindex, &policy().into()).unwrap();
        ifindex
    })
}

#[test]
fn live_new_flow_finds_a_free_place_behind_any_number_of_others() {
    let Some(_host) = Host::new() else { return };
    let places = 64;
    let mut floor = Floor::new(places);
    let [leaver, client] = planned(&floor, ["leaver", "client"]);
    for number in 0..places {
        floor.pass(leaver, number, Kind::GuestSyn);
        floor.pass(leaver, number, Kind::PeerAnswer);
    }
    // Its quota: as many as there are free places.
    assert_eq!(floor.port(leaver).flows, places / 2);
    // Round and round past the leaver's places, which are side by side.
    for number in 0..4 * places {
        floor.pass(client, number, Kind::GuestSyn);
        floor.pass(client, number, Kind::PeerAnswer);
        assert!(floor.is_established(client, number), "flow {number}");
        floor.pass(client, number, Kind::GuestSynAnew);
        floor.pass(client, number, Kind::PeerRefusal);
        assert!(floor.flow(client, number).is_none(), "flow {number}");
    }
    assert_eq!(floor.port(leaver).flows, places / 2, "none had to go");
}

#[test]
fn live_under_floods_other_ports_connections_are_translated_and_no_established_flow_is_lost() {
    let Some(_host) = Host::new() else { return };
    let mut floor = Floor::new(FLOWS_MAX);
    let ports = ["stranger", "flooder", "leaver", "client", "server"];
    let [victim, flooder, leaver, client, server] = planned(&floor, ports);
    let flood = std::env::var("UC_FLOOD").map_or(FLOOD, |number| number.parse().unwrap());
    // of a client's guest, and of a server's
    let handshake = |floor: &mut Floor, number, first: bool| {
        let opening = [
            (client, Kind::GuestSyn),
            (server, Kind::PeerSyn),
            (server, Kind::GuestAnswer),
        ];
        let closing = [
            (client, Kind::PeerAnswer),
            (client, Kind::GuestAck),
            (server, Kind::PeerAck),
        ];
        let kinds = if first { opening } else { closing };
        for (port, kind) in kinds {
            floor.pass(port, number, kind);
        }
    };
    let honest = |number: u32| 1 << 30 | number;
    for number in 0..ESTABLISHED.into() {
        handshake(&mut floor, honest(number), true);
        handshake(&mut floor, honest(number), false);
    }
    let before: Vec<_> = (0..ESTABLISHED.into())
        .map(|number| [client, server].map(|port| floor.flow(port, honest(number)).unwrap()))
        .collect();

    let (mut translated, mut own, mut rounds) = (0, 0, 0);
    let began = Instant::now();
    for start in (0..flood).step_by(FLOOD_PER_HANDSHAKE as usize) {
        let number = honest(u32::from(ESTABLISHED) + rounds);
        handshake(&mut floor, number, true);
        floor.pass(victim, number, Kind::PeerSyn);
        floor.pass(victim, number, Kind::GuestAnswer);
        for number in start..start + FLOOD_PER_HANDSHAKE {
            floor.pass(victim, number, Kind::PeerSyn);
            // the guest's answers to strangers, as with SYN cookies
            floor.pass(victim, number, Kind::GuestAnswer);
            floor.pass(flooder, number, Kind::GuestSyn);
            floor.pass(leaver, number, Kind::GuestSyn);
            floor.pass(leaver, number, Kind::PeerAnswer);
        }
        handshake(&mut floor, number, false);
        floor.pass(victim, number, Kind::PeerAck);
        translated += u32::from(floor.is_established(client, number));
        translated += u32::from(floor.is_established(server, number));
        own += u32::from(floor.is_established(victim, number));
        rounds += 1;
    }
    let packets = u64::from(rounds) * u64::from(FLOOD_PER_HANDSHAKE) * 5;
    println!(
        "{translated} of {} connections of others translated, {own} of {rounds} of the flooded \
         guest's own; {packets} packets in {:?}",
        2 * rounds,
        began.elapsed()
    );
    println!("{} bytes of maps", floor.programs.memory_bytes().unwrap());
    for port in [victim, flooder, leaver, client, server] {
        let view = floor.port(port);
        println!(
            "port {port}: {} flows, {} half-open, {} displaced",
            view.flows, view.half_open, view.displaced
        );
    }
    let all = 2 * rounds;
    assert!(translated * 100 >= all * 99, "{translated} of {all}");
    for (number, was) in before.iter().enumerate() {
        let is = [client, server].map(|port| floor.flow(port, honest(number as u32)).unwrap());
        assert_eq!(&is, was, "flow {number}");
    }
    // abandoned connections and half-open flows leave room
    let flows: u32 = [victim, flooder, leaver, client, server]
        .map(|port| floor.port(port).flows)
        .iter()
        .sum();
    let entered = floor.programs.flows().unwrap().len();
    assert_eq!(flows as usize, entered, "flows are counted as they are");
    assert!(flows < FLOWS_MAX / 10 * 8, "{flows} flows");
}

#[test]
fn live_flows_are_counted_as_they_are_when_cpus_enter_and_remove_them_at_once() {
    if kernel::programs(1).is_none() {
        return;
    }
    let floor = Floor::new(64);
    floor.programs.set_plan(IFINDEX, &policy().into()).unwrap();
    let threads = (1..=4u64).map(|seed| {
        let mut floor = floor.clone();
        std::thread::spawn(move || {
            let mut random = seed;
            for _ in 0..40_000 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let number = (random >> 33) as u32 % 200;
                let kind = Kind::ALL[(random >> 61) as usize];
                floor.pass(IFINDEX, number, kind);
                if random >> 33 & 0xfff == 0 {
                    floor.programs.collect_idle().unwrap();
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    let flows = floor.programs.flows().unwrap();
    let half_open = flows
        .iter()
        .filter(|flow| uc_core::is_half_open(&flow.state));
    let counted = floor.port(IFINDEX);
    println!("{counted:?}");
    assert_eq!(counted.flows as usize, flows.len());
    assert_eq!(counted.half_open as usize, half_open.count());
    assert!(
        counted.displaced > 1_000 && flows.len() <= 56,
        "{counted:?}"
    );
}
