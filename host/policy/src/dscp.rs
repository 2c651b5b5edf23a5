//! Differentiated services codepoints by number or by name: `"EF"`, `"AF11"`, `46`.

use schemars::{Schema, json_schema};

use crate::list::{Element, Scalar};
use uc_words::wording::suggest;

/// A DSCP (RFC 2474), 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dscp(pub u8);

/// A mask with all 64 bits set, which stands for any DSCP.
pub const ANY: u64 = u64::MAX;

/// The names of codepoints: RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF), RFC 5865 (VA), RFC 8622
/// (LE).
const NAMES: [(&str, u8); 23] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

impl Dscp {
    /// Returns the codepoint's name, or its number if it has none.
    pub fn name(self) -> String {
        let named = NAMES.iter().find(|(_, number)| *number == self.0);
        named.map_or_else(|| self.0.to_string(), |(name, _)| (*name).to_owned())
    }

    /// Returns the names of a mask's codepoints, in ascending order.
    pub fn names(mask: u64) -> Vec<String> {
        (0..64)
            .filter(|number| mask >> number & 1 == 1)
            .map(|number| Dscp(number).name())
            .collect()
    }

    /// Returns the mask of codepoints; all of them for an empty list.
    pub fn mask(codepoints: &[Dscp]) -> u64 {
        if codepoints.is_empty() {
            return ANY;
        }
        codepoints
            .iter()
            .fold(0, |mask, codepoint| mask | 1 << codepoint.0)
    }
}

impl Element for Dscp {
    const WHAT: &'static str = "a DSCP by name or number";

    fn read(scalar: &Scalar) -> Result<Dscp, String> {
        let number = match scalar {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) | Scalar::Other(text) => text.parse().ok(),
        };
        if let Some(number) = number {
            return match u8::try_from(number) {
                Ok(number) if number < 64 => Ok(Dscp(number)),
                _ => Err(format!(
                    "{number} is not a DSCP; give 0 to 63, which is the traffic class without its \
                     two \
                     bits of ECN"
                )),
            };
        }
        let name = scalar.to_string().to_uppercase();
        if let Some((_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(Dscp(*number));
        }
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        Err(format!(
            "there is no DSCP `{scalar}`; {}",
            suggest(&name, &known)
        ))
    }

    fn write(&self) -> Scalar {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => Scalar::Text((*name).to_owned()),
            None => Scalar::Number(self.0.into()),
        }
    }

    fn schema() -> Schema {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let names = format!("^(?i:{})$", names.join("|"));
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 63 },
                { "type": "string", "pattern": format!("{}|^[0-9]{{1,2}}$", either_case(&names)) },
            ],
            "description": "a DSCP, 0 to 63, or its name: CS0 to CS7, AF11 to AF43, EF, VA, LE",
        })
    }
}

/// Replaces `(?i:`, which the patterns of JSON Schema lack: each upper-case letter becomes a set of both cases.
fn either_case(pattern: &str) -> String {
    let mut text = String::new();
    for c in pattern.replace("(?i:", "(").chars() {
        if c.is_ascii_uppercase() {
            text += &format!("[{c}{}]", c.to_ascii_lowercase());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assured_forwarding_and_class_selectors_equal_their_rfcs() {
        let read = |name: String| Dscp::read(&Scalar::Text(name)).map(|dscp| dscp.0);
        for class in 1..=4 {
            for drop in 1..=3 {
                assert_eq!(read(format!("af{class}{drop}")), Ok(8 * class + 2 * drop));
            }
        }
        for class in 0..8 {
            assert_eq!(read(format!("CS{class}")), Ok(8 * class));
        }
    }

    #[test]
    fn each_codepoint_is_read_back_from_its_name() {
        for number in 0..64 {
            let name = Scalar::Text(Dscp(number).name());
            assert_eq!(Dscp::read(&name), Ok(Dscp(number)));
            assert_eq!(Dscp::read(&Dscp(number).write()), Ok(Dscp(number)));
        }
        assert_eq!(Dscp::mask(&[]), ANY);
        assert_eq!(Dscp::names(Dscp::mask(&[Dscp(46), Dscp(3)])), ["3", "EF"]);
    }

    #[test]
    fn a_misspelt_name_is_refused_with_a_suggestion() {
        let refusal = |text: &str| Dscp::read(&Scalar::Text(text.into())).unwrap_err();
        assert_eq!(
            refusal("AF51"),
            "there is no DSCP `AF51`; did you mean `AF11`?"
        );
        assert!(refusal("64").contains("0 to 63"));
    }
}
