//! Flows that start by `watch`: their packets pass through the start logic of their hosts.

use uc_net::Nanos;

use super::Hosts;
use super::timer_owner::TimerOwner;
use crate::packet::Packet;
use crate::start::{Leaving, StartEnd};
use crate::timers::TimerId;

impl Hosts {
    /// Returns the start timer of the end with this index, and creates it if needed.
    pub(super) fn start_timer(&mut self, place: usize) -> TimerId {
        if let Some(timer) = self.starts.timer(place) {
            return timer;
        }
        self.owners.push(TimerOwner::Start(place));
        let timer = self.timers.add();
        self.starts.keep_timer(place, timer);
        timer
    }

    /// Passes a packet to the start logic of its end. Returns true if the packet does not go on to the end now: it is a
    /// probe, or waits.
    pub(super) fn start_hears(&mut self, place: usize, packet: &Packet) -> bool {
        let end = &mut self.ends[place];
        let ends = (end.route.from, end.route.path.to);
        let Some(start) = &mut end.start else {
            return packet.probe().is_some();
        };
        let stays = start.arrives(self.now, ends, packet, &mut self.starts);
        if stays {
            let due = start.due(self.now, ends, &self.starts);
            self.timers.set(start.timer, due);
        }
        stays
    }

    /// Passes segments that an end may have sent to its start logic, which releases or holds them.
    pub(super) fn start_sends(&mut self, place: usize) {
        self.start(place, |start, now, ends, starts, out| {
            start.departs(now, ends, starts, out);
        });
    }

    /// Handles the start timer: releases the probes and segments that are due.
    pub(super) fn start_rings(&mut self, place: usize) {
        self.start(place, |start, now, _, starts, out| {
            start.ring(now, starts, out);
        });
    }

    fn start(
        &mut self,
        place: usize,
        what: impl FnOnce(
            &mut StartEnd,
            Nanos,
            crate::start::Ends,
            &mut crate::start::Starts,
            &mut &mut dyn FnMut(Leaving),
        ),
    ) {
        let (now, end) = (self.now, &mut self.ends[place]);
        let Some(start) = &mut end.start else { return };
        let (route, network) = (end.route, &mut self.network);
        let granter = self.starts.granter();
        let mut out = |leaving| {
            let peer = route.address.peer();
            let (to, packet) = match leaving {
                Leaving::Segment(segment) => (
                    route.path.to,
                    Packet::new(segment, route.ip_header_bytes, peer, route.flow),
                ),
                Leaving::Probe(probe) => (
                    route.path.to,
                    Packet::of_probe(probe, route.ip_header_bytes, peer, route.flow),
                ),
                Leaving::Ask(ask) => {
                    let own = route.address;
                    let packet = Packet::of_turn(ask, route.ip_header_bytes, own, route.flow);
                    (granter.unwrap_or(route.path.to), packet)
                }
            };
            let taken = network.inject(now, route.from, to, packet);
            // The route was checked in both directions before time zero.
            debug_assert!(taken.is_ok(), "{taken:?}");
        };
        let ends = (route.from, route.path.to);
        what(
            start,
            now,
            ends,
            &mut self.starts,
            &mut (&mut out as &mut dyn FnMut(Leaving)),
        );
        let due = start.due(now, ends, &self.starts);
        self.timers.set(start.timer, due);
    }
}
