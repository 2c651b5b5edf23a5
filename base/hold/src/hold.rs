//! A port: its flows, its memory, and what is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Bound;

use crate::flow::Flow;
use crate::memory::{Desk, Memory};
use crate::segment::flags::{ACK, RST, SYN};
use crate::{Counts, Out, Packet, Segment, Settings};

/// Time of silence, in ns, after which a flow of which no packet is held is removed if memory is needed for
/// new flows.
const IDLE_NS: u64 = 60_000_000_000;
/// Minimum interval, in ns, between two searches for silent flows.
const SEARCH_NS: u64 = 1_000_000_000;
/// Time, in ns, after which a flow is forgotten if its handshake is not over.
const OPENING_NS: u64 = 5_000_000_000;
/// Divisor of the memory: flows whose handshake is not complete get at most this part, because anybody can
/// send SYNs.
const OPENING_PART: usize = 8;

/// The hold of one port. `K` identifies a flow from the guest's side; `P` is the platform's packet.
#[derive(Clone, Debug)]
pub struct Hold<K, P> {
    settings: Settings,
    flows: BTreeMap<K, Flow<P>>,
    /// The times at which flows have something due.
    due: BTreeSet<(u64, K)>,
    /// The flows whose handshake is not complete, sorted by the time at which it began.
    opening: BTreeSet<(u64, K)>,
    /// The flows removed since the last call of [`Hold::forgotten`].
    forgotten: Vec<K>,
    /// Number of flows that were removed before their handshake was complete, to make room for new ones.
    displaced: u64,
    ready: VecDeque<Out<P>>,
    counts: Counts,
    memory: Memory,
    searched_ns: Option<u64>,
    /// Value of [`Counts::packets_unheld`] at the last sweep for idle flows.
    swept_unheld: u64,
}

impl<K: Copy + Ord, P: Packet> Hold<K, P> {
    /// Creates the hold of a port without flows.
    pub fn new(settings: Settings) -> Hold<K, P> {
        Hold {
            settings,
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            opening: BTreeSet::new(),
            forgotten: Vec::new(),
            displaced: 0,
            ready: VecDeque::new(),
            counts: Counts::default(),
            memory: Memory::new(settings.bytes_max),
            searched_ns: None,
            swept_unheld: 0,
        }
    }

    /// Reports a segment of the guest that has passed the port's program and goes on to the network.
    /// Calls `copy` if the packet is to be kept. Times are monotonic, in ns.
    pub fn sent(&mut self, now_ns: u64, flow: K, segment: &Segment, copy: impl FnOnce() -> P) {
        if segment.has(RST) {
            self.forget(flow);
            return;
        }
        self.find_room(now_ns, flow, segment);
        self.change(flow, |flow, desk| flow.sent(now_ns, segment, copy, desk));
    }

    /// Takes a packet towards the guest that has passed the port's program. [`Hold::take`] returns it
    /// when it is due, which may be at once.
    pub fn arrived(&mut self, now_ns: u64, flow: K, segment: &Segment, packet: P) {
        self.find_room(now_ns, flow, segment);
        let mut packet = Some(packet);
        self.change(flow, |flow, desk| {
            if let Some(packet) = packet.take() {
                flow.arrived(now_ns, segment, packet, desk);
            }
        });
        if let Some(packet) = packet {
            self.desk().send_to_guest(packet, None, false);
        }
    }

    /// Returns the time in ns at which [`Hold::take`] has something; 0: now; `None`: nothing is due.
    pub fn next_at(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(0);
        }
        self.due.first().map(|&(at_ns, _)| at_ns)
    }

    /// Returns the next packet that is due; `None` if no packet is due. Call it until it returns `None`.
    pub fn take(&mut self, now_ns: u64) -> Option<Out<P>> {
        loop {
            if let Some(out) = self.ready.pop_front() {
                return Some(out);
            }
            let &(at_ns, flow) = self.due.first()?;
            if at_ns > now_ns {
                return None;
            }
            self.change(flow, |flow, desk| flow.act(now_ns, desk));
        }
    }

    /// Makes all waiting ACKs due at once, and drops all copies of data. A process calls this before
    /// it ends, and after it got no CPU for a while. The flows go on with the next packets.
    pub fn release(&mut self) {
        for key in self.flows.keys().copied().collect::<Vec<K>>() {
            self.change(key, |flow, desk| flow.let_go(desk));
        }
    }

    /// Forgets a flow whose handshake is not complete, because its connection cannot be held. An open flow
    /// stays: anybody can send a SYN with its addresses and ports.
    pub fn decline(&mut self, flow: K) {
        let known = self.flows.get(&flow);
        if known.is_some_and(|known| known.times().opening_ns.is_some()) {
            self.forget(flow);
        }
    }

    /// Drops the copies of this flow's data, keeps no others of its connection, and lets its duplicate
    /// ACKs pass. This is for a flow that no law translates: if its losses were hidden, its guest
    /// would never slow down.
    pub fn keep_nothing(&mut self, flow: &K) {
        self.change(*flow, |flow, desk| flow.keep_nothing(desk));
    }

    /// Returns the open flows whose data is kept, among the next `most` flows behind `after` in the order
    /// of keys; `None`: from the first one on. Also returns the last flow looked at, for the next call;
    /// `None`: there are no more. A platform asks from time to time whether a law still translates them.
    pub fn keeping(&self, after: Option<K>, most: usize) -> (Vec<K>, Option<K>) {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut next = self.flows.range((behind, Bound::Unbounded));
        let looked: Vec<_> = next.by_ref().take(most).collect();
        let last = looked.last().map(|&(&key, _)| key);
        let keeping = looked.iter().filter(|(_, flow)| flow.keeps_data());
        let keeping = keeping.map(|&(&key, _)| key).collect();
        (keeping, last.filter(|_| next.next().is_some()))
    }

    /// Returns whether packets of this flow may be held: a SYN was seen, and the flow was not forgotten.
    pub fn knows(&self, flow: &K) -> bool {
        self.flows.contains_key(flow)
    }

    /// Forgets flows whose handshake was not over in time, and silent ones if packets found no memory.
    /// A platform calls this every few milliseconds, so that little is to do each time.
    pub fn sweep(&mut self, now_ns: u64) {
        while let Some(&(begun_ns, key)) = self.opening.first()
            && now_ns.saturating_sub(begun_ns) >= OPENING_NS
        {
            self.forget(key);
        }
        let unheld = self.counts.packets_unheld;
        if mem::replace(&mut self.swept_unheld, unheld) != unheld {
            self.search(now_ns);
        }
    }

    /// Takes the flows forgotten since the last call, for whatever reason. A platform that keeps a table
    /// of flows removes exactly these.
    pub fn forgotten(&mut self) -> impl Iterator<Item = K> {
        let forgotten = mem::take(&mut self.forgotten);
        let flows = &self.flows;
        // one that has begun again is known
        forgotten.into_iter().filter(|key| !flows.contains_key(key))
    }

    /// Returns the number of flows that were forgotten before their handshake was complete, to make room
    /// for new ones.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Returns how many flows the memory has room for.
    pub fn flows_max(&self) -> usize {
        self.settings.bytes_max / Self::flow_bytes()
    }

    /// Returns the counters of all flows since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the memory of the port's flows and packets, in bytes; at most
    /// [`Settings::bytes_max`].
    pub fn bytes(&self) -> usize {
        self.memory.used()
    }

    fn desk(&mut self) -> Desk<'_, P> {
        Desk {
            ready: &mut self.ready,
            counts: &mut self.counts,
            memory: &mut self.memory,
        }
    }

    /// Changes a flow, if it is known, and registers when it has something due.
    fn change(&mut self, key: K, what: impl FnOnce(&mut Flow<P>, &mut Desk<'_, P>)) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        let mut desk = Desk {
            ready: &mut self.ready,
            counts: &mut self.counts,
            memory: &mut self.memory,
        };
        what(flow, &mut desk);
        let times = flow.times();
        let before = mem::replace(&mut flow.registered, times);
        let is_over = flow.is_over();
        register(&mut self.due, key, before.due_ns, times.due_ns);
        register(&mut self.opening, key, before.opening_ns, times.opening_ns);
        if is_over {
            self.forget(key);
        }
    }

    /// Releases the waiting ACKs of a flow, drops its copies, and removes the flow.
    fn forget(&mut self, key: K) {
        let Some(mut flow) = self.flows.remove(&key) else {
            return;
        };
        flow.let_go(&mut self.desk());
        register(&mut self.due, key, flow.registered.due_ns, None);
        register(&mut self.opening, key, flow.registered.opening_ns, None);
        self.memory.give_back(Self::flow_bytes());
        self.forgotten.push(key);
    }

    /// Creates a flow for a SYN of an unknown one, if there is memory for it. Flows whose handshake is not
    /// over make room for it, the oldest first. A SYN-ACK creates none: the scale of one end is unknown.
    fn find_room(&mut self, now_ns: u64, key: K, segment: &Segment) {
        if !segment.has(SYN) || segment.has(ACK) || self.knows(&key) {
            return;
        }
        if self.opening.len() >= (self.flows_max() / OPENING_PART).max(1) {
            self.displace();
        }
        if !self.memory.has(Self::flow_bytes()) {
            self.search(now_ns);
        }
        if !self.memory.has(Self::flow_bytes()) {
            self.displace();
        }
        if self.memory.take(Self::flow_bytes()) {
            self.flows.insert(key, Flow::new(self.settings, now_ns));
            self.change(key, |_, _| {});
        }
    }

    /// Forgets the flow that has been in its handshake for the longest time.
    fn displace(&mut self) {
        if let Some(&(_, key)) = self.opening.first() {
            self.displaced += 1;
            self.forget(key);
        }
    }

    /// Removes flows that have been silent for [`IDLE_NS`].
    fn search(&mut self, now_ns: u64) {
        let may_search = self
            .searched_ns
            .is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= SEARCH_NS);
        if !may_search {
            return;
        }
        self.searched_ns = Some(now_ns);
        let idle = self.flows.iter();
        let idle = idle.filter(|(_, flow)| flow.is_idle(now_ns, IDLE_NS));
        for key in idle.map(|(&key, _)| key).collect::<Vec<K>>() {
            self.forget(key);
        }
    }

    /// Returns the memory of a flow without its packets: its value, keys, and the tables' nodes.
    fn flow_bytes() -> usize {
        2 * size_of::<Flow<P>>() + 4 * size_of::<K>()
    }
}

/// Moves a flow to another time in a table that is sorted by time.
fn register<K: Copy + Ord>(
    table: &mut BTreeSet<(u64, K)>,
    key: K,
    before: Option<u64>,
    after: Option<u64>,
) {
    if before == after {
        return;
    }
    if let Some(at_ns) = before {
        table.remove(&(at_ns, key));
    }
    if let Some(at_ns) = after {
        table.insert((at_ns, key));
    }
}
