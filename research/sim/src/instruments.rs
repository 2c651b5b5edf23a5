//! Instruments at a sender, in addition to the state of its TCP and its port.

use uc_core::Policy;
use uc_experiment::{ACK_GAP_BIN, Histogram};
use uc_net::Nanos;
use uc_tcp::{Segment, flags};

use crate::exact::ExactAlpha;
use crate::packet_times::PacketTimes;
use crate::port::Port;

/// Number of bins of ACK gaps, of which the last also takes all longer gaps.
const ACK_GAP_BINS: usize = 64;

/// Gaps between ACKs that reached a sender.
#[derive(Clone, Debug)]
pub struct AckGaps {
    last: Option<Nanos>,
    bins: [u32; ACK_GAP_BINS],
}

impl Default for AckGaps {
    fn default() -> AckGaps {
        AckGaps {
            last: None,
            bins: [0; ACK_GAP_BINS],
        }
    }
}

impl AckGaps {
    #[inline]
    fn acknowledged(&mut self, now: Nanos) {
        let last = self.last.replace(now);
        if let Some(last) = last {
            let gap_ns = now.since(last).0;
            let bin = (gap_ns / ACK_GAP_BIN.0).min(ACK_GAP_BINS as u64 - 1);
            self.bins[bin as usize] += 1;
        }
    }

    /// Returns the number of gaps in [100·i, 100·(i + 1)) ms, for each i.
    pub fn bins(&self) -> &[u32] {
        &self.bins
    }
}

/// Maximum number of flows for which each histogram is allocated in full at the start (17 kB each). With more flows,
/// histograms grow on demand.
const ROOMY_FLOWS_MAX: usize = 1_024;

/// Round-trip times of the packets of every flow, while they are measured.
#[derive(Clone, Debug, Default)]
pub struct PacketRtts {
    is_on: bool,
    flows: Vec<Histogram>,
}

impl PacketRtts {
    /// Returns whether packets that leave now are timed.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Starts timing the packets of this many flows.
    pub fn start(&mut self, flows: usize) {
        self.is_on = true;
        let empty = if flows <= ROOMY_FLOWS_MAX {
            Histogram::roomy
        } else {
            Histogram::default
        };
        self.flows.resize_with(flows, empty);
    }

    /// Stops timing; later ACKs of packets sent before do not count either.
    pub fn stop(&mut self) {
        self.is_on = false;
    }

    /// Returns the round-trip times of a flow's packets, in nanoseconds; `None` if they were never measured.
    pub fn of(&self, flow: usize) -> Option<&Histogram> {
        self.flows.get(flow)
    }

    #[inline]
    pub(crate) fn record(&mut self, flow: u32, rtt: Nanos) {
        if !self.is_on {
            return;
        }
        if let Some(times) = self.flows.get_mut(flow as usize) {
            times.record(rtt.0);
        }
    }
}

/// The instruments at one guest's end of a connection. The fields that every packet uses are in the first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Instruments {
    packets: PacketTimes,
    /// Gaps between the ACKs that reached the guest.
    pub gaps: AckGaps,
    /// The α that the port's law would have if it knew every mark; `None`: the port's law has no α.
    pub exact: Option<ExactAlpha>,
}

impl Instruments {
    /// Creates the instruments of a guest whose port has this policy.
    pub fn new(policy: Option<&Policy>) -> Instruments {
        Instruments {
            packets: PacketTimes::default(),
            gaps: AckGaps::default(),
            exact: policy.and_then(ExactAlpha::of),
        }
    }

    /// Observes an arriving segment that has passed the port. Calls `tell` with the round-trip time of each timed
    /// packet that the segment acknowledges.
    #[inline(always)]
    pub fn arrived(
        &mut self,
        now: Nanos,
        segment: &Segment,
        port: Option<&Port>,
        tell: impl FnMut(Nanos),
    ) {
        if !segment.has(flags::ACK) {
            return;
        }
        self.gaps.acknowledged(now);
        self.packets.acknowledged(now, segment.ack, tell);
        if let (Some(exact), Some(flow)) = (&mut self.exact, port.and_then(Port::flow)) {
            exact.acknowledged(flow);
        }
    }

    /// Observes a segment that has passed the port and enters the network.
    #[inline(always)]
    pub fn leaves(&mut self, now: Nanos, segment: &Segment, is_timed: bool) {
        if segment.payload_bytes > 0 {
            let (seq, bytes) = (segment.seq, segment.payload_bytes);
            self.packets.sent(now, seq, bytes, is_timed);
        }
    }
}
