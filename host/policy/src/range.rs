//! TCP ports as they are written: `5001`, `"6000-6999"`.

use std::fmt;

use schemars::{Schema, json_schema};

use crate::list::{Element, Scalar};

/// TCP ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First TCP port of the range: at least 1, but 0 in [`PortRange::ALL`].
    pub first: u16,
    /// Last TCP port of the range, at least the first.
    pub last: u16,
}

impl PortRange {
    /// The range of all TCP ports.
    pub const ALL: PortRange = PortRange {
        first: 0,
        last: u16::MAX,
    };

    /// Returns whether this range contains each port of the other.
    pub fn covers(&self, other: &PortRange) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Returns the same ports in as few ranges as possible, in order.
    pub fn merged(mut ranges: Vec<PortRange>) -> Vec<PortRange> {
        ranges.sort_by_key(|range| range.first);
        let mut merged: Vec<PortRange> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(before) if u32::from(range.first) <= u32::from(before.last) + 1 => {
                    before.last = before.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        merged
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PortRange::ALL => f.write_str("any"),
            PortRange { first, last } if first == last => write!(f, "{first}"),
            PortRange { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

const MEND: &str = "write 1 to 65535, or a range in quotes such as \"6000-6999\"";

fn number(text: &str, whole: &Scalar) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{whole}` is not a TCP port; {MEND}")),
    }
}

impl Element for PortRange {
    const WHAT: &'static str = "a TCP port or a range of them";

    fn read(scalar: &Scalar) -> Result<PortRange, String> {
        let text = scalar.to_string();
        let Some((first, last)) = text.split_once('-').filter(|(first, _)| !first.is_empty())
        else {
            let port = number(&text, scalar)?;
            return Ok(PortRange {
                first: port,
                last: port,
            });
        };
        let (first, last) = (number(first.trim(), scalar)?, number(last.trim(), scalar)?);
        if first > last {
            return Err(format!(
                "`{text}` is empty: {first} is above {last}; write \"{last}-{first}\""
            ));
        }
        Ok(PortRange { first, last })
    }

    fn write(&self) -> Scalar {
        match self {
            range if range.first == range.last => Scalar::Number(range.first.into()),
            range => Scalar::Text(format!("{}-{}", range.first, range.last)),
        }
    }

    fn schema() -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65_535 },
                { "type": "string", "pattern": r"^[0-9]{1,5}(\s*-\s*[0-9]{1,5})?$" },
            ],
            "description": "a TCP port, or a range as \"6000-6999\"",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_and_overlapping_ranges_are_merged() {
        let range = |first, last| PortRange { first, last };
        let merged = PortRange::merged(vec![
            range(30, 40),
            range(1, 9),
            range(10, 12),
            range(35, 36),
        ]);
        assert_eq!(merged, [range(1, 12), range(30, 40)]);
        let highest = vec![range(65_535, 65_535), range(65_534, 65_535)];
        assert_eq!(PortRange::merged(highest), [range(65_534, 65_535)]);
    }

    #[test]
    fn ports_below_1_and_descending_ranges_are_refused() {
        let read = |text: &str| PortRange::read(&Scalar::Text(text.into()));
        assert_eq!(
            read("6000 - 6999").map(|range| range.to_string()),
            Ok("6000-6999".into())
        );
        for (text, word) in [
            ("0", "not a TCP port"),
            ("-5", "not a TCP port"),
            ("70000", "not a TCP port"),
            ("http", "not a TCP port"),
            ("9-1", "write \"1-9\""),
            ("1-2-3", "not a TCP port"),
        ] {
            assert!(read(text).unwrap_err().contains(word), "{text}");
        }
        assert!(PortRange::read(&Scalar::Number(-1)).is_err());
        assert!(PortRange::read(&Scalar::Number(65_536)).is_err());
    }
}
