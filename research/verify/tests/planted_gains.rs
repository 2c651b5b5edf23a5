//! Sensitivity of the corpus and of the search: where the core has a fault that suspends the law, a plan must
//! gain.

use std::time::{Duration, Instant};

use uc_core::Law;
use uc_core::mutant::{Mutant, compile};
use uc_verify::games::campaign::CHAIN_PLANS;
use uc_verify::games::corpus::{self, PROFILES};
use uc_verify::games::judge::{Arena, GAIN_MAX};
use uc_verify::games::{Campaign, Guard, Network};

const PROLONGED: Mutant = Mutant::new(
    "each timeout prolongs the repair",
    "laws/reno_linux.h",
    "if (!uc_guard_segments(&flow->policy))\n\t\treno->recover = flow->snd_nxt;",
    "reno->recover = flow->snd_nxt;",
);

/// A fault for each state in which a law is suspended, or could be, with the law under which it shows. Two
/// faults of this kind give no guest a gain. If marks of unsure flows were not answered: the guest's next
/// data in order end the doubt. If each timeout prolonged the repair under law `delay`: one that comes
/// a round trip after the last decrease halves the window again.
const SUSPENDED: [(Law, Mutant); 8] = [
    (Law::ECN, PROLONGED),
    (
        Law::DELAY,
        Mutant::new(
            "losses before the port are not answered",
            "track.h",
            "if (segment->seq != flow->snd_una || flow->dup_acks < UC_DUP_ACKS) {",
            "if (1) {",
        ),
    ),
    (
        Law::ECN,
        Mutant::new(
            "each ACK prolongs a recovery",
            "laws/reno_linux.h",
            "\tif (!passed)\n\t\treturn;",
            "\tif (flow->ca == UC_CA_RECOVERY)\n\t\treno->recover = flow->snd_nxt;\n\tif (!passed)\n\t\treturn;",
        ),
    ),
    (
        Law::ECN,
        Mutant::new(
            "a mark leaves the undo open",
            "undo.h",
            "(!acked_bytes && flow->repeated) || ece)",
            "(!acked_bytes && flow->repeated))",
        ),
    ),
    (
        Law::ECN,
        Mutant::new(
            "blind flows go on without a pause",
            "missed.h",
            "return paused_us > pause_us &&\n\t       uc_segment_end",
            "return (flow->bits & UC_FLOW_BLIND || paused_us > pause_us) &&\n\t       uc_segment_end",
        ),
    ),
    (
        Law::COUPLED,
        Mutant::new(
            "a first member in a reduction keeps its window",
            "coupling.h",
            "if (report.state == UC_CCC_RECOVERY)\n",
            "if (0)\n",
        ),
    ),
    (
        Law::COUPLED,
        Mutant::new(
            "a first member's reduction answers the next one",
            "coupling.h",
            "\t\tccc->cut_ns = 0;\n",
            "\t\tccc->cut_ns = report.state == UC_CCC_RECOVERY ? uc_max64(now_ns, 1) : 0;\n",
        ),
    ),
    (
        Law::ECN,
        Mutant::new(
            "a timeout opens the window as a recovery does",
            "laws/reno.h",
            "return flow->ca == UC_CA_LOSS ?",
            "return 0 ?",
        ),
    ),
];

#[test]
fn corpus_shows_a_gain_where_each_timeout_prolongs_the_repair() {
    let scratch = tempfile::tempdir().expect("a folder for libraries");
    let entries = corpus::entries();
    let entry = entries.first().expect("a plan in the corpus");
    let network = Network {
        core: compile(scratch.path(), Some(&PROLONGED)),
        ..entry.network
    };
    let standing = Arena::new(network, entry.guard).mean(&entry.plan, 1..=24);
    assert!(standing.gain > GAIN_MAX, "{standing:?}");
}

#[test]
fn corpus_shows_a_gain_where_a_group_or_a_repair_has_a_fault() {
    let scratch = tempfile::tempdir().expect("a folder for libraries");
    let entries = corpus::entries();
    let gaining = [&entries[2], &entries[4], &entries[6]];
    for ((_, fault), entry) in SUSPENDED[5..].iter().zip(gaining) {
        let network = Network {
            core: compile(scratch.path(), Some(fault)),
            ..entry.network
        };
        let standing = Arena::new(network, entry.guard).mean(&entry.plan, 1..=24);
        println!("{}: {standing:?}", fault.name);
        assert!(standing.gain > GAIN_MAX, "{}: {standing:?}", fault.name);
    }
}

/// The search has an hour for each fault. `UC_FAULT=n` searches with the one of this number alone.
#[test]
#[ignore = "takes up to an hour for each fault"]
fn search_finds_a_gain_where_a_fault_suspends_the_law() {
    let scratch = tempfile::tempdir().expect("a folder for libraries");
    let only = std::env::var("UC_FAULT").ok();
    for (number, (law, fault)) in SUSPENDED.iter().enumerate() {
        if only
            .as_ref()
            .is_some_and(|only| *only != number.to_string())
        {
            continue;
        }
        let campaign = Campaign {
            core: compile(scratch.path(), Some(fault)),
            ..Campaign::new(*law, PROFILES[0].1, Guard::Strict, 1)
        };
        let began = Instant::now();
        let plans = plans_until_a_gain(&campaign, began + Duration::from_hours(1));
        let seconds = began.elapsed().as_secs();
        println!("{}: {plans:?} plans, {seconds} s", fault.name);
        assert!(plans.is_some(), "{}, seed 1", fault.name);
    }
}

/// Returns how many plans a search tries until one breaks a bar; `None` if none does before `end`.
fn plans_until_a_gain(campaign: &Campaign, end: Instant) -> Option<u64> {
    let mut plans = 0;
    for number in 0.. {
        let mut chain = campaign.chain(number);
        for _ in 0..CHAIN_PLANS {
            plans += 1;
            if chain.next_plan().is_some() {
                return Some(plans);
            }
            if Instant::now() > end {
                return None;
            }
        }
    }
    None
}
