//! Which flows a rule is about (`core/rule.h`).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::{Policy, sys};

/// How many rules a port may have.
pub const RULES_MAX: usize = sys::UC_RULES_MAX as usize;
/// Bits of an IPv4 address before it begins: `::ffff:0:0/96`.
const MAPPED_BITS: u8 = 96;

/// A prefix of addresses. Of both families where it is [`Prefix::ANY`], which `::/0` is, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv6Addr,
    bits: u8,
}

/// What makes an address and a length no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The address hasn't so many bits.
    #[error("/{bits}: an address of this family has {bits_max} bits")]
    TooLong {
        /// As asked for.
        bits: u8,
        /// Of the family.
        bits_max: u8,
    },
    /// The address has bits behind the prefix.
    #[error("bits behind the prefix are set; {meant} is the prefix")]
    HostBits {
        /// Without them.
        meant: Prefix,
    },
}

impl Prefix {
    /// Every address of both families.
    pub const ANY: Prefix = Prefix {
        address: Ipv6Addr::UNSPECIFIED,
        bits: 0,
    };

    /// The first `bits` of an address; none behind them may be set.
    ///
    /// # Errors
    /// [`PrefixError`].
    pub fn new(address: IpAddr, bits: u8) -> Result<Prefix, PrefixError> {
        let (mapped, before, bits_max) = match address {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), MAPPED_BITS, 32),
            IpAddr::V6(v6) => (v6, 0, 128),
        };
        if bits > bits_max {
            return Err(PrefixError::TooLong { bits, bits_max });
        }
        let bits = before + bits;
        let meant = Prefix {
            address: Ipv6Addr::from_bits(mapped.to_bits() & mask(bits)),
            bits,
        };
        if meant.address == mapped {
            Ok(meant)
        } else {
            Err(PrefixError::HostBits { meant })
        }
    }

    /// One address.
    pub fn host(address: IpAddr) -> Prefix {
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Prefix { address, bits: 128 }
    }

    /// Is every address of `other` one of this, too?
    pub fn contains(self, other: Prefix) -> bool {
        let differs = (self.address.to_bits() ^ other.address.to_bits()) & mask(self.bits);
        self.bits <= other.bits && differs == 0
    }

    /// Is it one of IPv4 addresses only?
    pub fn is_ipv4(self) -> bool {
        self.bits >= MAPPED_BITS && self.address.to_ipv4_mapped().is_some()
    }

    /// As the core has it: the address and the mask, in network order.
    fn words(self) -> ([u32; 4], [u32; 4]) {
        (
            words(self.address),
            words(Ipv6Addr::from_bits(mask(self.bits))),
        )
    }
}

/// The bits that belong to a prefix of this length.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

/// An address as four words in network order.
fn words(address: Ipv6Addr) -> [u32; 4] {
    let octets = address.octets();
    std::array::from_fn(|word| {
        u32::from_ne_bytes(std::array::from_fn(|byte| octets[4 * word + byte]))
    })
}

fn address(words: [u32; 4]) -> Ipv6Addr {
    Ipv6Addr::from_bits(
        words
            .into_iter()
            .fold(0, |bits, word| bits << 32 | u128::from(u32::from_be(word))),
    )
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.to_ipv4_mapped() {
            Some(v4) if self.is_ipv4() => write!(f, "{v4}/{}", self.bits - MAPPED_BITS),
            _ if *self == Prefix::ANY => f.write_str("any"),
            _ => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which flows a rule is about: all conditions hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Where the guest's end is.
    pub local: Prefix,
    /// Where the other end is.
    pub remote: Prefix,
    /// The guest's TCP port: the first and the last.
    pub local_ports: (u16, u16),
    /// The other end's.
    pub remote_ports: (u16, u16),
    /// DSCP of the SYN, one bit for each.
    pub dscps: u64,
}

impl Match {
    /// Every flow.
    pub const ALL: Match = Match {
        local: Prefix::ANY,
        remote: Prefix::ANY,
        local_ports: (0, u16::MAX),
        remote_ports: (0, u16::MAX),
        dscps: u64::MAX,
    };

    /// As the programs read it.
    pub fn compile(&self) -> sys::uc_match {
        let (local, local_mask) = self.local.words();
        let (remote, remote_mask) = self.remote.words();
        sys::uc_match {
            local,
            local_mask,
            remote,
            remote_mask,
            local_ports: [self.local_ports.0, self.local_ports.1],
            remote_ports: [self.remote_ports.0, self.remote_ports.1],
            dscps: self.dscps,
        }
    }

    /// What was compiled.
    pub fn of_compiled(compiled: &sys::uc_match) -> Match {
        let prefix = |words: [u32; 4], mask: [u32; 4]| Prefix {
            address: address(words),
            bits: address(mask).to_bits().leading_ones() as u8,
        };
        Match {
            local: prefix(compiled.local, compiled.local_mask),
            remote: prefix(compiled.remote, compiled.remote_mask),
            local_ports: (compiled.local_ports[0], compiled.local_ports[1]),
            remote_ports: (compiled.remote_ports[0], compiled.remote_ports[1]),
            dscps: compiled.dscps,
        }
    }

    /// What the programs say of a flow between these two, whose SYN has this DSCP.
    pub fn matches(&self, local: SocketAddr, remote: SocketAddr, dscp: u8) -> bool {
        let octets = |end: SocketAddr| Prefix::host(end.ip()).words().0;
        let ends = sys::uc_ends {
            local: octets(local),
            remote: octets(remote),
            local_port: local.port(),
            remote_port: remote.port(),
            dscp,
            pad: [0; 3],
        };
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_matches(&self.compile(), &ends) != 0 }
    }

    /// Is every flow that `other` is about one of this, too?
    pub fn covers(&self, other: &Match) -> bool {
        let spans = |own: (u16, u16), other: (u16, u16)| own.0 <= other.0 && own.1 >= other.1;
        self.local.contains(other.local)
            && self.remote.contains(other.remote)
            && spans(self.local_ports, other.local_ports)
            && spans(self.remote_ports, other.remote_ports)
            && self.dscps & other.dscps == other.dscps
    }
}

/// What the operator wants of the flows that a match is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which flows.
    pub matches: Match,
    /// Their policy.
    pub policy: Policy,
    /// Each one's weight in its port's windows; 0: it has none.
    pub share: u8,
    /// By which the operator knows it; several may have the same, and 0 is nobody's.
    pub number: u16,
}

impl Rule {
    /// One policy for every flow.
    pub fn all(policy: Policy) -> Rule {
        Rule {
            matches: Match::ALL,
            policy,
            share: 0,
            number: 0,
        }
    }
}

/// A match and what belongs to it as the programs read them.
pub type CompiledRule = sys::uc_rule;

impl Rule {
    /// As the programs read it.
    pub fn compile(&self) -> CompiledRule {
        CompiledRule {
            match_: self.matches.compile(),
            policy: self.policy,
            share: self.share,
            pad: 0,
            number: self.number,
        }
    }

    /// What was compiled.
    pub fn of_compiled(compiled: &CompiledRule) -> Rule {
        Rule {
            matches: Match::of_compiled(&compiled.match_),
            policy: compiled.policy,
            share: compiled.share,
            number: compiled.number,
        }
    }
}
