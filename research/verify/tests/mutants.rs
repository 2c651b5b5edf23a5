//! Sensitivity to faults in the core: copies of `core/` with one fault in each are compiled, put on
//! the guest's port, and must all differ from f.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use uc_core::Loaded;
use uc_verify::{Campaign, Guest, Law, Report};

const SEED: u64 = 1;
/// Number of cases after which a fault counts as missed.
const CASES_MAX: u64 = 3_000;

/// A fault: the file, the text to replace (it occurs once), and its replacement.
struct Mutant {
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const fn mutant(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Mutant {
    Mutant {
        name,
        file,
        right,
        wrong,
    }
}

const RFC: &str = "laws/reno_rfc.h";
const RENO: &str = "laws/reno.h";
const HALF: &str = "laws/half.h";
const UNDO: &str = "undo.h";

const MUTANTS: [Mutant; 30] = [
    mutant(
        "ECE is ignored",
        RENO,
        "if (!ack->ece || lost ||",
        "if (1 || lost ||",
    ),
    mutant(
        "every ECE cuts",
        RFC,
        "reno->reduced_seq = flow->snd_nxt;\n\tflow->feedback |= UC_FEEDBACK_REDUCED;\n\tflow->ca",
        "flow->feedback |= UC_FEEDBACK_REDUCED;\n\tflow->ca",
    ),
    mutant(
        "ECE halves the flight, not the window",
        HALF,
        "return window / 2;",
        "return uc_flight_bytes(flow) / 2;",
    ),
    mutant(
        "ECE in recovery cuts",
        RENO,
        "flow->ca == UC_CA_RECOVERY || uc_rfc_shows_loss",
        "uc_rfc_shows_loss",
    ),
    mutant(
        "a cut leaves ssthresh",
        RFC,
        "reno->ssthresh = ssthresh;",
        "(void)ssthresh;",
    ),
    mutant(
        "no floor of two segments",
        RFC,
        "return uc_max(bytes / 2, 2 * flow->mss_bytes);",
        "return uc_max(bytes / 2, flow->mss_bytes);",
    ),
    mutant(
        "slow start adds all that was acknowledged",
        RFC,
        "reno->cwnd += uc_min(acked_bytes, flow->mss_bytes);",
        "reno->cwnd += acked_bytes;",
    ),
    mutant(
        "avoidance forgets what exceeds a window",
        RFC,
        "reno->acked -= reno->cwnd;",
        "reno->acked = 0;",
    ),
    mutant(
        "recovery begins without the three segments",
        RFC,
        "reno->ssthresh + uc_min(flow->dup_acks, UC_DUP_ACKS) * flow->mss_bytes;",
        "reno->ssthresh;",
    ),
    mutant(
        "duplicates do not inflate",
        RFC,
        "if (ack->duplicate) {\n\t\treno->cwnd += flow->mss_bytes;",
        "if (ack->duplicate) {",
    ),
    // a partial ACK that doesn't deflate at all would not be found: the guest's own window deflates
    mutant(
        "a partial ACK deflates to one segment",
        RFC,
        "reno->cwnd -= uc_min(reno->cwnd, ack->acked_bytes);",
        "reno->cwnd = 0;",
    ),
    mutant(
        "a partial ACK adds nothing back",
        RFC,
        "if (ack->acked_bytes >= flow->mss_bytes)",
        "if (0)",
    ),
    mutant(
        "recovery ends with ssthresh, option (2)",
        RFC,
        "reno->cwnd = uc_min(reno->ssthresh, uc_max(",
        "reno->cwnd = uc_max(reno->ssthresh, uc_max(",
    ),
    mutant(
        "duplicates of an old recovery begin another",
        RFC,
        "flow->dup_acks == UC_DUP_ACKS &&\n\t       uc_after(flow->snd_una - 1, flow->reno.recover);",
        "flow->dup_acks == UC_DUP_ACKS;",
    ),
    mutant("a timeout is not inferred", RFC, "if (timer)", "if (0)"),
    mutant(
        "a timeout in the repair of another is not inferred",
        "track.h",
        "(flow->ca == UC_CA_LOSS && uc_before(seq, flow->resent_end))",
        "0",
    ),
    mutant(
        "later timeouts count as a backed-off one",
        "track.h",
        "flow->bits &= ~UC_FLOW_TIMED_OUT;",
        "",
    ),
    mutant(
        "the loss window is two segments",
        RFC,
        "reno->cwnd = flow->mss_bytes; /* RFC 5681: the loss window */",
        "reno->cwnd = 2 * flow->mss_bytes;",
    ),
    mutant(
        "no CWR after a loss",
        RFC,
        "flow->feedback |= UC_FEEDBACK_REDUCED; /* RFC 3168 §6.1.2: CWR after a reduction of any cause */",
        "",
    ),
    mutant(
        "ECT on retransmissions",
        "core.h",
        "if (sent == UC_SENT_NEW && segment->payload_bytes && flow->peer_window)",
        "if (segment->payload_bytes && flow->peer_window)",
    ),
    mutant(
        "no restart after idle",
        RFC,
        "sent == UC_SENT_NEW && idle_us > uc_rfc_rto_us(flow)",
        "0 && idle_us",
    ),
    mutant(
        "a lost SYN leaves the initial window",
        RFC,
        "uc_syns(flow) > 1 ? 1 :",
        "0 ? 1 :",
    ),
    mutant(
        "the edge is rounded up to a segment",
        "window.h",
        "(law_bytes - flight_bytes) / mss_bytes : 0;",
        "(law_bytes - flight_bytes + mss_bytes - 1) / mss_bytes : 0;",
    ),
    mutant(
        "two duplicates are enough",
        "track.h",
        "#define UC_DUP_ACKS 3",
        "#define UC_DUP_ACKS 2",
    ),
    mutant(
        "a spurious timeout leaves ssthresh reduced",
        RFC,
        "reno->ssthresh = undo.ssthresh;",
        "",
    ),
    mutant(
        "an undone reduction has answered the marks",
        RFC,
        "reno->reduced_seq = flow->snd_una;",
        "",
    ),
    mutant(
        "ECE lets a reduction be undone",
        UNDO,
        "if (ece)\n",
        "if (0)\n",
    ),
    mutant(
        "one segment probes",
        UNDO,
        "#define UC_UNDO_PROBES 2",
        "#define UC_UNDO_PROBES 1",
    ),
    mutant(
        "a timeout after the probe is not inferred",
        "track.h",
        "uc_undo_probes(flow) && uc_after",
        "0 && uc_after",
    ),
    mutant(
        "the repair of a probe is taken for a timeout",
        "track.h",
        " || uc_undo_repairs(flow, seq))",
        ")",
    ),
];

fn folder(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Copies `core/` to `to`, with `fault` planted.
fn copy_core(from: &Path, to: &Path, fault: Option<&Mutant>) {
    for entry in fs::read_dir(from).expect("core/ is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir_all(&target).expect("room for a folder");
            copy_core(&path, &target, fault);
            continue;
        }
        let mut text = fs::read_to_string(&path).expect("a header");
        if let Some(fault) =
            fault.filter(|fault| path.ends_with(Path::new("core").join(fault.file)))
        {
            let places = text.matches(fault.right).count();
            assert_eq!(
                places, 1,
                "{}: occurs {places} times in {}",
                fault.name, fault.file
            );
            text = text.replace(fault.right, fault.wrong);
        }
        fs::write(&target, text).expect("room for a header");
    }
}

/// Builds a core with this fault, or with none.
fn build(scratch: &Path, fault: Option<&Mutant>) -> Loaded {
    let name = fault
        .map_or("none", |fault| fault.name)
        .replace(|c: char| !c.is_alphanumeric(), "-");
    let headers = scratch.join(&name);
    fs::create_dir_all(&headers).expect("room for a folder");
    copy_core(&folder("../../core"), &headers, fault);
    let library = scratch.join(name + ".so");
    let clang = Command::new("clang")
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11", "-w", "-o"])
        .arg(&library)
        .arg("-I")
        .arg(&headers)
        .arg(folder("../../base/core/src/shim.c"))
        .output()
        .expect("clang runs");
    assert!(
        clang.status.success(),
        "{}",
        String::from_utf8_lossy(&clang.stderr)
    );
    // SAFETY: built from uc-core's own shim.c; no fault touches a struct of the contract.
    unsafe { Loaded::open_library(&library) }.expect("the library that was just built")
}

fn verify(core: &Loaded, cases: u64) -> Report {
    let campaign = Campaign {
        law: Law::Ecn,
        guest: Guest::NewReno,
        seed: SEED,
        cases,
        jobs: 2,
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
            let report = verify(&build(scratch.path(), Some(mutant)), CASES_MAX);
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
    let report = verify(&build(scratch.path(), None), 200);
    assert_eq!((report.failure, report.exact), (None, 200), "seed {SEED}");
}
