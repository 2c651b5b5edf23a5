//! SYNs and SYN-ACKs of one flow, without a table.

use uc_core::{Asked, COMPILED, Core, Edit, Flow, Policy, Reason, Segment};

/// Handles a SYN or SYN-ACK by the compiled core. `flow` is zeroed if it is unknown, and afterwards if it
/// is to be removed.
pub fn open(flow: &mut Flow, policy: &Policy, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
    open_by(COMPILED, flow, policy, segment, now_ns)
}

/// As [`open`], by another core.
pub fn open_by(
    core: Core,
    flow: &mut Flow,
    policy: &Policy,
    segment: &Segment,
    now_ns: u64,
) -> (Reason, Edit) {
    if *flow != Flow::default() {
        let (step, edit) = core.known(flow, (policy, 0), segment, now_ns);
        if step.removes() {
            *flow = Flow::default();
        }
        if !step.is_anew() {
            return (step.reason(), edit);
        }
    }
    let mut asked = Asked::default();
    let (step, edit) = core.unknown(flow, (policy, 0), &mut asked, segment, now_ns);
    (step.reason(), edit)
}
