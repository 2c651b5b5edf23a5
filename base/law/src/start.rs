//! How flows start: `start_law = "watch"` of a group of guests, beside any law or none, and
//! `watch = { probes = 10 }`.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use uc_core::watch::StartPolicy;
use uc_words::{BitsPerSec, Bytes, Nanos};

use crate::parameters::whole_us;

/// The law of a flow's first round trips, on both ends' hosts.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartLaw {
    /// HWatch: probes measure the path first, and the receiving host sets the first windows.
    Watch,
}

/// What an operator can choose about the start `watch`; where absent, the paper's number where it
/// has one.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// Probes before a flow, 0 to 32. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u8>,
    /// Of probes that were marked this part of segments comes at once, and as much a round later:
    /// 2 is the paper's half; 2 to 255. Default 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_part: Option<u8>,
    /// No window that it sets is smaller, 2 to 16 segments. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<u8>,
    /// Rounds of data after which a start is over at the latest, 1 to 255. Default 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u8>,
    /// All probes of a flow leave within this, and within a part of the path's round-trip time
    /// where that is known; 1us to 50ms. Default 16us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Nanos>,
    /// Which part: 2 is the half, as in the paper; 1 to 255. Default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u8>,
    /// How long after it was measured a path isn't probed again. Default 100ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh: Option<Nanos>,
    /// The same, where it was found without a mark. Default 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Nanos>,
    /// The longest that a flow's first window waits for its turn, up to 800ms. Default 800ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Nanos>,
    /// The data of first windows that a receiving host's link takes ahead of their turns. Default
    /// 32 packets of 1,514 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// The rate of turns. Default: that of the link to a receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<BitsPerSec>,
    /// A probe that took so much longer than another of its flow counts as marked, up to 30ms.
    /// Default 0s: marks alone count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Nanos>,
    /// Whether probes are only sent and counted, and no window is written. Default false.
    pub observe: bool,
}

impl Watch {
    /// The most probes of a flow: one bit each of 32 says which have come.
    pub const PROBES_MAX: u8 = 32;
    /// The least of windows, in segments. Under two, a receiver delays the ACK of the only one.
    pub const LEAST: RangeInclusive<u8> = 2..=16;
    /// All probes of a flow leave within this.
    pub const SPAN: RangeInclusive<Nanos> = Nanos(1_000)..=Nanos(50_000_000);
    /// The longest that a first window waits: a SYN that isn't answered is sent again after a
    /// second (RFC 6298 §2.1).
    pub const WAIT_MAX: Nanos = Nanos(800_000_000);
    /// A probe says when it left by a clock that comes round after 67 ms: half of that can be told.
    pub const LATE_MAX: Nanos = Nanos(30_000_000);
    /// How long a path's record stands: the core's clock for it counts microseconds in 32 bits.
    pub const RECORD_MAX: Nanos = Nanos(3_600_000_000_000);
    /// At slower turns nothing would start.
    pub const PACE_MIN: BitsPerSec = BitsPerSec(100_000);

    /// Whether nothing was chosen.
    pub fn are_default(&self) -> bool {
        *self == Watch::default()
    }
}

/// The core's policy for the start `watch`; `usual` has what the operator did not choose.
pub fn watch_policy(watch: &Watch, usual: &StartPolicy) -> StartPolicy {
    let us = |time: Option<Nanos>, otherwise| time.map_or(otherwise, whole_us);
    StartPolicy {
        probes: watch.probes.unwrap_or(usual.probes),
        least_segments: watch.least.unwrap_or(usual.least_segments),
        rounds: watch.rounds.unwrap_or(usual.rounds),
        observe: watch.observe.into(),
        span_us: us(watch.span, usual.span_us),
        fresh_us: us(watch.fresh, usual.fresh_us),
        idle_us: us(watch.idle, usual.idle_us),
        wait_us: us(watch.wait, usual.wait_us),
        burst_bytes: watch.burst.map_or(usual.burst_bytes, |bytes| bytes.0),
        late_ns: watch.late.map_or(usual.late_ns, |late| late.0 as u32),
        span_part: watch.part.unwrap_or(usual.span_part),
        marked_part: watch.marked_part.unwrap_or(usual.marked_part),
        pad: [0; 2],
        pace_bytes_per_s: watch.pace.map_or(usual.pace_bytes_per_s, |pace| pace.0 / 8),
    }
}

/// Data by the end that sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// None.
    Nobodys,
    /// The one that opens the connection: uploads, remote procedure calls with large arguments.
    FromClient,
    /// The one that is called: web pages, storage.
    FromServer,
    /// Either.
    #[default]
    FromBoth,
}

/// What the operator wants of the starts of a port's flows.
#[derive(Clone, Copy, Debug)]
pub struct StartSettings {
    /// How many probes, how long, what becomes of windows.
    pub policy: StartPolicy,
    /// What the guest sends and this host sends probes for: as the client, or as the server.
    pub sends: Data,
    /// What the guest receives and this host sets windows for: of the client, or of the server.
    pub receives: Data,
    /// Handshakes of the port's guest that are watched in a second; more of them pass.
    pub per_second: u32,
    /// How many of them at once.
    pub burst: u32,
}

impl Default for StartSettings {
    /// A start that user space can keep to: probes within half a millisecond.
    fn default() -> Self {
        Self {
            policy: StartPolicy {
                span_us: 500,
                ..StartPolicy::usual()
            },
            sends: Data::default(),
            receives: Data::default(),
            per_second: 1_000,
            burst: 256,
        }
    }
}

#[cfg(test)]
mod tests {
    use uc_core::watch::consts;

    use super::*;

    #[test]
    fn what_a_file_may_ask_for_is_what_the_core_keeps_to() {
        assert_eq!(u32::from(Watch::PROBES_MAX), consts::PROBES_MAX);
        assert_eq!(whole_us(*Watch::SPAN.end()), consts::SPAN_MAX_US);
        assert_eq!(whole_us(Watch::WAIT_MAX), consts::WAIT_MAX_US);
    }
}
