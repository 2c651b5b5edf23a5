//! The path of an end's segments: through its port, past its instruments and into the network.

use uc_net::{Nanos, Network};
use uc_tcp::{Outlet, Segment};

use crate::hold::Held;
use crate::instruments::Instruments;
use crate::packet::Packet;
use crate::port::Port;
use crate::route::Route;
use crate::start::StartEnd;

/// The path of the segments of one end.
pub(crate) struct Wire<'a> {
    pub(crate) now: Nanos,
    pub(crate) is_timed: bool,
    pub(crate) route: &'a Route,
    pub(crate) instruments: Option<&'a mut Instruments>,
    pub(crate) port: &'a mut Option<Box<Port>>,
    pub(crate) start: &'a mut Option<Box<StartEnd>>,
    pub(crate) hold: &'a mut Option<Box<Held>>,
    pub(crate) network: &'a mut Network<Packet>,
}

impl Outlet for Wire<'_> {
    #[inline(always)]
    fn send(&mut self, segment: Segment) {
        if !self.is_plain() {
            // A copy: if the address of `segment` were taken, it would have to lie in memory.
            let mut copy = segment;
            return self.send_in_part(&mut copy);
        }
        self.observe(&segment);
        inject(self.now, self.route, segment, self.network);
    }
}

impl Wire<'_> {
    /// Returns whether nothing but the instruments sees a segment on its way into the network.
    #[inline]
    fn is_plain(&self) -> bool {
        self.port.is_none() && self.start.is_none() && self.hold.is_none()
    }

    /// Sends a segment through the end's port, start and hold. The port may drop the segment, and the start may store
    /// it.
    #[inline(never)]
    fn send_in_part(&mut self, segment: &mut Segment) {
        // A packet that a guard drops was never on the network.
        if let Some(port) = self.port
            && port.from_guest(self.now, segment).drops()
        {
            return;
        }
        self.observe(segment);
        if let Some(start) = self.start {
            start.sent.push(*segment);
            return;
        }
        if let Some(hold) = self.hold {
            hold.sent(self.now, segment);
        }
        inject(self.now, self.route, *segment, self.network);
    }

    #[inline(always)]
    fn observe(&mut self, segment: &Segment) {
        if let Some(instruments) = &mut self.instruments {
            instruments.leaves(self.now, segment, self.is_timed);
        }
    }
}

/// Sends a segment into the network.
// Always inlined, so that the packet is made where it is stored.
#[inline(always)]
pub(crate) fn inject(now: Nanos, route: &Route, segment: Segment, network: &mut Network<Packet>) {
    let peer = route.address.peer();
    let packet = Packet::new(segment, route.ip_header_bytes, peer, route.flow);
    network.inject_on(now, route.path, packet);
}
