//! Events of a law at a port: differences between a flow's small fields before a segment and behind
//! it, as `bpf/port/news.h` finds them in the kernel.

use uc_core::{Flow, Law, Reason, consts, law};
use uc_experiment::{LawEvent, LawEventKind};
use uc_net::Nanos;

/// The fields of a flow that show the law's events by their changes, as they were before a segment.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    cuts: u32,
    losses: u32,
    ca: u8,
    cwnd: u32,
}

impl Noted {
    /// Reads the fields of a flow that show events.
    #[inline]
    pub fn of(flow: &Flow) -> Noted {
        Noted {
            cuts: flow.cuts,
            losses: flow.losses,
            ca: flow.ca,
            cwnd: flow.reno.cwnd,
        }
    }

    #[inline]
    fn is_same(&self, flow: &Flow) -> bool {
        self.cuts == flow.cuts && self.losses == flow.losses && self.ca == flow.ca
    }

    /// Returns the events that the segment caused. Counters that fell belong to a new connection, and show no event.
    fn kinds(&self, flow: &Flow, reason: Reason) -> [Option<LawEventKind>; 3] {
        let ca = u32::from(flow.ca);
        let is_loss = flow.losses > self.losses;
        let is_repaired = u32::from(self.ca) > consts::CA_CWR && ca <= consts::CA_CWR;
        let loss = match (is_loss, ca) {
            (true, consts::CA_LOSS) => Some(LawEventKind::Timeout),
            (true, _) => Some(LawEventKind::FastRetransmit),
            (false, _) if is_repaired => Some(LawEventKind::Recovered),
            _ => None,
        };
        let is_less = aim(flow) < self.cwnd;
        let cut = match flow.cuts > self.cuts {
            true if is_less => Some(LawEventKind::Cut),
            true => Some(LawEventKind::Floor),
            false => None,
        };
        [
            cut,
            loss,
            (reason == Reason::BEYOND_EDGE).then_some(LawEventKind::Guarded),
        ]
    }
}

/// The events of one port since they were last taken, an entry for each kind.
#[derive(Clone, Debug, Default)]
pub struct Events(Vec<LawEvent>);

impl Events {
    /// Adds the events that a segment caused at its flow, whether the segment passed or was dropped.
    #[inline]
    pub fn note(&mut self, now: Nanos, before: Noted, flow: &Flow, reason: Reason) {
        if before.is_same(flow) && reason != Reason::BEYOND_EDGE {
            return;
        }
        for kind in before.kinds(flow, reason).into_iter().flatten() {
            self.add(now, kind, before, flow);
        }
    }

    #[cold]
    fn add(&mut self, now: Nanos, kind: LawEventKind, before: Noted, flow: &Flow) {
        let ssthresh = flow.reno.ssthresh;
        let event = LawEvent {
            at_ns: now.0,
            kind,
            times: 1,
            before_bytes: in_bytes(flow, before.cwnd),
            after_bytes: in_bytes(flow, aim(flow)),
            ssthresh_bytes: (ssthresh < consts::INFINITE_SSTHRESH)
                .then(|| in_bytes(flow, ssthresh)),
        };
        match self.0.iter_mut().find(|earlier| earlier.kind == kind) {
            None => self.0.push(event),
            Some(earlier) => {
                earlier.times = earlier.times.saturating_add(1);
                earlier.after_bytes = event.after_bytes;
                earlier.ssthresh_bytes = event.ssthresh_bytes;
            }
        }
    }

    /// Returns the events, and forgets them.
    pub fn take(&mut self) -> std::vec::Drain<'_, LawEvent> {
        self.0.drain(..)
    }
}

/// Returns whether the law's window counts whole segments (`uc_counts_segments`).
fn counts_segments(flow: &Flow) -> bool {
    let is_linux = u32::from(flow.policy.profile) == consts::PROFILE_LINUX;
    is_linux && !Law::of(&flow.policy).has(law::Trait::BYTES)
}

fn in_bytes(flow: &Flow, window: u32) -> u32 {
    let unit = if counts_segments(flow) {
        u32::from(flow.mss_bytes)
    } else {
        1
    };
    window.saturating_mul(unit)
}

/// Returns the window to which a reduction leads. Profile `linux` reduces cwnd to this window step by step.
fn aim(flow: &Flow) -> u32 {
    let is_reducing = [consts::CA_CWR, consts::CA_RECOVERY].contains(&u32::from(flow.ca));
    if counts_segments(flow) && is_reducing {
        flow.reno.ssthresh
    } else {
        flow.reno.cwnd
    }
}
