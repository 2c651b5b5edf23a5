//! The traffic of a group's flows: `application` of `[[case.guests]]`.
//!
//! The guest always sends the data. It opens the connection, too, except in `epochs` with `request`: there the receiver
//! opens it to send the request. Where another application begins with a request, the receiver sends the request over
//! the connection that the guest opened.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Bytes, Nanos};

/// The traffic of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Application {
    /// Endless data: as much as TCP takes, from the flow's start to the end of the run.
    #[default]
    Bulk,
    /// One transfer, after which the connection is closed.
    Transfer {
        /// Payload of the transfer.
        size: Bytes,
    },
    /// Requests of the receiver and responses of the guest, one after the other on one connection.
    Request {
        /// Payload of a request.
        request: Bytes,
        /// Payload of a response.
        response: Bytes,
        /// Number of requests. Default 1.
        #[serde(default = "one")]
        rounds: u32,
        /// Time from the end of a response to the next request. Default 0s.
        #[serde(default)]
        gap: Nanos,
    },
    /// Incast in rounds: the receiver requests a block from all flows of the group at once, and begins the next round
    /// when the last flow has answered.
    Incast {
        /// Payload of one flow's block.
        block: Bytes,
        /// Number of rounds. Default 1.
        #[serde(default = "one")]
        rounds: u32,
    },
    /// Transfers in epochs, each on a connection of its own: in every epoch each flow of the group has one transfer.
    /// The transfers of an epoch begin one after the other, in random order.
    Epochs {
        /// Payload of one transfer.
        size: Bytes,
        /// Number of epochs. Default 1.
        #[serde(default = "one")]
        rounds: u32,
        /// Time between the starts of two epochs; 0s with one epoch.
        #[serde(default)]
        every: Nanos,
        /// Mean time between two starts in an epoch, exponentially distributed. Default 0s.
        #[serde(default)]
        gap: Nanos,
        /// Payload of a request: the receiver opens the connection and requests the transfer, as a client of a web
        /// server does. Without this key, the guest opens the connection and sends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Bytes>,
    },
    /// Transfers that arrive at random times (exponential gaps), each on a connection of its own.
    Web {
        /// Mean number of transfers per second that begin at each of the group's flows. A file gives either `rate` or
        /// `load`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
        /// Offered load, above 0 to 1: payload per second divided by the rate of the link that
        /// [`crate::Guests::arrivals_per_s`] names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<f64>,
        /// Sizes of the transfers.
        sizes: Sizes,
    },
    /// Transfers between given hosts at given times, each on a connection of its own: a list, or the name of a file
    /// with such a list ([`crate::named_files`]).
    List(Vec<Listed>),
    /// Messages, one after the other on a connection that is opened at the flow's start and stays
    /// open to the end of the run; if there are several receivers, on one such connection to each.
    Messages {
        /// Sizes of the messages.
        sizes: Sizes,
        /// Time between the starts of two messages, whether the first has arrived or not. Without this key, each
        /// message begins when the one before it has arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Nanos>,
    },
}

fn one() -> u32 {
    1
}

impl Application {
    /// Returns the application's name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Application::Bulk => "bulk",
            Application::Transfer { .. } => "transfer",
            Application::Request { .. } => "request",
            Application::Incast { .. } => "incast",
            Application::Epochs { .. } => "epochs",
            Application::Web { .. } => "web",
            Application::List(_) => "list",
            Application::Messages { .. } => "messages",
        }
    }
}

/// A transfer of a list: `[source, target, size, start]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "[source, target, size, start]")]
pub struct Listed(
    /// Number of the sending host.
    pub u32,
    /// Number of the receiving host.
    pub u32,
    /// Payload of the transfer, above 0.
    pub Bytes,
    /// Start. Only differences count: the earliest transfer of the list begins at the group's `start`.
    pub Nanos,
);

/// A fixed size (`"10kB"`), or sizes of a trace as points of their cumulative distribution (`[["1kB", 0.5], ["100kB",
/// 1.0]]`). Instead of the points, an experiment's file may name a file with them ([`crate::named_files`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// The size of all transfers or messages.
    Fixed(Bytes),
    /// Points of the cumulative distribution: a size, and the probability of that size or less. Neither descends, and
    /// the last probability is 1. Between two points all sizes are equally likely; no size is below the first point's,
    /// which may be 0 only with probability 0.
    Points(Vec<(Bytes, f64)>),
}

impl Sizes {
    /// Returns the quantile `q32` / 2³²: the size that this fraction of all transfers or messages does not exceed, at
    /// least 1 byte. With `q32` uniform over all 32 bits, the results have the distribution of the points.
    pub fn quantile(&self, q32: u32) -> Bytes {
        let points = match self {
            Sizes::Fixed(size) => return *size,
            Sizes::Points(points) => points,
        };
        let q32 = u64::from(q32);
        let mut below = (0, 0);
        for (index, (size, probability)) in points.iter().enumerate() {
            let (at, size) = (to_q32(*probability), u64::from(size.0));
            if q32 < at || index + 1 == points.len() {
                let (from, least) = if index == 0 { (0, size) } else { below };
                let span = (at - from).max(1);
                let grown = (size - least) * (q32 - from).min(span) / span;
                // At most `size`, which fits.
                return Bytes(((least + grown) as u32).max(1));
            }
            below = (at, size);
        }
        Bytes(1)
    }

    /// Returns the mean in bytes, for load calculations.
    pub fn mean_bytes(&self) -> f64 {
        let points = match self {
            Sizes::Fixed(size) => return f64::from(size.0),
            Sizes::Points(points) => points,
        };
        let first = points
            .first()
            .map_or(0.0, |(size, p)| f64::from(size.0) * p);
        let part = |pair: &[(Bytes, f64)]| {
            let middle = (f64::from(pair[0].0.0) + f64::from(pair[1].0.0)) / 2.0;
            middle * (pair[1].1 - pair[0].1)
        };
        first + points.windows(2).map(part).sum::<f64>()
    }
}

/// Converts a probability to units of 2⁻³².
fn to_q32(probability: f64) -> u64 {
    (probability * (1u64 << 32) as f64).round() as u64
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Sizes::Fixed(size) => size.serialize(serializer),
            Sizes::Points(points) => {
                let mut list = serializer.serialize_seq(Some(points.len()))?;
                for point in points {
                    list.serialize_element(point)?;
                }
                list.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizesVisitor)
    }
}

struct SizesVisitor;

impl<'de> Visitor<'de> for SizesVisitor {
    type Value = Sizes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size (\"10kB\") or a list of sizes with their cumulative probabilities ")?;
        f.write_str("([[\"1kB\", 0.5], [\"100kB\", 1.0]])")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Sizes, E> {
        text.parse().map(Sizes::Fixed).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sizes, A::Error> {
        let mut points = Vec::new();
        while let Some(Pair(size, probability)) = list.next_element()? {
            points.push((size, probability));
        }
        Ok(Sizes::Points(points))
    }
}

/// A size with its cumulative probability.
#[derive(Deserialize)]
#[serde(expecting = "[size, cumulative probability]")]
struct Pair(Bytes, f64);
