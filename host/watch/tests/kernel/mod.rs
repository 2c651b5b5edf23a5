//! Common parts of the tests of the watch programs: the programs in the kernel, and probes built
//! independently of the programs' own code.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

pub mod siphash;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::time::{ClockId, clock_gettime};
use uc_port::{AttachVia, Direction, PacketContext, PacketRun, run_packet};
use uc_watch::{Event, ProbeKey, ProbeKeys, Programs, Settings, Watched};

/// Index of the loopback interface in the test's own network namespace.
pub const IFINDEX: u32 = 1;
/// Verdicts of linux/pkt_cls.h.
pub const NEXT: i32 = -1;
pub const SHOT: i32 = 2;
pub const REDIRECT: i32 = 7;
/// The key of the programs.
pub const KEY: [u8; 16] = *b"sixteen bytes ok";
/// The second key whose probes they accept.
pub const ALSO: [u8; 16] = *b"the next key: 16";
pub const ECT0: u8 = 2;
pub const CE: u8 = 3;

/// Loads the programs and watches a port; `None` if this machine can't.
pub fn watched(settings: &Settings) -> Option<(Programs, Watched)> {
    // Programs on the shared loopback interface would see other tests' packets, hence the
    // namespace.
    let keys = ProbeKeys {
        own: ProbeKey::from_bytes(KEY),
        also: Some(ProbeKey::from_bytes(ALSO)),
    };
    let loaded = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .map_err(|errno| errno.to_string())
        .and_then(|()| Programs::load(keys).map_err(|error| error.to_string()))
        .and_then(|programs| {
            let watched = programs.watch(IFINDEX, settings, AttachVia::Auto);
            watched
                .map(|watched| (programs, watched))
                .map_err(|error| error.to_string())
        });
    let (programs, watched) = uc_live::or_skip(loaded)?;
    programs.add_peer("10.77.0.0/24".parse().unwrap()).unwrap();
    programs.add_peer("fd77::/64".parse().unwrap()).unwrap();
    Some((programs, watched))
}

/// Runs one frame through one of the programs.
pub fn run(programs: &Programs, direction: Direction, frame: &[u8]) -> PacketRun {
    let context = PacketContext {
        ifindex: IFINDEX,
        gso_segs: 0,
        gso_size: 0,
        repeat: 1,
    };
    run_packet(programs.program(direction), frame, context, 0).unwrap()
}

/// Returns the events counted since `before`, without zeros.
pub fn since(programs: &Programs, before: &uc_watch::Events) -> Vec<(Event, u64)> {
    let now = programs.events().unwrap();
    now.iter()
        .map(|(event, count)| (event, count - before.get(event)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Returns the programs' map of this name that contains this key, which no other test uses.
pub fn map_with(name: &str, key: &[u8]) -> MapHandle {
    MapInfoIter::default()
        .filter(|map| map.name == name)
        .filter_map(|map| MapHandle::from_map_id(map.id).ok())
        .find(|map| {
            map.lookup(key, MapFlags::ANY)
                .is_ok_and(|value| value.is_some())
        })
        .unwrap_or_else(|| panic!("no map {name} has the key"))
}

/// Copies an entry of a map as `count` entries of another port: its key with another interface and the number where
/// `at` says. Returns that port's keys.
pub fn crowd(map: &MapHandle, key: &[u8], ifindex: u32, at: usize, count: u32) -> Vec<Vec<u8>> {
    let value = map.lookup(key, MapFlags::ANY).unwrap().unwrap();
    let keys = (0..count).map(|number| {
        let mut other = [&ifindex.to_ne_bytes(), &key[4..]].concat();
        other[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        map.update(&other, &value, MapFlags::ANY).unwrap();
        other
    });
    keys.collect()
}

/// Returns the current time slot, as both ends' wall clocks give it.
pub fn slot() -> u32 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let now_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    (now_ns >> 30) as u32
}

/// A probe, as `bpf/watch/probe.h` describes it.
#[derive(Clone, Debug)]
pub struct Probe {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub index: u8,
    pub count: u8,
    pub connection: u32,
    pub slot: u32,
    /// When it left, in units of 1,024 ns.
    pub left: u16,
    pub ecn: u8,
    pub key: [u8; 16],
    /// Bytes after the IP header.
    pub bytes: u16,
}

impl Probe {
    /// Creates the first of ten probes, correct in every field.
    pub fn new(ipv6: bool) -> Self {
        let (source, destination) = if ipv6 {
            ("[fd77::1]:40000", "[fd77::2]:80")
        } else {
            ("10.77.0.1:40000", "10.77.0.2:80")
        };
        Self {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            index: 0,
            count: 10,
            connection: 0x01020304,
            slot: slot(),
            left: 0,
            ecn: ECT0,
            key: KEY,
            bytes: 26,
        }
    }

    pub fn payload(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.source.port().to_be_bytes());
        bytes.extend(self.destination.port().to_be_bytes());
        bytes.extend(b"uc");
        bytes.extend([1, self.index]);
        bytes.extend(self.connection.to_be_bytes());
        bytes.extend([self.count, 0]);
        bytes.extend((self.slot as u16).to_be_bytes());
        let mut signed = Vec::new();
        for address in [self.source.ip(), self.destination.ip()] {
            signed.extend(mapped(address).octets());
        }
        signed.extend(&bytes);
        signed.extend(self.slot.to_le_bytes());
        signed.extend(self.left.to_be_bytes());
        signed.extend([0; 2]);
        bytes.extend(siphash::siphash_2_4(&self.key, &signed).to_le_bytes());
        bytes.extend(self.left.to_be_bytes());
        bytes.resize(usize::from(self.bytes), 0);
        bytes
    }

    pub fn frame(&self) -> Vec<u8> {
        let payload = self.payload();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([8, 0, 0x45, self.ecn]);
                frame.extend((20 + self.bytes).to_be_bytes());
                frame.extend([0, 0, 0x40, 0, 64, 253, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (source, destination) => {
                frame.extend([0x86, 0xdd, 0x60, self.ecn << 4, 0, 0]);
                frame.extend(self.bytes.to_be_bytes());
                frame.extend([253, 64]);
                frame.extend(mapped(source).octets());
                frame.extend(mapped(destination).octets());
            }
        }
        frame.extend(payload);
        frame
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
