//! Sensitivity to faults in the core: copies of `core/` with one fault in each are compiled, put on
//! the guest's port, and must all differ from f. So must flows that lose a field between two hosts.

use std::sync::atomic::AtomicBool;

use uc_core::mutant::{Mutant, compile};
use uc_core::{COMPILED, Core};
use uc_verify::draw::draw_moving;
use uc_verify::layout::Fault;
use uc_verify::{Campaign, Guest, Law, Outcome, Report, Workspace, compare};

const SEED: u64 = 1;
/// Number of cases after which a fault counts as missed.
const CASES_MAX: u64 = 3_000;

const RFC: &str = "laws/reno_rfc.h";
const RENO: &str = "laws/reno.h";
const HALF: &str = "laws/half.h";
const UNDO: &str = "undo.h";

const MUTANTS: [Mutant; 30] = [
    Mutant::new(
        "ECE is ignored",
        RENO,
        "if (!sample->marked || lost ||",
        "if (1 || lost ||",
    ),
    Mutant::new(
        "every ECE cuts",
        RFC,
        "reno->reduced_seq = flow->snd_nxt;\n\tflow->feedback |= UC_FEEDBACK_REDUCED;\n\tflow->ca",
        "flow->feedback |= UC_FEEDBACK_REDUCED;\n\tflow->ca",
    ),
    Mutant::new(
        "ECE halves the flight, not the window",
        HALF,
        "return window / 2;",
        "return uc_flight_bytes(flow) / 2;",
    ),
    Mutant::new(
        "ECE in recovery cuts",
        RENO,
        "flow->ca == UC_CA_RECOVERY || uc_rfc_shows_loss",
        "uc_rfc_shows_loss",
    ),
    Mutant::new(
        "a cut leaves ssthresh",
        RFC,
        "reno->ssthresh = ssthresh;",
        "(void)ssthresh;",
    ),
    Mutant::new(
        "no floor of two segments",
        RFC,
        "return uc_max(bytes / 2, 2 * flow->mss_bytes);",
        "return uc_max(bytes / 2, flow->mss_bytes);",
    ),
    Mutant::new(
        "slow start adds all that was acknowledged",
        RFC,
        "reno->cwnd += uc_min(acked_bytes, most_bytes);",
        "reno->cwnd += acked_bytes;",
    ),
    Mutant::new(
        "avoidance forgets what exceeds a window",
        RFC,
        "reno->acked -= reno->cwnd;",
        "reno->acked = 0;",
    ),
    Mutant::new(
        "recovery begins without the three segments",
        RFC,
        "reno->ssthresh + uc_min(flow->dup_acks, UC_DUP_ACKS) * flow->mss_bytes;",
        "reno->ssthresh;",
    ),
    Mutant::new(
        "duplicates do not inflate",
        RFC,
        "if (sample->duplicate) {\n\t\treno->cwnd += flow->mss_bytes;",
        "if (sample->duplicate) {",
    ),
    // a partial ACK that doesn't deflate at all would not be found: the guest's own window deflates
    Mutant::new(
        "a partial ACK deflates to one segment",
        RFC,
        "reno->cwnd -= uc_min(reno->cwnd, sample->acked_bytes);",
        "reno->cwnd = 0;",
    ),
    Mutant::new(
        "a partial ACK adds nothing back",
        RFC,
        "if (sample->acked_bytes >= flow->mss_bytes)",
        "if (0)",
    ),
    Mutant::new(
        "recovery ends with ssthresh, option (2)",
        RFC,
        "reno->cwnd = uc_min(reno->ssthresh, uc_max(",
        "reno->cwnd = uc_max(reno->ssthresh, uc_max(",
    ),
    Mutant::new(
        "duplicates of an old recovery begin another",
        RFC,
        "flow->dup_acks == UC_DUP_ACKS &&\n\t       uc_after(flow->snd_una - 1, flow->reno.recover);",
        "flow->dup_acks == UC_DUP_ACKS;",
    ),
    Mutant::new("a timeout is not inferred", RFC, "if (timer)", "if (0)"),
    Mutant::new(
        "a timeout in the repair of another is not inferred",
        "track.h",
        "(flow->ca == UC_CA_LOSS && uc_before(seq, flow->resent_end))",
        "0",
    ),
    Mutant::new(
        "later timeouts count as a backed-off one",
        "track.h",
        "flow->bits &= ~UC_FLOW_TIMED_OUT;",
        "",
    ),
    Mutant::new(
        "the loss window is two segments",
        RFC,
        "reno->cwnd = flow->mss_bytes; /* RFC 5681: the loss window */",
        "reno->cwnd = 2 * flow->mss_bytes;",
    ),
    Mutant::new(
        "no CWR after a loss",
        RFC,
        "of any cause */\n\tflow->feedback |= UC_FEEDBACK_REDUCED;",
        "of any cause */",
    ),
    Mutant::new(
        "ECT on retransmissions",
        "core.h",
        "if (sent == UC_SENT_NEW && segment->payload_bytes && flow->peer_window)",
        "if (segment->payload_bytes && flow->peer_window)",
    ),
    Mutant::new(
        "no restart after idle",
        RFC,
        "sent == UC_SENT_NEW && sample->idle_us > uc_rfc_rto_us(flow)",
        "0 && sample->idle_us",
    ),
    Mutant::new(
        "a lost SYN leaves the initial window",
        RFC,
        "uc_syns(flow) > 1 ? 1 :",
        "0 ? 1 :",
    ),
    Mutant::new(
        "the edge is rounded up to a segment",
        "window.h",
        "(law_bytes - flight_bytes) / mss_bytes : 0;",
        "(law_bytes - flight_bytes + mss_bytes - 1) / mss_bytes : 0;",
    ),
    Mutant::new(
        "two duplicates are enough",
        "track.h",
        "#define UC_DUP_ACKS 3",
        "#define UC_DUP_ACKS 2",
    ),
    Mutant::new(
        "a spurious timeout leaves ssthresh reduced",
        RFC,
        "reno->ssthresh = undo.ssthresh;",
        "",
    ),
    Mutant::new(
        "an undone reduction has answered the marks",
        RFC,
        "reno->reduced_seq = flow->snd_una;",
        "",
    ),
    Mutant::new(
        "ECE lets a reduction be undone",
        UNDO,
        "if (ece)\n",
        "if (0)\n",
    ),
    Mutant::new(
        "one segment probes",
        UNDO,
        "#define UC_UNDO_PROBES 2",
        "#define UC_UNDO_PROBES 1",
    ),
    Mutant::new(
        "a timeout after the probe is not inferred",
        "track.h",
        "uc_undo_probes(flow) && uc_after",
        "0 && uc_after",
    ),
    Mutant::new(
        "the repair of a probe is taken for a timeout",
        "track.h",
        " || uc_undo_repairs(flow, seq))",
        ")",
    ),
];

fn verify(core: Core, cases: u64) -> Report {
    let campaign = Campaign {
        law: Law::Ecn,
        guest: Guest::NewReno,
        seed: SEED,
        cases,
        jobs: 2,
        handover: false,
    };
    campaign
        .run(core, &|_| {}, &AtomicBool::new(false))
        .expect("nobody cancels it")
}

#[test]
fn every_planted_fault_is_found() {
    let scratch = tempfile::tempdir().expect("a folder for libraries");
    let unseen: Vec<&str> = MUTANTS
        .iter()
        .filter(|mutant| {
            let report = verify(compile(scratch.path(), Some(mutant)), CASES_MAX);
            println!("{}: {:?}", mutant.name, report.failure);
            report.failure.is_none()
        })
        .map(|mutant| mutant.name)
        .collect();
    assert!(
        unseen.is_empty(),
        "seed {SEED}, {CASES_MAX} cases each: not found: {unseen:?}"
    );
}

#[test]
fn a_copy_without_a_fault_is_exact() {
    let scratch = tempfile::tempdir().expect("a folder for a library");
    let report = verify(compile(scratch.path(), None), 200);
    assert_eq!((report.failure, report.exact), (None, 200), "seed {SEED}");
}

/// Fields by which f goes on after a move.
const FIELDS: [&str; 25] = [
    "snd_una",
    "snd_nxt",
    "timed_tick",
    "sent_tick",
    "srtt_us",
    "reno.cwnd",
    "reno.ssthresh",
    "reno.acked",
    "reno.recover",
    "reno.reduced_seq",
    "reno.prr.delivered",
    "reno.prr.out",
    "dctcp.alpha_q30",
    "dctcp.acked_bytes",
    "dctcp.marked_bytes",
    "dctcp.window_end",
    "bits",
    "mss_bytes",
    "peer_window",
    "feedback",
    "stage",
    "ca",
    "dup_acks",
    "policy.law",
    "policy.parameters",
];
/// Number of cases of each law after which a fault of a layout counts as missed.
const MOVES_MAX: u64 = 200;

/// Returns whether a case in which flows move through layouts with this fault differs from f.
fn is_found(fault: Fault) -> bool {
    let mut workspace = Workspace::default();
    workspace.fault = fault;
    let guest = Guest::NewReno;
    Law::ALL.into_iter().any(|law| {
        (0..MOVES_MAX).any(|number| {
            let plan = draw_moving(SEED, number);
            let outcome = compare(&plan, law, guest, COMPILED, &mut workspace).outcome;
            matches!(outcome, Outcome::Differs { .. })
        })
    })
}

#[test]
fn every_field_that_a_layout_loses_or_misplaces_is_found() {
    assert!(!is_found(Fault::None));
    for (at, name) in FIELDS.into_iter().enumerate() {
        let other = FIELDS[(at + 1) % FIELDS.len()];
        for fault in [Fault::Lost(name), Fault::Misplaced(name, other)] {
            assert!(is_found(fault), "seed {SEED}, {MOVES_MAX} cases: {fault:?}");
        }
    }
}
