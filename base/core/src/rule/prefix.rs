//! Prefixes of addresses, written `10.0.0.0/8`, `fd00::/8`, or as an address alone.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Number of bits before the IPv4 address in `::ffff:a.b.c.d`.
const MAPPED_BITS: u8 = 96;

/// A prefix of IPv4 or IPv6 addresses. `::/0` is [`Prefix::ANY`], which contains the addresses of both families.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv6Addr,
    bits: u8,
}

/// Why an address and a length, or a text, are no prefix. The message continues a sentence that
/// begins with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The text is not an IP address, with or without `/` and a prefix length.
    #[error(
        "is not a prefix; write an IP address and the prefix length in bits, such as 10.0.0.0/8 \
         or fd00::/8"
    )]
    Malformed,
    /// The address has fewer bits than the length.
    #[error(
        "has a prefix length of {bits} bits, but an address of this family has {bits_max}; give \
         /{bits_max} or less"
    )]
    TooLong {
        /// The prefix length that was given, in bits.
        bits: u8,
        /// The bits of an address of its family: 32 or 128.
        bits_max: u8,
    },
    /// The address has host bits: ones beyond the prefix.
    #[error("has host bits set; did you mean `{meant}`?")]
    HostBits {
        /// The prefix with its host bits cleared.
        meant: Prefix,
    },
}

impl Prefix {
    /// The prefix of length 0, which contains every address of both families.
    pub const ANY: Prefix = Prefix {
        address: Ipv6Addr::UNSPECIFIED,
        bits: 0,
    };

    /// Creates the prefix of the first `bits` bits of an address. Refuses more bits than the address has, and an
    /// address in which a later bit is set.
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

    /// Returns the prefix of a single address.
    pub fn host(address: IpAddr) -> Prefix {
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Prefix { address, bits: 128 }
    }

    /// Returns whether the prefix contains every address of `other`.
    pub fn contains(self, other: Prefix) -> bool {
        let differs = (self.address.to_bits() ^ other.address.to_bits()) & mask(self.bits);
        self.bits <= other.bits && differs == 0
    }

    /// Returns whether the prefix contains only IPv4 addresses.
    pub fn is_ipv4(self) -> bool {
        self.bits >= MAPPED_BITS && self.address.to_ipv4_mapped().is_some()
    }

    /// Returns the prefix's first address, IPv4 as `::ffff:a.b.c.d`, and the number of its bits that the prefix has, 0
    /// to 128.
    pub fn mapped(self) -> (Ipv6Addr, u8) {
        (self.address, self.bits)
    }

    /// Returns the prefix that the core has as an address and a mask, in network order.
    pub(super) fn of_words(address: [u32; 4], mask: [u32; 4]) -> Prefix {
        Prefix {
            address: from_words(address),
            bits: from_words(mask).to_bits().leading_ones() as u8,
        }
    }

    /// Returns the address and the mask as the core stores them, in network order.
    pub(super) fn words(self) -> ([u32; 4], [u32; 4]) {
        (
            words(self.address),
            words(Ipv6Addr::from_bits(mask(self.bits))),
        )
    }
}

/// Returns a mask of 128 bits, of which the first `bits` are set.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

/// Returns an address as four words in network order.
fn words(address: Ipv6Addr) -> [u32; 4] {
    let octets = address.octets();
    std::array::from_fn(|word| {
        u32::from_ne_bytes(std::array::from_fn(|byte| octets[4 * word + byte]))
    })
}

/// Reads four words in network order as an address.
fn from_words(words: [u32; 4]) -> Ipv6Addr {
    Ipv6Addr::from_bits(
        words
            .into_iter()
            .fold(0, |bits, word| bits << 32 | u128::from(u32::from_be(word))),
    )
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `10.0.0.0/8`, `fd00::/8`, or an address alone, which is a prefix of one address.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let address = |text: &str| text.parse().map_err(|_| PrefixError::Malformed);
        match text.split_once('/') {
            None => Ok(Prefix::host(address(text)?)),
            Some((first, bits)) => {
                let bits = bits.parse().map_err(|_| PrefixError::Malformed)?;
                Prefix::new(address(first)?, bits)
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_addresses_are_read_as_they_are_usually_written() {
        for (text, bits) in [
            ("10.0.0.0/8", 104),
            ("10.1.2.3", 128),
            ("10.0.0.1/32", 128),
            ("0.0.0.0/0", 96),
            ("fd00::/8", 8),
            ("fd00::1", 128),
            ("::/0", 0),
        ] {
            let read = text.parse().map(|prefix: Prefix| prefix.mapped().1);
            assert_eq!(read, Ok(bits), "{text}");
        }
        assert_eq!("::/0".parse(), Ok(Prefix::ANY));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "10.0.0/8",
            "10/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/999",
            "example.org",
            "/8",
        ] {
            assert_eq!(
                text.parse::<Prefix>(),
                Err(PrefixError::Malformed),
                "{text}"
            );
        }
        for (text, bits_max) in [("10.0.0.0/33", 32), ("fd00::/129", 128)] {
            let error = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(error.contains(&format!("family has {bits_max}")), "{error}");
        }
    }

    #[test]
    fn host_bits_are_refused_with_the_prefix_that_was_meant() {
        for (text, meant) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.255/25", "10.1.2.128/25"),
            ("0.0.0.1/0", "0.0.0.0/0"),
            ("fd12::1/8", "fd00::/8"),
        ] {
            let error = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(
                error.contains(&format!("did you mean `{meant}`?")),
                "{error}"
            );
        }
    }
}
