//! Sensitivity of the corpus: its plan must gain where the core has the fault that the plan was found by.

use uc_core::mutant::{Mutant, compile};
use uc_verify::games::Network;
use uc_verify::games::corpus;
use uc_verify::games::judge::{Arena, GAIN_MAX};

#[test]
fn corpus_shows_a_gain_where_each_timeout_prolongs_the_repair() {
    let fault = Mutant::new(
        "each timeout prolongs the repair",
        "laws/reno_linux.h",
        "if (!uc_guard_segments(&flow->policy))\n\t\treno->recover = flow->snd_nxt;",
        "reno->recover = flow->snd_nxt;",
    );
    let scratch = tempfile::tempdir().expect("a folder for libraries");
    let entries = corpus::entries();
    let entry = entries.first().expect("a plan in the corpus");
    let network = Network {
        core: compile(scratch.path(), Some(&fault)),
        ..entry.network
    };
    let standing = Arena::new(network, entry.guard).mean(&entry.plan, 1..=6);
    assert!(standing.gain > 2.0 * GAIN_MAX, "{standing:?}");
}
