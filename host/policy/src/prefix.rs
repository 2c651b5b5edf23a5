//! Prefixes of addresses in the policy's lists: `10.0.0.0/8`, `fd00::/8`, or an address alone.

use schemars::{Schema, json_schema};
use uc_core::rule::Prefix;

use crate::list::{Element, Scalar};

impl Element for Prefix {
    const WHAT: &'static str = "a prefix such as \"10.0.0.0/8\"";

    fn read(scalar: &Scalar) -> Result<Prefix, String> {
        let text = scalar.to_string();
        let prefix: Prefix = text.parse().map_err(|error| format!("`{text}` {error}"))?;
        if prefix == Prefix::ANY {
            return Err(
                "`::/0` contains the addresses of both families; remove the key for any address, \
                 write \"0.0.0.0/0\" for all of IPv4, or \"2000::/3\" and \"fc00::/7\" for IPv6"
                    .into(),
            );
        }
        Ok(prefix)
    }

    fn write(&self) -> Scalar {
        Scalar::Text(self.to_string())
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
            "description": "a prefix of IPv4 or IPv6 addresses, or one address",
            "examples": ["10.0.0.0/8", "fd00::/8"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        Prefix::read(&Scalar::Text(text.into())).map(|prefix| prefix.to_string())
    }

    #[test]
    fn a_single_address_is_a_prefix_of_full_length() {
        assert_eq!(read("10.1.2.3"), Ok("10.1.2.3/32".into()));
        assert_eq!(read("fd00::1"), Ok("fd00::1/128".into()));
        assert_eq!(read("0.0.0.0/0"), Ok("0.0.0.0/0".into()));
    }

    #[test]
    fn an_invalid_prefix_or_both_families_are_refused() {
        for (text, word) in [
            (
                "10.0.0.1/8",
                "`10.0.0.1/8` has host bits set; did you mean `10.0.0.0/8`?",
            ),
            ("10.0.0/8", "`10.0.0/8` is not a prefix"),
            ("::/0", "both families"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(word), "{text}: {refusal}");
        }
    }
}
