//! What the hosts keep as one of several parts, and what the parts tell each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use uc_net::order::{Cause, Log};
use uc_net::{Crossing, Division, Nanos};

use super::notice::Notice;
use crate::end::{Coming, End};
use crate::error::SimError;
use crate::packet::{Address, Packet};

/// An event at which an application may get a notice, or that concerns two hosts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// Time of the event.
    pub at: Nanos,
    /// Cause of what follows, which gives the event's place among those of the same time.
    pub cause: Cause,
}

/// An end that was closed while its application waits for that.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    /// Time at which it was closed.
    pub at: Nanos,
    /// Event that closed it.
    pub cause: Cause,
    /// Number of the end's connection.
    pub connection: usize,
}

/// Data that reached its receiver's host with a mark.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Address of the sending end.
    pub sender: Address,
    /// Sequence number of its first byte.
    pub seq: u32,
    /// Number of its bytes.
    pub payload_bytes: u16,
}

/// When a timer fires, with its number; `None` if it isn't armed.
pub type Armed = Option<(Nanos, u64)>;

/// What a part tells the others when they meet.
#[derive(Debug, Default)]
pub struct Report {
    /// Time of the part's first event.
    pub next: Option<Nanos>,
    /// First stop of the part.
    pub stop: Option<Stop>,
    /// Notice that followed from the stop at which the parts meet.
    pub notice: Option<Notice>,
    /// Why the part can't go on.
    pub error: Option<SimError>,
    /// Ends that were closed.
    pub closings: Vec<Closing>,
    /// Marked data whose senders' instruments may be in other parts.
    pub marks: Vec<Mark>,
    /// Timers of ends that are closed and whose other end isn't, by place, where they have changed.
    pub armed: Vec<(usize, Armed)>,
    /// Numbers that packets got in the window.
    pub packets: Log,
    /// Numbers that timers got in the window.
    pub timers: Log,
    /// Packets that leave for each part.
    pub leaving: Vec<Vec<Crossing<Packet>>>,
}

/// An end as it was before an event that came after it was closed. The counters of a connection are those
/// of the time at which its second end was closed, which another part may learn later.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) at: Nanos,
    pub(super) cause: Cause,
    pub(super) place: usize,
    pub(super) end: End,
}

/// What will be a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Halt {
    /// The packet with this number in the network arrives.
    Arrival(u32),
    /// The flow with this number is woken.
    Wake(usize),
}

/// What the hosts keep as one of several parts.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) number: usize,
    pub(super) division: Arc<Division>,
    /// Part of each flow's guest, where the flow is woken.
    pub(super) wakers: Vec<usize>,
    /// Operations of applications since the last event.
    pub(super) deed: u32,
    /// Data that comes to each end.
    pub(super) coming: Vec<Coming>,
    pub(super) marks: Vec<Mark>,
    pub(super) closings: Vec<Closing>,
    /// Places of the ends of this part that are closed and whose other end isn't, and what is known to the
    /// others of their timers.
    pub(super) half_closed: Vec<(usize, Option<Armed>)>,
    /// Closed ends that had events in this window, in the order of the events.
    pub(super) late: Vec<Before>,
    /// Stops of this part. An arrival is known a lookahead before.
    pub(super) halts: BTreeSet<(Nanos, Halt)>,
    /// The first of them that was reported.
    pub(super) first_halt: Option<(Nanos, Halt)>,
    /// First time at which a flow of any part is woken, of those that were requested last.
    pub(super) woken: Nanos,
}
