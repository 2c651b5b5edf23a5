//! Addresses of a case's guests and receivers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use uc_experiment::{Case, Family};

use crate::error::LabError;

/// Returns the address 10.77.0.0 + number + 1 or fd77::(number + 1). Refuses numbers above 65,533; `case` is for the
/// message.
pub(crate) fn address(family: Family, number: usize, case: &Case) -> Result<IpAddr, LabError> {
    // A /16 has 65,534 hosts; the limit holds for both families so that a case does not depend on the
    // family.
    let last = u16::try_from(number + 1)
        .ok()
        .filter(|&last| last < u16::MAX);
    let last = last.ok_or_else(|| {
        LabError::Refused(format!(
            "case {}: the LAN has 65,534 addresses, too few for its guests; lower `count`, or give \
             each guest more `flows`",
            case.name
        ))
    })?;
    let [high, low] = last.to_be_bytes();
    Ok(match family {
        Family::Ipv4 => Ipv4Addr::new(10, 77, high, low).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last).into(),
    })
}

/// Returns a locally administered link-layer address that ends in `number` + 1; two bytes of it spell "uc".
pub(crate) fn mac(number: usize) -> [u8; 6] {
    let [.., high, low] = (number + 1).to_be_bytes();
    [0x02, 0x75, 0x63, 0, high, low]
}

/// Formats a link-layer address as iproute2 reads it.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
