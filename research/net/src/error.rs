//! What can be wrong with a network's description. A network that was built does not fail.

use thiserror::Error;

use crate::units::BitsPerSec;

/// A value in a link's or a queue's description that can't be used, and the mend.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// A quantity that must be positive is zero.
    #[error("{what} is 0; give a positive value")]
    Zero {
        /// The quantity's name.
        what: &'static str,
    },
    /// The marking threshold lies above the queue's limit.
    #[error(
        "mark at {mark} is never reached within the limit of {limit}; lower it or raise the limit"
    )]
    MarkBeyondLimit {
        /// The marking threshold.
        mark: crate::queue::Length,
        /// The queue's limit.
        limit: crate::queue::Length,
    },
    /// A probability above one.
    #[error("{what} of {ppm} ppm is more than certain; give at most 1000000")]
    ProbabilityAboveOne {
        /// Which probability.
        what: &'static str,
        /// Its value in parts per million.
        ppm: u32,
    },
    /// RED's thresholds are in the wrong order.
    #[error("RED: min {min_bytes} B lies above max {max_bytes} B; swap or correct them")]
    RedThresholds {
        /// Lower threshold.
        min_bytes: u32,
        /// Upper threshold.
        max_bytes: u32,
    },
    /// tc-red finds no averaging weight: the burst can't even fill the lower threshold.
    #[error("RED: burst {burst_packets} is too small for min and packet; try burst {try_packets}")]
    RedBurstTooSmall {
        /// The burst asked for.
        burst_packets: u32,
        /// The burst that tc proposes: 1 + min / packet.
        try_packets: u32,
    },
    /// tc-red finds no averaging weight down to 2^-31.
    #[error("RED: burst {burst_packets} is too large for any averaging weight; lower it")]
    RedBurstTooLarge {
        /// The burst asked for.
        burst_packets: u32,
    },
    /// The probability for a byte above min falls below 2^-31.
    #[error(
        "RED: probability {ppm} ppm over {span_bytes} B is too small; raise it or narrow min..max"
    )]
    RedProbabilityTooSmall {
        /// The probability at max, in parts per million.
        ppm: u32,
        /// max − min.
        span_bytes: u32,
    },
    /// The kernel keeps thresholds scaled by the averaging weight in 32 bits.
    #[error(
        "RED: {what} of {bytes} B does not fit 31 bits at weight 2^-{wlog}; lower it or the burst"
    )]
    RedThresholdTooLarge {
        /// Which threshold.
        what: &'static str,
        /// Its value.
        bytes: u32,
        /// log2 of the inverse averaging weight.
        wlog: u8,
    },
    /// RED's idle table is measured in whole microseconds per average packet.
    #[error(
        "RED: {packet_bytes} B at {bandwidth} take under 1 us; give a larger packet or less rate"
    )]
    RedPacketTooShort {
        /// The average packet.
        packet_bytes: u32,
        /// The bandwidth asked for.
        bandwidth: BitsPerSec,
    },
    /// RED's idle table can't span the time that the average needs to empty.
    #[error(
        "RED: no idle table for {packet_bytes} B at {bandwidth}; raise the rate or lower the burst"
    )]
    RedIdleTooLong {
        /// The average packet.
        packet_bytes: u32,
        /// The bandwidth asked for.
        bandwidth: BitsPerSec,
    },
    /// tc keeps a qdisc's bandwidth in 32 bits of bytes per second.
    #[error("RED: tc knows no bandwidth of {bandwidth}; give at most 34359738360bit")]
    RedBandwidthTooHigh {
        /// The bandwidth asked for.
        bandwidth: BitsPerSec,
    },
}

/// Why a network can't be built, or a packet can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetError {
    /// A link's description is wrong.
    #[error("link {link}: {problem}")]
    Link {
        /// The link's name, `from->to`.
        link: String,
        /// What is wrong with it, and the mend.
        problem: SpecError,
    },
    /// Two nodes, or two links, share a name (names seed the random streams).
    #[error("the name {name} is given twice; rename one of the two")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// A host or switch number of another topology.
    #[error("{node} is not in this topology; use the numbers that its builder returned")]
    UnknownNode {
        /// The number, as text.
        node: String,
    },
    /// A link from a node to itself.
    #[error("{node} is connected to itself; connect two nodes")]
    Loop {
        /// The node's name.
        node: String,
    },
    /// A ready-made topology without a link between its switches.
    #[error("{shape} of {count} {part}; give at least {least}")]
    TooSmall {
        /// Which topology.
        shape: &'static str,
        /// What there are too few of.
        part: &'static str,
        /// How many were asked for.
        count: usize,
        /// How many it takes.
        least: usize,
    },
    /// More links than a network can tell apart.
    #[error("{links} links in one network; give at most 1048576")]
    TooManyLinks {
        /// How many there are.
        links: usize,
    },
    /// No chain of links leads from one host to the other.
    #[error("no way from host {from} to host {to}; connect them through a switch")]
    NoRoute {
        /// The sending host's number.
        from: u32,
        /// The receiving host's number.
        to: u32,
    },
}
