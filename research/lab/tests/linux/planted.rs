//! Copies of the core with one fault each.

use uc_core::mutant::Mutant;

pub const FAULTS: [Mutant; 7] = [
    Mutant::new(
        "blocks of SACK are no news",
        "track.h",
        "else if (segment->options & UC_OPT_SACK)\n\t\tflow->repeated = segment->mss_bytes;",
        "",
    ),
    Mutant::new(
        "a timeout is undone after a duplicate",
        "undo.h",
        "literal ? !acked_bytes : (!acked_bytes && flow->repeated) || ece",
        "literal ? !acked_bytes : ece",
    ),
    Mutant::new(
        "a tail loss probe is a timeout",
        "track.h",
        "if (sack && end == flow->snd_nxt &&",
        "if (0 &&",
    ),
    Mutant::new(
        "retransmitted data are timed",
        "track.h",
        "if (!guarded)\n\t\t\tuc_stop_timing(flow, annex);",
        "",
    ),
    Mutant::new(
        "duplicates are counted beyond an ACK",
        "track.h",
        "flow->dup_acks = 0;\n\tflow->bits &= ~UC_FLOW_TIMED_OUT;",
        "flow->bits &= ~UC_FLOW_TIMED_OUT;",
    ),
    Mutant::new(
        "each ECE reduces",
        "laws/reno.h",
        "if (sample->marked && flow->ca == UC_CA_OPEN) {",
        "if (sample->marked) {",
    ),
    Mutant::new(
        "a recovery ends with the first ACK",
        "laws/reno_linux.h",
        ": !uc_before(flow->snd_una, reno->recover);",
        ": 1;",
    ),
];
