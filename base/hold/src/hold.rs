//! A port: its flows, its memory, and what is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use crate::flow::Flow;
use crate::memory::{Desk, Memory};
use crate::segment::flags::{RST, SYN};
use crate::{Counts, Out, Packet, Segment, Settings};

/// Silence after which a flow of which nothing is held makes room for others.
const IDLE_NS: u64 = 60_000_000_000;
/// Minimum interval between two searches for silent flows.
const SEARCH_NS: u64 = 1_000_000_000;

/// The hold of one port. `K` identifies a flow from the guest's side; `P` is the platform's packet.
#[derive(Clone, Debug)]
pub struct Hold<K, P> {
    settings: Settings,
    flows: BTreeMap<K, Flow<P>>,
    /// The times at which flows have something due.
    due: BTreeSet<(u64, K)>,
    ready: VecDeque<Out<P>>,
    counts: Counts,
    memory: Memory,
    searched_ns: Option<u64>,
}

impl<K: Copy + Ord, P: Packet> Hold<K, P> {
    /// Creates the hold of a port without flows.
    pub fn new(settings: Settings) -> Hold<K, P> {
        Hold {
            settings,
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            ready: VecDeque::new(),
            counts: Counts::default(),
            memory: Memory::new(settings.bytes_max),
            searched_ns: None,
        }
    }

    /// Reports a segment of the guest that has passed the port's program and goes on to the network.
    /// Calls `copy` if the packet is to be kept. Times are monotonic, in ns.
    pub fn sent(&mut self, now_ns: u64, flow: K, segment: &Segment, copy: impl FnOnce() -> P) {
        if segment.has(RST) {
            self.forget(flow);
            return;
        }
        if segment.has(SYN) {
            self.find_room(now_ns, flow);
        }
        self.change(flow, |flow, desk| flow.sent(now_ns, segment, copy, desk));
    }

    /// Takes a packet towards the guest that has passed the port's program. [`Hold::take`] returns it
    /// when it is due, which may be at once.
    pub fn arrived(&mut self, now_ns: u64, flow: K, segment: &Segment, packet: P) {
        if segment.has(SYN) {
            self.find_room(now_ns, flow);
        }
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

    /// Returns the next packet that is due; `None` if none is. Call it until it returns `None`.
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

    /// Drops the copies of this flow's data, keeps no others of its connection, and lets its duplicate
    /// ACKs pass. This is for a flow that no law translates: if its losses were hidden, its guest
    /// would never slow down.
    pub fn keep_nothing(&mut self, flow: &K) {
        self.change(*flow, |flow, desk| flow.keep_nothing(desk));
    }

    /// Returns whether packets of this flow may be held: a SYN was seen, and the connection is not
    /// over.
    pub fn knows(&self, flow: &K) -> bool {
        self.flows.get(flow).is_some_and(Flow::is_known)
    }

    /// Returns the counters.
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
        let due = flow.due_ns();
        let before = mem::replace(&mut flow.registered_ns, due);
        let is_over = flow.is_over();
        if before != due {
            if let Some(at_ns) = before {
                self.due.remove(&(at_ns, key));
            }
            if let Some(at_ns) = due {
                self.due.insert((at_ns, key));
            }
        }
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
        if let Some(at_ns) = flow.registered_ns {
            self.due.remove(&(at_ns, key));
        }
        self.memory.give_back(Self::flow_bytes());
    }

    /// Creates a flow, if it is not known and there is memory for it.
    fn find_room(&mut self, now_ns: u64, key: K) {
        if self.flows.contains_key(&key) {
            return;
        }
        if !self.memory.has(Self::flow_bytes()) {
            self.search(now_ns);
        }
        if self.memory.take(Self::flow_bytes()) {
            self.flows.insert(key, Flow::new(self.settings, now_ns));
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
