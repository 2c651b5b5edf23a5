//! What the operator wants of the ports that are watched.

use std::net::IpAddr;
use std::str::FromStr;

use uc_law::Data;

use crate::error::WatchError;
use crate::frame::mapped;
use crate::layout::{UC_DATA_FROM_CLIENT, UC_DATA_FROM_SERVER};

/// Returns the ends that send the data, as the programs read them: `UC_DATA_FROM_*`.
pub(crate) fn bits(data: Data) -> u8 {
    let bits = match data {
        Data::Nobodys => 0,
        Data::FromClient => UC_DATA_FROM_CLIENT,
        Data::FromServer => UC_DATA_FROM_SERVER,
        Data::FromBoth => UC_DATA_FROM_CLIENT | UC_DATA_FROM_SERVER,
    };
    bits as u8
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub(crate) address: [u8; 16],
    pub(crate) bits: u32,
}

impl FromStr for Prefix {
    type Err = WatchError;

    /// `10.0.0.0/8`, `fd00::/8`, or an address alone.
    fn from_str(text: &str) -> Result<Self, WatchError> {
        let none = || WatchError::NoPrefix {
            text: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| none())?)),
        };
        let address: IpAddr = address.parse().map_err(|_| none())?;
        let (most, before) = match address {
            IpAddr::V4(_) => (32, 96),
            IpAddr::V6(_) => (128, 0),
        };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(none());
        }
        let first = first_of(address, bits);
        if first != address {
            return Err(WatchError::HostBits {
                text: text.to_owned(),
                bits,
                address: first,
            });
        }
        let address = match address {
            IpAddr::V4(address) => mapped(address.octets()),
            IpAddr::V6(address) => address.octets(),
        };
        Ok(Self {
            address,
            bits: before + bits,
        })
    }
}

/// The first address that begins with so many bits of this one.
fn first_of(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_they_are_usually_written() {
        let bits = |text: &str| text.parse::<Prefix>().map(|prefix| prefix.bits).ok();
        for (text, expected) in [
            ("10.0.0.0/8", Some(104)),
            ("10.1.2.3", Some(128)),
            ("0.0.0.0/0", Some(96)),
            ("fd00::/8", Some(8)),
            ("fd00::1", Some(128)),
            ("10.0.0.0/33", None),
            ("fd00::/129", None),
            ("10.0.0/8", None),
            ("10.0.0.1/8", None),
            ("0.0.0.1/0", None),
            ("10.0.0.1/32", Some(128)),
            ("fd00::1/8", None),
            ("::/0", Some(0)),
            ("10.0.0.0/-1", None),
            ("", None),
        ] {
            assert_eq!(bits(text), expected, "{text}");
        }
    }

    #[test]
    fn a_prefix_with_bits_behind_it_is_refused_with_the_one_that_is_meant() {
        for (text, meant) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.255/25", "10.1.2.128/25"),
            ("fd12::1/8", "fd00::/8"),
        ] {
            let error = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(error.contains(meant), "{error}");
        }
    }
}
