//! The kept records and the documents that quote them, without a run: every experiment that can be
//! simulated has a record of its file as it is, no expectation fails, no bar hides that a
//! paper's number is missed, and each quoted number is the record's.

use std::path::{Path, PathBuf};

use uc_bench::records::{self, Kept};
use uc_bench::reproduce::docs;
use uc_experiment::{Arm, Outcome};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_simulated_experiment_has_a_record_and_none_of_its_expectations_fails_or_is_undecided() {
    for id in records::ids(&root(), Arm::Sim).unwrap() {
        let kept = Kept::open(&root(), &id, Arm::Sim, &[]).unwrap();
        let evaluation = kept.evaluation();
        let evaluation = evaluation.unwrap_or_else(|error| panic!("{id}: {error:#}"));
        for verdict in &evaluation.verdicts {
            assert!(
                matches!(verdict.outcome, Outcome::Holds | Outcome::Differs),
                "{id}: {} {:?} {}",
                verdict.name,
                verdict.at,
                verdict.outcome
            );
        }
    }
}

#[test]
fn every_record_is_of_an_experiment_and_can_be_read() {
    for arm in Arm::ALL {
        for id in records::kept_ids(&root(), arm).unwrap() {
            let kept = Kept::open(&root(), &id, arm, &[]);
            let kept = kept.unwrap_or_else(|error| panic!("{arm} {id}: {error:#}"));
            kept.values().unwrap();
        }
    }
}

#[test]
fn documents_say_what_the_records_say() {
    let found = docs::read(&root()).unwrap();
    assert!(found.problems.is_empty(), "{:#?}", found.problems);
    let changed: Vec<String> = found
        .changed
        .iter()
        .map(|file| file.path.display().to_string())
        .collect();
    assert!(
        changed.is_empty(),
        "{changed:?} differ from the records: uc-bench reproduce --docs --accept"
    );
    assert!(
        found.quotes >= 50,
        "only {} numbers are quoted",
        found.quotes
    );
}

#[test]
fn no_row_of_a_record_fails_and_no_bar_hides_that_the_papers_number_is_missed() {
    let mut failed = Vec::new();
    for arm in Arm::ALL {
        for id in records::kept_ids(&root(), arm).unwrap() {
            let kept = Kept::open(&root(), &id, arm, &[]).unwrap();
            // An incomplete record is shown as such.
            let Ok(evaluation) = kept.evaluation() else {
                continue;
            };
            for verdict in evaluation.with(Outcome::Fails) {
                let (name, at, ours) = (&verdict.name, &verdict.at, verdict.ours);
                let hidden = verdict.hidden_number();
                failed.push(format!(
                    "{arm} {id}: {name} {at:?}: {ours:?}; hides the paper's number: {hidden:?}"
                ));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "give these the paper's number as their bar, and `differs` a reason:\n{}",
        failed.join("\n")
    );
}

#[test]
fn no_record_of_hosts_that_overrides_retune_reproduces_a_paper() {
    for arm in Arm::ALL {
        for id in records::kept_ids(&root(), arm).unwrap() {
            let kept = Kept::open(&root(), &id, arm, &[]).unwrap();
            let is_retuned = kept.head.set.iter().any(|set| set.starts_with("stack."));
            let Ok(evaluation) = kept.evaluation() else {
                continue;
            };
            let mut verdicts = evaluation.verdicts.iter();
            assert!(
                !is_retuned || verdicts.all(|verdict| verdict.reproduced().is_none()),
                "{arm} {id}: give the variant a file of its own, with bars of after the runs"
            );
        }
    }
}
