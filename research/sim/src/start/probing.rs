//! The sending host's part: when to probe, and what the peer's answer shows.

use uc_core::watch::{self, Path, StartPolicy};
use uc_net::Nanos;
use uc_tcp::{Segment, flags};

use super::known::{Ends, Starts};

/// State of a flow's probes at the sending host.
#[derive(Clone, Debug, Default)]
pub(super) struct Probing {
    /// Time at which the flow's first packet enters the network, after its probes; `None`: the guest has sent none.
    asked: Option<Nanos>,
    /// Whether the flow's first packet was retransmitted, so that the answer gives no round-trip
    /// time (RFC 6298 §3).
    again: bool,
    answered: bool,
    decided: Nanos,
    pub(super) probes: u32,
    pub(super) next: u32,
    span_ns: u32,
    random: u32,
}

impl Probing {
    /// Returns for how many nanoseconds a segment of the guest waits, while probes are sent; 0: it does not wait.
    pub(super) fn asks(
        &mut self,
        now: Nanos,
        policy: &StartPolicy,
        segment: &Segment,
        ends: Ends,
        hosts: &mut Starts,
    ) -> u64 {
        if !segment.has(flags::SYN) {
            return 0;
        }
        if self.asked.is_some() {
            self.again = true;
            return 0;
        }
        let path = hosts.paths.entry(ends).or_default();
        self.probes = policy.probes(path, now.0);
        self.asked = Some(now);
        if self.probes == 0 {
            hosts.counts.unprobed += 1;
            return 0;
        }
        hosts.counts.probed += 1;
        self.decided = now;
        self.span_ns = policy.span_ns(path);
        self.random = hosts.random.bits32();
        let span_ns = u64::from(self.span_ns).max(1);
        self.asked = Some(now + Nanos(span_ns));
        span_ns
    }

    pub(super) fn next_probe(&self) -> Option<Nanos> {
        if self.next >= self.probes {
            return None;
        }
        let offset_ns = watch::offset_ns(self.span_ns, self.probes, self.next, self.random);
        Some(self.decided + Nanos(offset_ns.into()))
    }

    /// Processes a segment of the peer: the answer to the first packet, or an echo of a mark.
    pub(super) fn hears(
        &mut self,
        now: Nanos,
        policy: &StartPolicy,
        segment: &Segment,
        path: &mut Path,
    ) {
        let is_answer = !self.answered && segment.has(flags::ACK);
        if let (true, Some(asked)) = (is_answer, self.asked) {
            self.answered = true;
            let rtt = if self.again {
                Nanos(u64::from(path.rtt_us) * 1_000)
            } else {
                now.since(asked)
            };
            let is_syn = segment.has(flags::SYN);
            let window_bytes = if is_syn { segment.window.into() } else { 0 };
            path.answered(policy, window_bytes, segment.options.mss_bytes, rtt.0);
        }
        if segment.has(flags::ECE) && !segment.has(flags::SYN) {
            path.echoed();
        }
    }
}
