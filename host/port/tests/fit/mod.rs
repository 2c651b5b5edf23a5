//! Random flows as frames that both sides of a comparison take: between fixed ends, cut into
//! segments, and decided alike whatever the clock.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

use std::net::SocketAddr;

use uc_core::Segment;

use crate::flows::Plan;
use crate::flows::law::Law;
use crate::flows::plan::Step;
use crate::kernel::frame::{PAYLOAD_MAX, Shape};

/// Changes a plan so that its frames fit into test_run and both clocks come to the same decisions.
pub fn fit(plan: &mut Plan) {
    // Small segments, so that super-segments fit.
    for offer in [&mut plan.setup.guest, &mut plan.setup.peer] {
        offer.mss = offer.mss.map(|mss| mss % 700);
    }
    fit_clocks(plan);
}

/// Changes a plan so that both clocks come to the same decisions.
pub fn fit_clocks(plan: &mut Plan) {
    // Targets that every round trip exceeds so far that a decrease is a half, or that none
    // reaches.
    if let Law::Delay { target_us, .. } = plan.setup.law {
        plan.setup.law = Law::Delay {
            target_us: if target_us % 2 == 0 { 1 } else { u32::MAX },
            target_range_us: 0,
        };
    }
}

/// Changes a plan that [`fit`] has changed so that each frame holds the whole of its segment.
pub fn fit_frames(plan: &mut Plan) {
    for step in &mut plan.steps {
        match step {
            // with what is left over at most three segments of at most 699 bytes
            Step::Send { segments, gso, .. } if *gso => *segments = (*segments).min(2),
            Step::Retransmit { segments, .. } => *segments = (*segments).min(3),
            Step::Ack { payload, .. } => *payload = (*payload).min(PAYLOAD_MAX as u16),
            _ => {}
        }
    }
}

/// Returns the guest's and the remote end's address and port.
pub fn ends(ipv6: bool) -> (SocketAddr, SocketAddr) {
    let ends = if ipv6 {
        ("[fd77::1]:40000", "[fd77::2]:5001")
    } else {
        ("10.77.0.1:40000", "10.77.0.2:5001")
    };
    (ends.0.parse().unwrap(), ends.1.parse().unwrap())
}

/// Returns how a segment's frame is cut on the wire: (gso_segs, gso_size).
pub fn gso(segment: &Segment, shape: &Shape) -> (u32, u32) {
    let payload = segment.payload_bytes.min(shape.payload_max);
    let wire = u32::from(segment.wire_payload_bytes);
    if wire == 0 || wire >= payload || shape.padding > 0 {
        return (0, 0);
    }
    let segments = if shape.gso_segs_known {
        payload.div_ceil(wire)
    } else {
        0
    };
    (segments, wire)
}
