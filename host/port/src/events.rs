//! What has happened to a flow, as the programs wrote it down (`bpf/port/event.h`).

use std::net::SocketAddr;

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Reason;

use crate::bytes::read;
use crate::error::PortError;
use crate::flows::{FlowView, ends};
use crate::layout;
use crate::programs::Programs;

/// Something that happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// In the flow's life, from 1 on.
    pub number: u16,
    /// When, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Number of equal events in a row that this one stands for; 255: or more.
    pub times: u8,
    /// The law's window before the event.
    pub before_bytes: u32,
    /// The law's window after the event; of a reduction, its target.
    pub after_bytes: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Payload of a full segment.
    pub mss_bytes: u16,
    /// Shift of the peer's windows.
    pub wscale: u8,
    /// Is the flow ECN-capable on the network?
    pub ecn: bool,
    /// May both ends use SACK?
    pub sack: bool,
    /// Do segments carry timestamps?
    pub timestamps: bool,
}

/// How the connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The guest's FIN was seen.
    pub guest: bool,
    /// The peer's FIN was seen.
    pub peer: bool,
    /// A reset was seen.
    pub reset: bool,
}

/// The kinds of events, each with what only it has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The flow's first SYN.
    Opened {
        /// The guest sent it; otherwise the peer.
        by_guest: bool,
    },
    /// A repeated SYN of the flow.
    SynAgain {
        /// SYNs so far.
        syns: u8,
    },
    /// Both ends agreed, and the law begins.
    Agreed(Agreed),
    /// The law reduced its window on ECE or delay.
    Cut {
        /// With law `dctcp`, α in 1/2³⁰; with others, the smoothed round-trip time in µs.
        signal: u32,
    },
    /// The guest's fast retransmit.
    FastRetransmit {
        /// Bytes in flight.
        flight_bytes: u32,
    },
    /// The guest's retransmission timer fired.
    Timeout {
        /// Bytes in flight.
        flight_bytes: u32,
    },
    /// Loss recovery is complete.
    Recovered,
    /// The advertised window falls below the receiver's.
    Below {
        /// The receiver's window.
        receiver_bytes: u32,
        /// The advertised window.
        given_bytes: u32,
    },
    /// The advertised window is the receiver's again.
    Returned {
        /// The receiver's window.
        receiver_bytes: u32,
    },
    /// Law `coupled`: the group gave the flow its first share.
    Shared {
        /// The share.
        share_bytes: u32,
    },
    /// The guard dropped a segment.
    Guarded {
        /// How far it lay beyond the furthest edge given.
        beyond_bytes: u32,
    },
    /// The connection ended.
    Closed(Closing),
}

impl EventKind {
    /// A name for JSON, `snake_case`.
    pub fn label(&self) -> &'static str {
        match self {
            EventKind::Opened { .. } => "opened",
            EventKind::SynAgain { .. } => "syn_again",
            EventKind::Agreed(_) => "agreed",
            EventKind::Cut { .. } => "cut",
            EventKind::FastRetransmit { .. } => "fast_retransmit",
            EventKind::Timeout { .. } => "timeout",
            EventKind::Recovered => "recovered",
            EventKind::Below { .. } => "below_receiver",
            EventKind::Returned { .. } => "returned",
            EventKind::Shared { .. } => "shared",
            EventKind::Guarded { .. } => "guarded",
            EventKind::Closed(_) => "closed",
        }
    }
}

/// A flow that was passed on untouched from its handshake on.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Interface index of the port.
    pub ifindex: u32,
    /// The guest's end.
    pub guest: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Why it passed.
    pub reason: Reason,
    /// When, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

fn agreed(value: u32) -> Agreed {
    let has = |bit: u32| value & bit != 0;
    Agreed {
        mss_bytes: value as u16,
        wscale: (value >> 16 & 15) as u8,
        ecn: has(layout::UC_AGREED_ECN),
        sack: has(layout::UC_AGREED_SACK),
        timestamps: has(layout::UC_AGREED_TIMESTAMPS),
    }
}

fn closing(value: u32) -> Closing {
    let has = |bit: u32| value & bit != 0;
    Closing {
        guest: has(layout::UC_CLOSING_GUEST),
        peer: has(layout::UC_CLOSING_PEER),
        reset: has(layout::UC_CLOSING_RESET),
    }
}

fn event(raw: &layout::uc_event) -> Option<Event> {
    let flight_bytes = raw.value;
    let kind = match u32::from(raw.kind) {
        layout::UC_EVENT_OPENED => EventKind::Opened {
            by_guest: raw.value == uc_core::consts::SYN_SENT,
        },
        layout::UC_EVENT_SYN_AGAIN => EventKind::SynAgain {
            syns: raw.value as u8,
        },
        layout::UC_EVENT_AGREED => EventKind::Agreed(agreed(raw.value)),
        layout::UC_EVENT_CUT => EventKind::Cut { signal: raw.value },
        layout::UC_EVENT_FAST_RETRANSMIT => EventKind::FastRetransmit { flight_bytes },
        layout::UC_EVENT_TIMEOUT => EventKind::Timeout { flight_bytes },
        layout::UC_EVENT_RECOVERED => EventKind::Recovered,
        layout::UC_EVENT_BELOW => EventKind::Below {
            receiver_bytes: raw.before_bytes,
            given_bytes: raw.after_bytes,
        },
        layout::UC_EVENT_RETURNED => EventKind::Returned {
            receiver_bytes: raw.before_bytes,
        },
        layout::UC_EVENT_SHARED => EventKind::Shared {
            share_bytes: raw.after_bytes,
        },
        layout::UC_EVENT_GUARDED => EventKind::Guarded {
            beyond_bytes: raw.value,
        },
        layout::UC_EVENT_CLOSED => EventKind::Closed(closing(raw.value)),
        _ => return None,
    };
    Some(Event {
        number: raw.number,
        at_ns: raw.at_ns,
        times: raw.times,
        before_bytes: raw.before_bytes,
        after_bytes: raw.after_bytes,
        kind,
    })
}

impl Programs {
    /// The last events of a flow, the oldest first: at most 16. None where events are not
    /// remembered, for this flow or for any.
    pub fn events(&self, flow: &FlowView) -> Result<Vec<Event>, PortError> {
        let ring = self
            .maps
            .events
            .lookup(&flow.place.to_ne_bytes(), MapFlags::LOCK);
        let ring = match ring {
            Ok(ring) => ring.and_then(|bytes| read::<layout::uc_ring>(&bytes)),
            // a place beyond the rings
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => None,
            Err(error) => return Err(PortError::from_libbpf("read a flow's events", &error)),
        };
        let Some(ring) = ring else {
            return Ok(Vec::new());
        };
        let kept = layout::UC_EVENTS_KEPT;
        let first = ring.count.saturating_sub(kept);
        let slots = (first..ring.count).map(|number| ring.events[(number % kept) as usize]);
        Ok(slots.filter_map(|raw| event(&raw)).collect())
    }

    /// The last flows that passed, the latest first: at most 256, of all ports.
    pub fn passed(&self) -> Result<Vec<Passed>, PortError> {
        let failed = |error| PortError::from_libbpf("read which flows passed", &error);
        let mut passed = Vec::new();
        for index in 0..layout::UC_PASSED_KEPT {
            let bytes = self
                .maps
                .passed
                .lookup(&index.to_ne_bytes(), MapFlags::LOCK)
                .map_err(failed)?;
            let entry = bytes.and_then(|bytes| read::<layout::uc_passed>(&bytes));
            let Some(entry) = entry.filter(|entry| entry.at_ns > 0) else {
                continue;
            };
            let (guest, remote) = ends(&entry.key);
            passed.push(Passed {
                ifindex: entry.key.ifindex,
                guest,
                remote,
                reason: Reason::from_code(entry.reason),
                at_ns: entry.at_ns,
            });
        }
        passed.sort_by_key(|entry| std::cmp::Reverse(entry.at_ns));
        Ok(passed)
    }
}
