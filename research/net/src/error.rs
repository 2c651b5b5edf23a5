//! Errors in a network's description. A network that could be built does not fail.

use thiserror::Error;

use uc_words::BitsPerSec;

/// An unusable value in the description of a link or a queue, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// A quantity that must be positive is zero.
    #[error("{what} is 0; give a positive value")]
    Zero {
        /// Name of the quantity that is 0.
        what: &'static str,
    },
    /// The marking threshold lies above the queue's limit.
    #[error(
        "mark at {mark} is never reached within the limit of {limit}; lower the mark or raise the limit"
    )]
    MarkBeyondLimit {
        /// Queue length from which packets are marked.
        mark: crate::queue::Length,
        /// Maximum length of the queue.
        limit: crate::queue::Length,
    },
    /// A probability is above one.
    #[error("{what} of {ppm} ppm is a probability above 1; give at most 1000000")]
    ProbabilityAboveOne {
        /// Name of the probability.
        what: &'static str,
        /// Value of the probability, in parts per million.
        ppm: u32,
    },
    /// RED's lower threshold lies above the upper one.
    #[error("RED: min {min_bytes} B lies above max {max_bytes} B; swap or correct them")]
    RedThresholds {
        /// Lower threshold of RED, in bytes.
        min_bytes: u32,
        /// Upper threshold of RED, in bytes.
        max_bytes: u32,
    },
    /// The averaging weight does not exist in tc-red: the burst can't even fill the lower
    /// threshold.
    #[error("RED: burst {burst_packets} is too small for min and packet; try burst {try_packets}")]
    RedBurstTooSmall {
        /// Burst that was asked for, in packets.
        burst_packets: u32,
        /// Burst that tc proposes, in packets: 1 + min / packet.
        try_packets: u32,
    },
    /// The averaging weight would lie below 2^-31, the smallest of tc-red.
    #[error("RED: no averaging weight fits a burst of {burst_packets} packets; lower the burst")]
    RedBurstTooLarge {
        /// Burst that was asked for, in packets.
        burst_packets: u32,
    },
    /// The probability for a byte above min falls below 2^-31.
    #[error(
        "RED: probability {ppm} ppm over {span_bytes} B is too small; raise it or narrow min..max"
    )]
    RedProbabilityTooSmall {
        /// Probability at max, in parts per million.
        ppm: u32,
        /// Distance of the thresholds, max − min, in bytes.
        span_bytes: u32,
    },
    /// A threshold is too large: the kernel keeps it scaled by the averaging weight in 32 bits.
    #[error(
        "RED: {what} of {bytes} B does not fit 31 bits at weight 2^-{wlog}; lower {what} or the burst"
    )]
    RedThresholdTooLarge {
        /// Name of the threshold that is too large.
        what: &'static str,
        /// Value of the threshold, in bytes.
        bytes: u32,
        /// Base-2 logarithm of the inverse averaging weight.
        wlog: u8,
    },
    /// The average packet is too short: RED's idle table counts whole microseconds per packet.
    #[error(
        "RED: {packet_bytes} B at {bandwidth} take under 1 us; give a larger packet or less rate"
    )]
    RedPacketTooShort {
        /// Average packet size, in bytes.
        packet_bytes: u32,
        /// Bandwidth that was asked for.
        bandwidth: BitsPerSec,
    },
    /// RED's idle table can't span the time in which the average decays to zero.
    #[error(
        "RED: no idle table for {packet_bytes} B at {bandwidth}; raise the rate or lower the burst"
    )]
    RedIdleTooLong {
        /// Average packet size, in bytes.
        packet_bytes: u32,
        /// Bandwidth that was asked for.
        bandwidth: BitsPerSec,
    },
    /// The bandwidth is too high: tc keeps it in 32 bits of bytes per second.
    #[error(
        "RED: bandwidth {bandwidth} exceeds what tc-red can express; give at most 34359738360bit"
    )]
    RedBandwidthTooHigh {
        /// Bandwidth that was asked for.
        bandwidth: BitsPerSec,
    },
}

/// Why a network can't be built, or a packet can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetError {
    /// The description of a link is wrong.
    #[error("link {link}: {problem}")]
    Link {
        /// Name of the link, `from->to`.
        link: String,
        /// The unusable value and its remedy.
        problem: SpecError,
    },
    /// Two nodes, or two links, share a name (names seed the random streams).
    #[error("the name {name} is given twice; rename one of the two")]
    NameTwice {
        /// Name that two nodes have.
        name: String,
    },
    /// A host or switch number that belongs to another topology.
    #[error("{node} is not in this topology; use the numbers that its builder returned")]
    UnknownNode {
        /// The node and its number, as text.
        node: String,
    },
    /// A link from a node to itself.
    #[error("{node} is connected to itself; connect two nodes")]
    Loop {
        /// Name of the node.
        node: String,
    },
    /// A ready-made topology with too few parts to have a link between its switches.
    #[error("{shape} of {count} {part}; give at least {least}")]
    TooSmall {
        /// Name of the topology.
        shape: &'static str,
        /// The kind of part of which there are too few.
        part: &'static str,
        /// Number of these parts that was asked for.
        count: usize,
        /// Minimum number of the parts that are too few.
        least: usize,
    },
    /// A fat-tree of switches whose ports can't be divided into lower and upper ones.
    #[error("a fat-tree of switches with {ports} ports; give an even number, at least 2")]
    OddPorts {
        /// Number of ports of each switch that was asked for.
        ports: u32,
    },
    /// The topology has more links than a network can number.
    #[error("{links} links in one network; give at most 1048576")]
    TooManyLinks {
        /// Number of links of the topology.
        links: usize,
    },
    /// No chain of links leads from one host to the other.
    #[error("no way from host {from} to host {to}; connect them through a switch")]
    NoRoute {
        /// Number of the sending host.
        from: u32,
        /// Number of the receiving host.
        to: u32,
    },
}
