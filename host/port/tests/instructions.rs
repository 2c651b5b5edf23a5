//! The number of instructions that a packet costs. Unlike times, they are the same on a busy machine:
//! those that the core executes in a fixed set of calls, counted by Callgrind, and those of each
//! program in the kernel. Each must be within 2 % of its number in `instructions/accepted.txt`.
//!
//! `UC_ACCEPT=1 cargo test -p uc-port --test instructions` writes that file; it needs root and
//! Valgrind. The numbers hold for one version of clang, and those of programs for one kernel.

#[path = "instructions/calls.rs"]
mod calls;
#[path = "instructions/programs.rs"]
mod programs;
#[path = "instructions/record.rs"]
mod record;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use record::{Counts, Figures, Record, Verdict};

/// Held while the record is read or written.
static RECORD: Mutex<()> = Mutex::new(());

/// Returns the top of the source tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns an empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Asserts that counts are the accepted ones, or makes them so if asked to.
fn assert_accepted(counts: Counts) {
    let _held = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if std::env::var_os("UC_ACCEPT").is_some() {
        return Record::accept(counts);
    }
    match Record::read().compare(&counts) {
        Verdict::Within => {}
        Verdict::Incomparable(why) => uc_live::skip(why),
        Verdict::Beyond(figures) => panic!("{}", record::refusal(&figures)),
    }
}

/// Returns the names of figures that differ too much from those counted before.
fn refused(counts: &Counts, before: Counts) -> Vec<String> {
    match Record::default().with(before).compare(counts) {
        Verdict::Within => Vec::new(),
        Verdict::Beyond(figures) => {
            let text = record::refusal(&figures);
            let names: Vec<_> = figures.into_iter().map(|figure| figure.name).collect();
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
            names
        }
        Verdict::Incomparable(why) => panic!("{why}"),
    }
}

/// Returns a part of each figure, rounded up.
fn part(figures: &Figures, part: f64) -> Figures {
    let some = |(name, count): (&String, &f64)| (name.clone(), (count * part).ceil());
    figures.iter().map(some).collect()
}

#[test]
fn live_calls_of_the_core_take_the_accepted_number_of_instructions() {
    if uc_live::or_skip(calls::need()).is_some() {
        assert_accepted(calls::count(&folder("calls"), &Figures::new()));
    }
}

#[test]
fn live_programs_have_the_accepted_number_of_instructions() {
    if uc_live::or_skip(programs::need()).is_some() {
        assert_accepted(programs::count(&folder("programs"), &root()));
    }
}

#[test]
fn live_three_percent_more_instructions_in_a_call_are_refused_by_name() {
    if uc_live::or_skip(calls::need()).is_none() {
        return;
    }
    let folder = folder("planted-calls");
    let before = calls::count(&folder, &Figures::new());
    let names: Vec<String> = before.figures.keys().cloned().collect();
    let more = calls::count(&folder, &part(&before.figures, 0.03));
    assert_eq!(refused(&more, before), names);
}

#[test]
fn live_three_percent_more_instructions_in_a_program_are_refused_by_name() {
    if uc_live::or_skip(programs::need()).is_none() {
        return;
    }
    let folder = folder("planted-programs");
    let usual = programs::count(&folder, &root()).figures;
    // Instructions at a program's beginning are verified once, so these are fewer than 3 % of what
    // the verifier follows; the second time they are 3 % of that, and more of the others.
    let beginnings = ["instructions", "machine code bytes"].as_slice();
    for (figure, planted) in [
        ("instructions", beginnings),
        ("instructions verified", &["instructions verified"]),
    ] {
        // An assembler statement changes by itself which paths the verifier finds equal, so 3 % are
        // compared with one instruction.
        let [before, after] = [f64::MIN_POSITIVE, 0.03].map(|part| {
            programs::plant(&folder, &usual, figure, part);
            programs::count(&folder, &folder)
        });
        let refused = refused(&after, before);
        let is_planted = |name: &&String| planted.iter().any(|figure| name.ends_with(figure));
        for name in usual.keys().filter(is_planted) {
            assert!(refused.contains(name), "{name}: {refused:?}");
        }
    }
}
