//! The length of a queue in a file: a size, or a number of packets.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uc_net::Length;

use crate::units::{Bytes, UnitError};

/// Unit of a length in packets.
const PACKETS: &str = "packets";

/// A queue's length: `260kB`, or `250 packets` of any size, as ns-2 and `pfifo` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLength {
    /// Link-layer bytes.
    Bytes(Bytes),
    /// Packets of any size.
    Packets(u32),
}

impl QueueLength {
    /// Returns whether the length is below `other`; `None` if their units differ.
    pub(crate) fn is_below(self, other: Self) -> Option<bool> {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(other)) => Some(one < other),
            (Self::Packets(one), Self::Packets(other)) => Some(one < other),
            _ => None,
        }
    }
}

impl From<QueueLength> for Length {
    fn from(length: QueueLength) -> Self {
        match length {
            QueueLength::Bytes(bytes) => Length::Bytes(bytes.0.into()),
            QueueLength::Packets(packets) => Length::Packets(packets.into()),
        }
    }
}

impl fmt::Display for QueueLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Packets(packets) => write!(f, "{packets} {PACKETS}"),
        }
    }
}

impl FromStr for QueueLength {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some(number) = text.trim_end().strip_suffix(PACKETS) else {
            return text.parse().map(Self::Bytes);
        };
        let packets = number.trim().parse().map_err(|_| UnitError {
            value: text.into(),
            what: "number of packets",
            why: "it is not a whole number below 2³²".into(),
            example: "250 packets",
        })?;
        Ok(Self::Packets(packets))
    }
}

impl Serialize for QueueLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueueLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

/// Reads a length from a string.
struct Text;

impl Visitor<'_> for Text {
    type Value = QueueLength;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size or a number of packets, for example \"260kB\" or \"250 packets\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<QueueLength, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_in_bytes_and_packets_are_written_as_they_are_read() {
        for (text, length) in [
            ("260kB", QueueLength::Bytes(Bytes(260_000))),
            ("250 packets", QueueLength::Packets(250)),
            ("0 packets", QueueLength::Packets(0)),
        ] {
            assert_eq!(text.parse(), Ok(length));
            assert_eq!(length.to_string(), text);
        }
        assert_eq!("250packets".parse(), Ok(QueueLength::Packets(250)));
        for text in ["2.5 packets", "-1 packets", "packets", "4294967296 packets"] {
            let error = text.parse::<QueueLength>().unwrap_err().to_string();
            assert!(
                error.contains("write for example \"250 packets\""),
                "{error}"
            );
        }
        assert!("250".parse::<QueueLength>().is_err());
    }
}
