//! One case as data: two hosts' parameters, their applications' actions, and the fate of each
//! packet. As TOML it is the file that `uc-bench verify --replay` reads.

use serde::{Deserialize, Serialize};

use crate::error::VerifyError;

/// A case. All numbers are integers, and lists are in ascending order of packet numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// Initial sequence number of the sender, which determines where sequence numbers wrap.
    pub iss: u32,
    /// Payload of a full segment, in bytes (64 to 9,000).
    pub mss_bytes: u16,
    /// Initial window of the sender, in segments (1 to 20).
    pub initial_window_segments: u8,
    /// Buffer of the receiver, in segments, so that its window always ends on a segment boundary.
    pub receive_buffer_segments: u16,
    /// Number of packets of the sender after which the case ends (1 to 1,000,000).
    pub packets: u32,
    /// The network's direction in which data flows.
    pub data: Direction,
    /// The network's direction in which ACKs flow.
    pub acks: Direction,
    /// What the sender's application writes, and when.
    pub bursts: Vec<Burst>,
    /// Times at which the receiver's application stops reading.
    pub stalls: Vec<Stall>,
    /// Moves of the guest's flow to other hosts, in the order of their segments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<Handover>,
}

/// A move of the flow to a port of another host, which has seen nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Handover {
    /// Number of the segment, counted from 0 over both directions together, before which the flow moves; it moves later
    /// if it is not established by then.
    pub segment: u32,
    /// Time that the other host's clock shows when the case begins, in units of 128 µs.
    pub clock: u32,
    /// Number of the layout that flows have on the host that the flow leaves; 0: this build's.
    #[serde(default)]
    pub layout: u32,
}

/// One direction of the network: a transmitter with a queue, a delay, and lists of affected packets
/// (numbered from 0, the handshake's included).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Direction {
    /// Propagation delay of the direction, in microseconds.
    pub delay_us: u32,
    /// Transmission time of a packet, in microseconds.
    pub packet_us: u32,
    /// Maximum number of waiting packets; one more is lost. 0: no maximum.
    pub queue_packets: u32,
    /// Number of waiting packets from which ECT packets are marked. 0: never.
    pub mark_packets: u32,
    /// Numbers of the packets that are lost.
    pub lost: Vec<u32>,
    /// Numbers of the packets that are marked, if they are ECT.
    pub marked: Vec<u32>,
    /// Numbers of the packets that are delayed, each with its additional delay in microseconds;
    /// others overtake them.
    pub late: Vec<(u32, u32)>,
    /// Numbers of the packets with which the direction stops, each with the time in microseconds until the direction
    /// goes on; packets sent meanwhile arrive then, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<(u32, u32)>,
}

/// One write of the sender's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Burst {
    /// The condition that the write waits for.
    pub after: After,
    /// Pause after the condition holds, in microseconds.
    pub pause_us: u32,
    /// Additional pause, in thousandths of the sender's retransmission timeout.
    pub pause_rto_permille: u32,
    /// Number of full segments to write.
    pub segments: u32,
    /// Bytes in addition to the segments: none under the theorems' assumptions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub odd_bytes: u32,
}

/// The condition that a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// All data written before has been sent.
    Sent,
    /// All data written before has been acknowledged: the connection is idle.
    Acked,
}

/// A stall of the receiver's application: the application stops reading until only the window keeps the sender from
/// sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stall {
    /// The stall begins when this many packets, SYN included, have arrived at the receiver.
    pub arrivals: u32,
    /// Time from the sender's stop to the end of the stall, in microseconds.
    pub pause_us: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Maximum window: 16 bits without a scale.
const WINDOW_MAX_BYTES: u32 = 65_535;

impl Plan {
    /// Parses a replay file; its comments are the trace of an earlier run.
    ///
    /// # Errors
    /// The line, what is wrong there, and the remedy.
    pub fn parse(text: &str) -> Result<Plan, VerifyError> {
        let plan: Plan = toml::from_str(text).map_err(|error| VerifyError::Plan {
            message: error.to_string().trim_end().replace('\n', " "),
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// Formats the plan as a replay file.
    pub fn to_toml(&self) -> String {
        // a struct of integers and lists of them always has a TOML form
        toml::to_string(self).unwrap_or_default()
    }

    /// Returns the size of the plan, which shrinking reduces.
    pub fn size(&self) -> u64 {
        let ways = [&self.data, &self.acks];
        let specials: usize = ways
            .iter()
            .map(|way| way.lost.len() + way.marked.len() + way.late.len() + way.held.len())
            .sum();
        let lists = specials + self.bursts.len() + self.stalls.len() + self.handovers.len();
        lists as u64 * 1_000_000 + u64::from(self.packets)
    }

    /// Checks that the theorems cover the plan.
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
            let delayed = way.late.is_sorted() && way.held.is_sorted();
            let ascending = way.lost.is_sorted() && way.marked.is_sorted() && delayed;
            if !ascending {
                return Err(wrong(key, "packet numbers must ascend"));
            }
        }
        if !self.handovers.is_sorted() {
            return Err(wrong("handovers", "segment numbers must ascend"));
        }
        Ok(())
    }
}
