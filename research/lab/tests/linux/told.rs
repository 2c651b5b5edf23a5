//! What a failure prints: the flow, its last events with both states, and the command that repeats
//! it.

use std::collections::HashMap;

use uc_core::Core;

use super::case::Case;
use super::class::Finding;
use super::follow::follow;
use super::record::Record;

/// Events before a finding that are printed, and after it.
const BEFORE: usize = 40;
const AFTER: usize = 4;

/// Tells a finding in full.
pub fn told(case: &Case, record: &Record, core: Core, finding: &Finding) -> String {
    let mut shadows = HashMap::new();
    follow(case, record, core, |step| {
        let (flow, reno) = (&step.shadow, &step.shadow.reno);
        let words = format!(
            "; shadow ca {} cwnd {} ssthresh {} dup {} losses {} bits {:x} window {}",
            flow.ca,
            reno.cwnd,
            reno.ssthresh as i32,
            flow.dup_acks,
            flow.losses,
            flow.bits,
            flow.peer_window
        );
        shadows.insert(step.event, words);
    });
    let beside = |event: usize| shadows.get(&event).cloned().unwrap_or_default();
    let range = finding.event.saturating_sub(BEFORE)..finding.event + AFTER;
    format!(
        "flow {}: {} at event {}: {}\n{case:?}\n{}repeat it: UC_SEED={} UC_FIRST={} UC_CASES=1 cargo test \
         -p uc-lab --test live_linux live_the_shadow\n",
        case.index,
        finding.class.words(),
        finding.event,
        finding.words,
        record.print(range, &beside),
        case.seed,
        case.index,
    )
}
