//! The port of one guest in the simulator: the places of its flows, and what its two hooks see.
//!
//! Its rules are those of the kernel's flow table (`bpf/port/table.h`, `quota.h`, `places.h`), for a table that one
//! port has alone. A quota limits settled flows. A new flow takes a free entry, after it has removed the flow at the
//! next index if that is stale; each new half-open flow may displace the oldest one. A flow that has two entries in the
//! kernel has one here.
//!
//! The state of a flow is in the [`Port`](crate::port::Port) of its connection, which forgets a flow that has lost its
//! entry. The entry of a closed connection stays taken until its flow is stale. Groups of flows that share a window
//! span ports: see [`crate::coupling`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use uc_core::hooks::{self, Hooks};
use uc_core::slot::Room;
use uc_core::{Flow, Reason, Segment, consts};

/// Divisor of the table's size: the quotient is the largest number of half-open flows in both rings together
/// (`UC_HALF_OPEN_PART`).
const HALF_OPEN_PART: u32 = 4;
/// Number of free entries for each half-open flow; with fewer, a new half-open flow displaces the oldest
/// (`UC_HALF_OPEN_SPARE`).
const HALF_OPEN_SPARE: u32 = 16;
/// Minimum time between two searches for stale flows at a full quota (`UC_SWEEP_NS`).
pub const SWEEP_NS: u64 = 10_000_000;
/// Number of table indices that one search for stale flows checks (`UC_PLACES_SWEPT`).
const PLACES_SWEPT: u32 = 32;
/// Number of table indices that a new flow tries if no entry is free (`UC_PLACES_TRIED`).
const PLACES_TRIED: u32 = 8;
/// At this many first indices of [`PLACES_TRIED`] a new flow displaces only stale flows, then also half-open ones
/// (`UC_PLACES_TRIED_FIRST`).
const PLACES_TRIED_FIRST: u32 = 4;

/// Settings of a port's table and hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of entries of the flow table.
    pub places: u32,
    /// Maximum number of settled flows; 0: the number of free places.
    pub flows_max: u32,
    /// Whether the port finds out from its traffic if one of its hooks sees no packets. If false, it assumes that both
    /// hooks see all.
    pub watches_hooks: bool,
}

impl Default for Settings {
    /// Returns a table that no guest can fill, with hooks that see all.
    fn default() -> Settings {
        Settings {
            places: 1 << 24,
            flows_max: 0,
            watches_hooks: false,
        }
    }
}

/// The entry of a flow in the table: its index, and a number that no other flow at this index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: usize,
    number: u64,
}

/// What the table stores of the flow at an index.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    stale_after_ns: u64,
    /// Whether the flow has not settled yet.
    half_open: bool,
}

/// The flow table and hooks of one guest's port.
#[derive(Debug)]
pub struct TenantPort {
    settings: Settings,
    /// Entries of the table that were ever used, by index; `None`: free again, and listed in `vacant`.
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    /// Number of flows that have entered the table; the source of [`Place::number`].
    numbers: u64,
    /// Number of table indices searched for stale flows so far; the next index is this number modulo the number of
    /// entries.
    next: usize,
    half_open: u32,
    /// Half-open flows in the order in which they came, the oldest first: those that the guest opened, and those that
    /// peers opened.
    rings: [VecDeque<Place>; 2],
    swept_ns: u64,
    hooks: Option<Hooks>,
}

impl TenantPort {
    /// Creates a port without flows, to be shared by the ends of its guest's connections.
    pub fn shared(settings: Settings) -> Rc<RefCell<TenantPort>> {
        Rc::new(RefCell::new(TenantPort {
            settings,
            entries: Vec::new(),
            vacant: Vec::new(),
            numbers: 0,
            next: 0,
            half_open: 0,
            rings: Default::default(),
            swept_ns: 0,
            // not at time 0, which means "never"
            hooks: settings.watches_hooks.then(|| Hooks::trusted(1)),
        }))
    }

    /// Returns the number of settled flows.
    pub fn settled(&self) -> u32 {
        self.used() - self.half_open
    }

    /// Returns the number of half-open flows.
    pub fn half_open(&self) -> u32 {
        self.half_open
    }

    /// Returns whether a flow still has its entry.
    pub fn has(&self, place: Place) -> bool {
        self.entries[place.index].is_some_and(|entry| entry.number == place.number)
    }

    /// Records a segment at the hook of its direction. Sets `blind` in the segment if the port does not see the answers
    /// to it. `flow`: the segment's flow; `None`: unknown.
    pub fn look(&mut self, segment: &mut Segment, flow: Option<&Flow>, now_ns: u64) {
        let Some(hooks) = &mut self.hooks else {
            return;
        };
        hooks.saw(segment, now_ns);
        let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
        if u32::from(segment.flags) & (consts::SYN | consts::RST) == consts::SYN {
            let asks = from_guest && uc_core::is_syn(segment);
            segment.blind = u8::from(asks && !hooks.ask(now_ns));
        } else if let Some(flow) = flow {
            let other = if from_guest {
                consts::TO_GUEST
            } else {
                consts::FROM_GUEST
            };
            segment.blind = u8::from(hooks.is_blind(other));
            if hooks::is_missed(flow, segment) {
                hooks.missed(now_ns);
            }
        }
    }

    /// Updates a flow's entry from the flow's state after a segment.
    pub fn keep(&mut self, place: Place, flow: &Flow) {
        let Some(entry) = &mut self.entries[place.index] else {
            return;
        };
        entry.stale_after_ns = stale_after_ns(flow);
        if entry.half_open && !uc_core::is_half_open(flow) {
            entry.half_open = false;
            self.half_open -= 1;
        }
    }

    /// Removes a flow from the table, and frees its entry.
    pub fn leave(&mut self, place: Place) {
        if self.has(place) {
            self.remove(place.index);
            self.vacant.push(place.index);
        }
    }

    /// Takes an entry for a half-open flow; `by_peer`: the peer opened the flow.
    ///
    /// # Errors
    /// [`Reason::QUOTA_FULL`], [`Reason::TABLE_FULL`].
    pub fn enter(&mut self, flow: &Flow, by_peer: bool, now_ns: u64) -> Result<Place, Reason> {
        if self.settled() >= self.quota() {
            if now_ns.saturating_sub(self.swept_ns) < SWEEP_NS {
                return Err(Reason::QUOTA_FULL);
            }
            self.swept_ns = now_ns;
            for _ in 0..PLACES_SWEPT {
                self.collect(now_ns);
            }
            if self.settled() >= self.quota() {
                return Err(Reason::QUOTA_FULL);
            }
        }
        self.collect(now_ns);
        let turn = self.next_turn(by_peer);
        let crowded = self.half_open + 1 > self.free() / HALF_OPEN_SPARE;
        let displaced = turn.filter(|&place| crowded && self.has(place));
        let index = displaced
            .and_then(|place| self.give_up(place.index, true, now_ns))
            .or_else(|| self.take(now_ns))
            .ok_or(Reason::TABLE_FULL)?;
        self.numbers += 1;
        self.half_open += 1;
        let place = Place {
            index,
            number: self.numbers,
        };
        self.entries[index] = Some(Entry {
            number: place.number,
            stale_after_ns: stale_after_ns(flow),
            half_open: true,
        });
        self.rings[usize::from(by_peer)].push_back(place);
        Ok(place)
    }

    fn used(&self) -> u32 {
        (self.entries.len() - self.vacant.len()) as u32
    }

    fn free(&self) -> u32 {
        self.settings.places - self.used()
    }

    fn quota(&self) -> u32 {
        match self.settings.flows_max {
            0 => self.free(),
            flows_max => flows_max,
        }
    }

    /// Takes the oldest half-open flow out of its ring, if the ring is full; `None`: it is not.
    fn next_turn(&mut self, by_peer: bool) -> Option<Place> {
        let part = (self.settings.places / HALF_OPEN_PART / 2).max(1);
        let ring = &mut self.rings[usize::from(by_peer)];
        (ring.len() >= part as usize)
            .then(|| ring.pop_front())
            .flatten()
    }

    /// Removes the flow at the next table index of the search if it is stale.
    fn collect(&mut self, now_ns: u64) {
        let next = self.next_index();
        if let Some(index) = next.and_then(|next| self.give_up(next, false, now_ns)) {
            self.vacant.push(index);
        }
    }

    /// Returns the index of a free entry, or of one whose stale or half-open flow it removes. `None`: the table
    /// is full.
    fn take(&mut self, now_ns: u64) -> Option<usize> {
        if let Some(index) = self.vacant.pop() {
            return Some(index);
        }
        if self.entries.len() < self.settings.places as usize {
            self.entries.push(None);
            return Some(self.entries.len() - 1);
        }
        (0..PLACES_TRIED).find_map(|tried| {
            let next = self.next_index()?;
            self.give_up(next, tried >= PLACES_TRIED_FIRST, now_ns)
        })
    }

    fn next_index(&mut self) -> Option<usize> {
        let index = self.next.checked_rem(self.entries.len())?;
        self.next += 1;
        Some(index)
    }

    /// Removes the flow at a table index if it is stale, or if it is half-open and `half_open_too`. Returns the index,
    /// which the caller may use; `None`: the flow stays, or there is none.
    fn give_up(&mut self, index: usize, half_open_too: bool, now_ns: u64) -> Option<usize> {
        let entry = self.entries[index]?;
        let goes = now_ns > entry.stale_after_ns || half_open_too && entry.half_open;
        goes.then(|| self.remove(index))
    }

    /// Removes the flow at a table index, and returns the index.
    fn remove(&mut self, index: usize) -> usize {
        let entry = self.entries[index].take();
        self.half_open -= u32::from(entry.is_some_and(|entry| entry.half_open));
        index
    }
}

/// Returns the last time at which a flow is not stale, if it stays idle.
fn stale_after_ns(flow: &Flow) -> u64 {
    flow.seen_ns.saturating_add(uc_core::idle_max_ns(flow))
}

/// The entry of one connection's flow in the table of its guest's port.
pub(crate) struct Seat<'a> {
    pub(crate) tenant: &'a mut TenantPort,
    pub(crate) place: &'a mut Option<Place>,
}

impl Room for Seat<'_> {
    fn take(&mut self, flow: &Flow, segment: &Segment, now_ns: u64) -> Result<(), Reason> {
        let by_peer = u32::from(segment.flags) & consts::ACK != 0;
        *self.place = Some(self.tenant.enter(flow, by_peer, now_ns)?);
        Ok(())
    }

    fn give_back(&mut self) {
        if let Some(place) = self.place.take() {
            self.tenant.leave(place);
        }
    }
}
