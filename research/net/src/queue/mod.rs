//! Queue disciplines. Each decides on a packet when the packet arrives; packets leave in the order
//! in which they came.

pub mod droptail;
pub mod red;
pub mod threshold;

use std::collections::VecDeque;
use std::fmt;

use uc_words::Nanos;

use crate::error::SpecError;
use crate::packet::{Ecn, Packet};
use crate::random::Stream;
use droptail::DropTail;
use red::{Red, RedSpec};
use threshold::Threshold;

/// A queue length in bytes or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A length in link-layer bytes.
    Bytes(u64),
    /// A length in packets of any size.
    Packets(u64),
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Bytes(bytes) => write!(f, "{bytes}B"),
            Length::Packets(packets) => write!(f, "{packets} packets"),
        }
    }
}

/// The packets that wait in a queue. The packet in transmission has left the queue and is not
/// counted, as in Linux's qdiscs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of link-layer bytes that wait in the queue.
    pub bytes: u64,
    /// Number of packets that wait in the queue.
    pub packets: u64,
}

impl Backlog {
    /// Returns whether the backlog lies above `length`.
    pub fn exceeds(self, length: Length) -> bool {
        match length {
            Length::Bytes(bytes) => self.bytes > bytes,
            Length::Packets(packets) => self.packets > packets,
        }
    }

    /// Returns the backlog after a packet of `size_bytes` has joined.
    pub fn with(self, size_bytes: u32) -> Backlog {
        Backlog {
            bytes: self.bytes + u64::from(size_bytes),
            packets: self.packets + 1,
        }
    }
}

/// A queue as an experiment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueSpec {
    /// DropTail: drops what does not fit.
    DropTail {
        /// Maximum length of the queue.
        limit: Length,
    },
    /// Step marking by the instantaneous queue length (DCTCP's switch).
    Threshold {
        /// Maximum length of the queue.
        limit: Length,
        /// Marking threshold K: a packet is marked if more than K waits when it arrives.
        mark: Length,
        /// Whether packets that are not ECN-capable are dropped above K, as RED does; otherwise
        /// they are queued up to the limit.
        drop_not_ect: bool,
    },
    /// Random early detection as Linux's tc-red computes it.
    Red(RedSpec),
}

/// Why a packet was dropped. The order is that of [`DropReason::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The queue was at its limit.
    Full,
    /// RED dropped at random between min and max; the packet was not ECN-capable.
    Early,
    /// RED's average was at or above max; the packet was not ECN-capable, or RED drops there.
    Forced,
    /// The queue was above the threshold K, and the packet was not ECN-capable (`drop_not_ect`
    /// only).
    AboveThreshold,
    /// A loss rule of the link matched.
    Fault,
}

impl DropReason {
    /// All reasons for a drop, in declaration order.
    pub const ALL: [DropReason; 5] = [
        DropReason::Full,
        DropReason::Early,
        DropReason::Forced,
        DropReason::AboveThreshold,
        DropReason::Fault,
    ];

    /// Returns the reason's name in records and reports.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Full => "full",
            DropReason::Early => "early",
            DropReason::Forced => "forced",
            DropReason::AboveThreshold => "above_threshold",
            DropReason::Fault => "fault",
        }
    }
}

/// The fate of a packet that was offered to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet waits, unmarked by this queue.
    Queued,
    /// The packet waits, and this queue set CE.
    Marked,
    /// The queue dropped the packet, for this reason.
    Dropped(DropReason),
}

/// An arriving packet as RED sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    pub(crate) size_bytes: u32,
    pub(crate) ecn: Ecn,
    /// The queue without the arriving packet.
    pub(crate) backlog: Backlog,
}

/// The discipline of a queue. An enum, not a trait object, for speed: every packet calls it at every hop.
#[derive(Clone, Debug)]
enum Discipline {
    DropTail(DropTail),
    // Boxed, since nearly all queues are DropTail, and these are smaller.
    Threshold(Box<Threshold>),
    Red(Box<Red>),
}

/// A packet that waits in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Time at which the packet's transmission starts.
    starts: Nanos,
    size_bytes: u32,
}

/// A first-in, first-out queue under a discipline. It holds no packets, only their sizes and the times at which their
/// transmissions start.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Queue {
    discipline: Discipline,
    backlog: Backlog,
    /// The packets of the backlog. The last field, since it is not used while nothing waits.
    waiting: VecDeque<Waiting>,
}

impl Queue {
    /// Creates an empty queue; RED draws from `random`.
    ///
    /// # Errors
    /// Names the value of `spec` that can't be used.
    pub(crate) fn new(spec: &QueueSpec, random: Stream) -> Result<Queue, SpecError> {
        let discipline = match spec {
            QueueSpec::DropTail { limit } => Discipline::DropTail(DropTail::new(*limit)?),
            QueueSpec::Threshold {
                limit,
                mark,
                drop_not_ect,
            } => {
                let threshold = Threshold::new(*limit, *mark, *drop_not_ect)?;
                Discipline::Threshold(Box::new(threshold))
            }
            QueueSpec::Red(spec) => Discipline::Red(Box::new(Red::new(spec, random)?)),
        };
        Ok(Queue {
            discipline,
            backlog: Backlog::default(),
            waiting: VecDeque::new(),
        })
    }

    /// Decides on a packet of `size_bytes` that arrives at `now`, and marks it if the verdict is [`Verdict::Marked`]. A
    /// discipline that does not need the ECN field does not touch the packet. A packet that is not dropped goes into
    /// the queue by [`Queue::push`], or straight to the transmitter if nothing waits and the transmitter is free.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        now: Nanos,
        size_bytes: u32,
        packet: &mut impl Packet,
    ) -> Verdict {
        let backlog = self.backlog;
        let verdict = match &mut self.discipline {
            Discipline::DropTail(tail) => tail.judge(backlog.with(size_bytes)),
            Discipline::Threshold(threshold) => {
                threshold.judge(backlog, size_bytes, || packet.ecn())
            }
            Discipline::Red(red) => red.judge(&Arrival {
                at: now,
                size_bytes,
                ecn: packet.ecn(),
                backlog,
            }),
        };
        if verdict == Verdict::Marked {
            packet.set_ce();
        }
        verdict
    }

    /// Returns whether the discipline is DropTail.
    pub(crate) fn is_drop_tail(&self) -> bool {
        matches!(self.discipline, Discipline::DropTail(_))
    }

    /// Returns whether a packet that arrives now fits in a DropTail queue; `false` under another
    /// discipline.
    #[inline]
    pub(crate) fn has_room(&self, size_bytes: u32) -> bool {
        match &self.discipline {
            Discipline::DropTail(tail) => tail.has_room(self.backlog.with(size_bytes)),
            Discipline::Threshold(_) | Discipline::Red(_) => false,
        }
    }

    /// Appends a packet that [`Queue::judge`] did not drop; its transmission starts at `starts`.
    #[inline]
    pub(crate) fn push(&mut self, starts: Nanos, size_bytes: u32) {
        self.backlog = self.backlog.with(size_bytes);
        self.waiting.push_back(Waiting { starts, size_bytes });
    }

    /// Removes the packets whose transmission has started by `now`.
    #[inline(always)]
    pub(crate) fn start_due(&mut self, now: Nanos) {
        if self.backlog.packets > 0 {
            self.start_waiting(now);
        }
    }

    #[inline]
    fn start_waiting(&mut self, now: Nanos) {
        while let Some(first) = self.waiting.front()
            && first.starts <= now
        {
            self.backlog.bytes -= u64::from(first.size_bytes);
            self.backlog.packets -= 1;
            self.waiting.pop_front();
        }
    }

    /// Reports that the transmitter has had nothing to send since `since`. This starts RED's idle period, unless one
    /// has started already; other disciplines ignore it.
    #[inline]
    pub(crate) fn idle(&mut self, since: Nanos) {
        if let Discipline::Red(red) = &mut self.discipline {
            red.emptied(since);
        }
    }

    /// Returns RED's average as the last arrival left it, in bytes; `None` under the other
    /// disciplines.
    pub(crate) fn average_bytes(&self) -> Option<u64> {
        match &self.discipline {
            Discipline::Red(red) => Some(red.average_bytes()),
            Discipline::DropTail(_) | Discipline::Threshold(_) => None,
        }
    }

    /// Returns the packets and bytes that wait, as of the last [`Queue::start_due`].
    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }
}
