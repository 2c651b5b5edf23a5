//! SYNs and SYN-ACKs of one flow, without a table.

use uc_core::{Asked, COMPILED, Edit, Flow, Policy, Reason, Segment};

/// Handles a SYN or SYN-ACK by the compiled core. `flow` is zeroed if it is unknown, and afterwards if it
/// is to be removed.
pub fn open(flow: &mut Flow, policy: &Policy, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
    if *flow != Flow::default() {
        let (step, edit) = COMPILED.known(flow, (policy, 0), segment, now_ns);
        if step.removes() {
            *flow = Flow::default();
        }
        if !step.is_anew() {
            return (step.reason(), edit);
        }
    }
    let mut asked = Asked::default();
    let (step, edit) = COMPILED.unknown(flow, (policy, 0), &mut asked, segment, now_ns);
    (step.reason(), edit)
}
