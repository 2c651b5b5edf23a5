//! One case as data: two hosts' parameters, what their applications do, and what the network does
//! to which packet. As TOML it is the file that `uc verify --replay` reads.

use serde::{Deserialize, Serialize};

use crate::error::VerifyError;

/// A case. Everything is in integers, and lists are in ascending order of packet numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The sender's initial sequence number: sequence numbers wrap where it says.
    pub iss: u32,
    /// Payload of a full segment.
    pub mss_bytes: u16,
    /// The sender's initial window.
    pub initial_window_segments: u8,
    /// The receiver's buffer, in segments: its window always ends on a segment's boundary.
    pub receive_buffer_segments: u16,
    /// The case ends when the sender has sent this many packets.
    pub packets: u32,
    /// The way of data.
    pub data: Way,
    /// The way of ACKs.
    pub acks: Way,
    /// What the sender's application writes.
    pub bursts: Vec<Burst>,
    /// When the receiver's application stops reading.
    pub stalls: Vec<Stall>,
}

/// One direction of the network: a transmitter with a queue, a delay, and the packets (numbered
/// from 0, the handshake's included) to which something happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Way {
    /// Propagation delay.
    pub delay_us: u32,
    /// What one packet occupies the transmitter.
    pub packet_us: u32,
    /// Packets that may wait; one more is lost. 0: any number.
    pub queue_packets: u32,
    /// From this many waiting on, ECT packets are marked. 0: none is.
    pub mark_packets: u32,
    /// Packets that are lost.
    pub lost: Vec<u32>,
    /// Packets that are marked, if they are ECT.
    pub marked: Vec<u32>,
    /// Packets that take a detour, and how much longer it is: others overtake them.
    pub late: Vec<(u32, u32)>,
}

/// One write of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Burst {
    /// What it waits for.
    pub after: After,
    /// How long it waits then.
    pub pause_us: u32,
    /// And how long beside that, in thousandths of the sender's retransmission timeout.
    pub pause_rto_permille: u32,
    /// How much it writes.
    pub segments: u32,
    /// Bytes beyond these segments: none under the theorems' assumptions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub odd_bytes: u32,
}

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// All that was written before has been sent.
    Sent,
    /// All that was written before has been acknowledged: the connection is idle.
    Acked,
}

/// The receiver's application stops reading until the sender is held up by the window alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stall {
    /// When this many packets have arrived.
    pub arrivals: u32,
    /// How long it goes on after the sender has come to a stop.
    pub pause_us: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A window is 16 bits without a scale.
const WINDOW_MAX_BYTES: u32 = 65_535;

impl Plan {
    /// The plan in a replay file: comments are the trace of an earlier run.
    ///
    /// # Errors
    /// With the line, what is wrong there and what would be right.
    pub fn parse(text: &str) -> Result<Plan, VerifyError> {
        let plan: Plan = toml::from_str(text).map_err(|error| VerifyError::Plan {
            message: error.to_string().trim_end().replace('\n', " "),
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as a replay file.
    pub fn to_toml(&self) -> String {
        // a struct of integers and lists of them always has a TOML form
        toml::to_string(self).unwrap_or_default()
    }

    /// How much there is of it: what shrinking makes smaller.
    pub fn size(&self) -> u64 {
        let ways = [&self.data, &self.acks];
        let specials: usize = ways
            .iter()
            .map(|way| way.lost.len() + way.marked.len() + way.late.len())
            .sum();
        let lists = specials + self.bursts.len() + self.stalls.len();
        lists as u64 * 1_000_000 + u64::from(self.packets)
    }

    /// Whether the theorems say anything of it.
    pub(crate) fn check(&self) -> Result<(), VerifyError> {
        let wrong = |key: &'static str, message: &'static str| VerifyError::Range { key, message };
        if !(64..=9_000).contains(&self.mss_bytes) {
            return Err(wrong("mss-bytes", "must be 64 to 9000"));
        }
        if !(1..=20).contains(&self.initial_window_segments) {
            return Err(wrong("initial-window-segments", "must be 1 to 20"));
        }
        let buffer_bytes = u32::from(self.receive_buffer_segments) * u32::from(self.mss_bytes);
        if buffer_bytes == 0 || buffer_bytes > WINDOW_MAX_BYTES {
            return Err(wrong(
                "receive-buffer-segments",
                "must be one segment to 65535 bytes: the window has 16 bits and no scale",
            ));
        }
        if self.packets == 0 || self.packets > 1_000_000 {
            return Err(wrong("packets", "must be 1 to 1000000"));
        }
        for (key, way) in [("data", &self.data), ("acks", &self.acks)] {
            let ascending = way.lost.is_sorted() && way.marked.is_sorted() && way.late.is_sorted();
            if !ascending {
                return Err(wrong(key, "packet numbers must ascend"));
            }
        }
        Ok(())
    }
}
