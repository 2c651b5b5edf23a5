//! The memory of a port, and the parts of a port that its flows change.

use std::collections::VecDeque;

use crate::{AckEdit, Counts, Out, Packet};

/// The memory of a port's flows and packets, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    used: usize,
    most: usize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Memory {
        Memory { used: 0, most }
    }

    /// Returns whether `bytes` of the port's memory are free.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        bytes <= self.most - self.used
    }

    /// Reserves `bytes` if they are free. Returns whether they were.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let fits = self.has(bytes);
        if fits {
            self.used += bytes;
        }
        fits
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// Reduces the capacity of a queue that has become much shorter, since [`Memory`] does not count that capacity.
pub(crate) fn shrink<T>(queue: &mut VecDeque<T>) {
    let room = queue.capacity();
    if room > 16 && room > 4 * queue.len() {
        queue.shrink_to(2 * queue.len());
    }
}

/// The parts of a port that a flow changes: the packets to send, the counters, the memory.
pub(crate) struct Desk<'a, P> {
    pub(crate) ready: &'a mut VecDeque<Out<P>>,
    pub(crate) counts: &'a mut Counts,
    pub(crate) memory: &'a mut Memory,
}

impl<P: Packet> Desk<'_, P> {
    /// Queues a packet for the guest. `ack`: the ACK number and window to write; `None`: the packet's own.
    /// `without_sack`: its SACK blocks are overwritten.
    pub(crate) fn send_to_guest(&mut self, packet: P, ack: Option<AckEdit>, without_sack: bool) {
        self.ready.push_back(Out::ToGuest {
            packet,
            ack,
            without_sack,
        });
    }

    /// Queues a stored segment of the guest for retransmission to the network, and counts it in
    /// `retransmits`.
    pub(crate) fn send_to_network(&mut self, packet: P) {
        self.counts.retransmits += 1;
        self.ready.push_back(Out::ToNetwork(packet));
    }
}
