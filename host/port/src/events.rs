//! Flow events, as the programs record them (`bpf/port/event.h`).

use std::net::SocketAddr;

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Reason;
use uc_core::remote::News;

use crate::bytes::read;
use crate::error::PortError;
use crate::flows::{FlowView, ends};
use crate::layout;
use crate::programs::Programs;

/// An event in the history of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the event in the flow's life, from 1.
    pub number: u16,
    /// Time of the event in nanoseconds, by `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Number of times that the event occurred in a row; 255 means 255 or more.
    pub times: u8,
    /// Window that the law had before the event, in bytes.
    pub before_bytes: u32,
    /// The law's window after the event; for a window reduction, the window that it leads to.
    pub after_bytes: u32,
    /// Kind of the event, with the kind's own data.
    pub kind: EventKind,
}

/// The parameters that both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Payload of a full segment of the guest, in bytes.
    pub mss_bytes: u16,
    /// Shift of the peer's windows (window scale).
    pub wscale: u8,
    /// Whether the flow is ECN-capable on the network.
    pub ecn: bool,
    /// Whether both ends may use SACK.
    pub sack: bool,
    /// Whether segments carry timestamps.
    pub timestamps: bool,
}

/// The FINs and resets of the connection that were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Whether the guest's FIN was seen.
    pub guest: bool,
    /// Whether the peer's FIN was seen.
    pub peer: bool,
    /// Whether a reset was seen.
    pub reset: bool,
}

/// The kinds of events, each with its own data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The flow's first SYN was seen.
    Opened {
        /// Whether the guest sent the SYN; otherwise the peer did.
        by_guest: bool,
    },
    /// A retransmitted SYN of the flow was seen.
    SynAgain {
        /// Number of the flow's SYNs so far.
        syns: u8,
    },
    /// The handshake is complete, with these parameters, and the law begins.
    Agreed(Agreed),
    /// The law reduced its window on ECE or delay.
    Cut {
        /// Signal of the law: for law `dctcp` α in 1/2³⁰, for other laws the smoothed round-trip time in
        /// microseconds.
        signal: u32,
    },
    /// The guest retransmitted a segment by fast retransmit.
    FastRetransmit {
        /// Number of bytes in flight at the event.
        flight_bytes: u32,
    },
    /// The guest's retransmission timer expired.
    Timeout {
        /// Number of bytes in flight at the event.
        flight_bytes: u32,
    },
    /// Loss recovery is complete.
    Recovered,
    /// The advertised window is less than the receiver's from now on.
    Below {
        /// Window that the receiver advertised, in bytes.
        receiver_bytes: u32,
        /// Window that the port advertised to the guest instead, in bytes.
        given_bytes: u32,
    },
    /// The advertised window is the receiver's again.
    Returned {
        /// Window that the receiver advertised, in bytes.
        receiver_bytes: u32,
    },
    /// Law `coupled`: the group gave the flow its first share.
    Shared {
        /// The flow's share of the group's window.
        share_bytes: u32,
    },
    /// The guard dropped a segment that exceeded the guest's window.
    Guarded {
        /// How far the segment ended beyond the furthest advertised edge.
        beyond_bytes: u32,
    },
    /// The connection ended by FINs or a reset.
    Closed(Closing),
    /// The flow goes on without ECN, or later flows to the same remote address do.
    WithoutEcn {
        /// What the flow showed of how the remote address handles ECN; `None` if the flow began without ECN.
        shown: Option<News>,
    },
}

impl EventKind {
    /// Returns the name for JSON, in `snake_case`.
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
            EventKind::WithoutEcn { .. } => "without_ecn",
        }
    }
}

/// A flow that passes unmodified from its handshake on.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Interface index of the port.
    pub ifindex: u32,
    /// Address and port of the guest's end.
    pub guest: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// ID of the VLAN in which the port has seen it; 0: in none.
    pub vlan: u16,
    /// Why the flow passes unmodified.
    pub reason: Reason,
    /// Time at which the flow's handshake was seen, in ns of `CLOCK_MONOTONIC`.
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
        layout::UC_EVENT_WITHOUT_ECN => EventKind::WithoutEcn {
            shown: News::of(raw.value),
        },
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
    /// Returns a flow's last events, at most 16, the oldest first; empty if no events are recorded for this flow.
    pub fn events(&self, flow: &FlowView) -> Result<Vec<Event>, PortError> {
        let ring = self
            .maps
            .events
            .lookup(&flow.place.to_ne_bytes(), MapFlags::LOCK);
        let ring = match ring {
            Ok(ring) => ring.and_then(|bytes| read::<layout::uc_ring>(&bytes)),
            // a place beyond the rings
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(PortError::from_libbpf(
                    "read the event ring of a flow",
                    &error,
                ));
            }
        };
        let Some(ring) = ring else {
            return Ok(Vec::new());
        };
        let kept = layout::UC_EVENTS_KEPT;
        let first = ring.count.saturating_sub(kept);
        let slots = (first..ring.count).map(|number| ring.events[(number % kept) as usize]);
        Ok(slots.filter_map(|raw| event(&raw)).collect())
    }

    /// Returns the latest flows that passed unmodified, the newest first: at most 32 of each port with a plan, and 32
    /// of all ports without a plan.
    pub fn passed(&self) -> Result<Vec<Passed>, PortError> {
        let failed = |error| PortError::from_libbpf("read which flows passed", &error);
        let states = self.port_states()?;
        let number_of = |ifindex: u32| {
            let state = states.get(&ifindex);
            state.map_or(layout::UC_NUMBER_NONE, |state| state.number)
        };
        let planned = states.values().map(|state| state.number);
        let mut passed = Vec::new();
        for number in std::iter::once(layout::UC_NUMBER_NONE).chain(planned) {
            let first = number * layout::UC_PASSED_KEPT;
            for index in first..first + layout::UC_PASSED_KEPT {
                let bytes = self
                    .maps
                    .passed
                    .lookup(&index.to_ne_bytes(), MapFlags::LOCK)
                    .map_err(failed)?;
                let entry = bytes.and_then(|bytes| read::<layout::uc_passed>(&bytes));
                // a port that is gone may have had the ring before
                let is_own = |entry: &layout::uc_passed| {
                    entry.at_ns > 0 && number_of(entry.key.ifindex) == number
                };
                let Some(entry) = entry.filter(is_own) else {
                    continue;
                };
                let (guest, remote) = ends(&entry.key);
                passed.push(Passed {
                    ifindex: entry.key.ifindex,
                    guest,
                    remote,
                    vlan: entry.key.vlan as u16,
                    reason: Reason::from_code(entry.reason),
                    at_ns: entry.at_ns,
                });
            }
        }
        passed.sort_by_key(|entry| std::cmp::Reverse(entry.at_ns));
        Ok(passed)
    }
}
