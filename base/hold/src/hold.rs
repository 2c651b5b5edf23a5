//! A port: its flows, its memory, and what is due.

use std::collections::VecDeque;
use std::marker::PhantomData;

use crate::{Counts, Out, Packet, Segment, Settings};

/// The hold of one port. `K` identifies a flow from the guest's side; `P` is the platform's packet.
#[derive(Clone, Debug)]
pub struct Hold<K, P> {
    settings: Settings,
    ready: VecDeque<Out<P>>,
    counts: Counts,
    flows: PhantomData<K>,
}

impl<K: Copy + Ord, P: Packet> Hold<K, P> {
    /// Creates the hold of a port without flows.
    pub fn new(settings: Settings) -> Hold<K, P> {
        Hold {
            settings,
            ready: VecDeque::new(),
            counts: Counts::default(),
            flows: PhantomData,
        }
    }

    /// Reports a segment of the guest that has passed the port's program and goes on to the network.
    /// Calls `copy` if the packet is to be kept. Times are monotonic, in ns.
    pub fn sent(&mut self, now_ns: u64, flow: K, segment: &Segment, copy: impl FnOnce() -> P) {
        let _ = (now_ns, flow, segment, copy, &self.settings);
    }

    /// Takes a packet towards the guest that has passed the port's program. [`Hold::take`] returns it
    /// when it is due, which may be at once.
    pub fn arrived(&mut self, now_ns: u64, flow: K, segment: &Segment, packet: P) {
        let _ = (now_ns, flow, segment);
        self.ready.push_back(Out::ToGuest {
            packet,
            ack: None,
            without_sack: false,
        });
    }

    /// Returns when [`Hold::take`] has something, in ns; a time that has passed: now.
    pub fn next_at(&self) -> Option<u64> {
        self.ready.front().map(|_| 0)
    }

    /// Returns the next packet that is due; `None` if none is. Call it until then.
    pub fn take(&mut self, now_ns: u64) -> Option<Out<P>> {
        let _ = now_ns;
        self.ready.pop_front()
    }

    /// Makes everything due that is held towards the guest, and forgets all flows: for the end of the
    /// process.
    pub fn release(&mut self) {}

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the memory of the port's flows and packets, in bytes; at most
    /// [`Settings::bytes_max`].
    pub fn bytes(&self) -> usize {
        0
    }
}
