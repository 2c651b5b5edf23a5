//! Rules as a person reads them, and flows that lie about their edges.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use uc_core::rule::{Match, Prefix};

/// An address and how many of its bits count; `None`: any address.
pub type NaivePrefix = Option<(IpAddr, u8)>;

#[derive(Clone, Debug)]
pub struct NaiveRule {
    pub local: NaivePrefix,
    pub remote: NaivePrefix,
    pub local_ports: (u16, u16),
    pub remote_ports: (u16, u16),
    /// The DSCPs that match; `None`: all.
    pub dscps: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub struct NaiveFlow {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub dscp: u8,
}

/// The first so many of 32 bits.
pub fn mask32(bits: u8) -> u32 {
    (0..32)
        .filter(|bit| bit < &bits)
        .map(|bit| 1u32 << (31 - bit))
        .sum()
}

/// Bit by bit.
fn has_bits_of(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let bit_of = |octets: &[u8], at: u8| octets[usize::from(at / 8)] >> (7 - at % 8) & 1;
    let same = |a: &[u8], b: &[u8]| (0..bits).all(|at| bit_of(a, at) == bit_of(b, at));
    match (address, prefix) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(&a.octets(), &b.octets()),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(&a.octets(), &b.octets()),
        _ => false,
    }
}

impl NaiveRule {
    pub fn holds(&self, flow: &NaiveFlow) -> bool {
        let lies_in = |address: IpAddr, prefix: NaivePrefix| {
            prefix.is_none_or(|(prefix, bits)| has_bits_of(address, prefix, bits))
        };
        let is_one_of = |port: u16, (first, last): (u16, u16)| (first..=last).contains(&port);
        lies_in(flow.local.ip(), self.local)
            && lies_in(flow.remote.ip(), self.remote)
            && is_one_of(flow.local.port(), self.local_ports)
            && is_one_of(flow.remote.port(), self.remote_ports)
            && self
                .dscps
                .as_ref()
                .is_none_or(|dscps| dscps.contains(&flow.dscp))
    }

    pub fn compile(&self) -> Match {
        let prefix = |prefix: NaivePrefix| match prefix {
            None => Prefix::ANY,
            Some((address, bits)) => match Prefix::new(address, bits) {
                Ok(prefix) => prefix,
                Err(uc_core::rule::PrefixError::HostBits { meant }) => meant,
                Err(error) => panic!("{address}/{bits}: {error}"),
            },
        };
        Match {
            local: prefix(self.local),
            remote: prefix(self.remote),
            local_ports: self.local_ports,
            remote_ports: self.remote_ports,
            dscps: match &self.dscps {
                None => u64::MAX,
                Some(dscps) => dscps.iter().fold(0, |bits, dscp| bits | 1 << dscp),
            },
        }
    }
}

/// Few networks, so that rules and flows meet.
fn addresses(ipv6: bool) -> impl Strategy<Value = IpAddr> {
    (0u8..3, any::<[u8; 2]>()).prop_map(move |(network, [high, low])| {
        if ipv6 {
            let first = 0xfd00 + u16::from(network);
            let last = u16::from_be_bytes([high & 3, low & 3]);
            IpAddr::V6(Ipv6Addr::new(first, 0, 0, 1, 0, 0, 0, last))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, network, high & 3, low & 3))
        }
    })
}

fn prefixes() -> impl Strategy<Value = NaivePrefix> {
    let v6_bits = prop_oneof![
        Just(0u8),
        Just(8),
        Just(16),
        Just(120),
        Just(128),
        97u8..=128
    ]
    // ::/0 is every address of both families, which only ANY is here
    .prop_filter("not ::/0", |bits| *bits > 0);
    prop_oneof![
        2 => Just(None),
        3 => (addresses(false), 0u8..=32).prop_map(Some),
        3 => (addresses(true), v6_bits).prop_map(Some),
    ]
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        Just((0, u16::MAX)),
        (0u16..8, 0u16..8).prop_map(|(first, more)| (first, first + more)),
        Just((u16::MAX - 1, u16::MAX)),
    ]
}

pub fn naive_rules() -> impl Strategy<Value = NaiveRule> {
    let dscps = prop_oneof![Just(None), vec(0u8..64, 1..4).prop_map(Some)];
    (prefixes(), prefixes(), ports(), ports(), dscps).prop_map(
        |(local, remote, local_ports, remote_ports, dscps)| NaiveRule {
            local,
            remote,
            local_ports,
            remote_ports,
            dscps,
        },
    )
}

fn flows() -> impl Strategy<Value = NaiveFlow> {
    let port = || prop_oneof![0u16..17, Just(u16::MAX), Just(u16::MAX - 2)];
    any::<bool>().prop_flat_map(move |ipv6| {
        let ends = (addresses(ipv6), port(), addresses(ipv6), port());
        (ends, 0u8..64).prop_map(
            |((local, local_port, remote, remote_port), dscp)| NaiveFlow {
                local: SocketAddr::new(local, local_port),
                remote: SocketAddr::new(remote, remote_port),
                dscp,
            },
        )
    })
}

/// A flow that a rule holds for in all but perhaps one thing.
fn near(rule: &NaiveRule, mut flow: NaiveFlow, but: u8) -> NaiveFlow {
    let family = rule
        .local
        .or(rule.remote)
        .map_or(flow.local.is_ipv6(), |(at, _)| at.is_ipv6());
    let place = |end: &mut SocketAddr, prefix: NaivePrefix| {
        if let Some((address, _)) = prefix.filter(|(address, _)| address.is_ipv6() == family) {
            end.set_ip(address);
        } else if end.is_ipv6() != family {
            end.set_ip(if family {
                [0xfd; 16].into()
            } else {
                [10, 0, 1, 1].into()
            });
        }
    };
    let (local, remote) = (flow.local, flow.remote);
    place(&mut flow.local, rule.local);
    place(&mut flow.remote, rule.remote);
    if but != 0 {
        flow.local.set_port(rule.local_ports.1);
    }
    if but != 1 {
        flow.remote.set_port(rule.remote_ports.0);
    }
    if let Some(dscps) = rule.dscps.as_ref().filter(|_| but != 2) {
        flow.dscp = dscps[0];
    }
    if but == 3 && local.is_ipv6() == family {
        flow.local.set_ip(local.ip());
    }
    if but == 4 && remote.is_ipv6() == family {
        flow.remote.set_ip(remote.ip());
    }
    flow
}

/// A rule with flows, most of which it holds for or nearly does.
pub fn flows_near(
    rules: impl Strategy<Value = NaiveRule>,
) -> impl Strategy<Value = (NaiveRule, Vec<NaiveFlow>)> {
    (rules, vec((flows(), 0u8..8), 1..24)).prop_map(|(rule, flows)| {
        let flows = flows
            .into_iter()
            .map(|(flow, but)| {
                if but == 7 {
                    flow
                } else {
                    near(&rule, flow, but)
                }
            })
            .collect();
        (rule, flows)
    })
}
