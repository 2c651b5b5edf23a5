//! Hand-overs without a second host, for tests of what a flow keeps when it is handed over.

use std::net::{Ipv4Addr, SocketAddr};

use uc_core::Flow;

use super::{HandedFlow, Handover, UNIT_NS};

impl Handover {
    /// Returns the hand-over of one flow, with made-up addresses. `monotonic_ns`: time of the export by the exporting
    /// host's monotonic clock.
    pub fn of(state: Flow, monotonic_ns: u64) -> Handover {
        let end = |last| SocketAddr::new(Ipv4Addr::new(10, 0, 0, last).into(), 1);
        let flow = HandedFlow {
            guest: end(1),
            remote: end(2),
            vlan: 0,
            dscps: [0; 2],
            state,
            fits: true,
        };
        Handover {
            realtime_ns: 0,
            monotonic_ns,
            flows: vec![flow],
            dropped: Vec::new(),
        }
    }

    /// Returns the state of each flow that a host can take over.
    pub fn states(&self) -> impl Iterator<Item = &Flow> {
        let whole = self.flows.iter().filter(|flow| flow.obstacle().is_none());
        whole.map(|flow| &flow.state)
    }

    /// Moves the flows' times to the clock of a host whose monotonic clock shows `units` times 128 µs more.
    pub fn rebase(&mut self, units: i64) {
        for flow in &mut self.flows {
            flow.rebase(units);
        }
        let ns = units * UNIT_NS as i64;
        self.monotonic_ns = self.monotonic_ns.wrapping_add_signed(ns);
    }
}
