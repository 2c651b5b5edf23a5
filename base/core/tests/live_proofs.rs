//! The proofs of the core that take seconds (`scripts/prove --quick`); `make prove` runs all.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a script of the tree.
fn run(script: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(root.join("scripts").join(script))
        .args(arguments)
        .output()
        .expect("the script starts")
}

/// Returns whether CBMC is there, which is fetched from Debian's archive; otherwise prints why the
/// test is skipped.
fn has_cbmc() -> bool {
    let found = run("cbmc", &[]);
    let found = match found.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&found.stderr).trim().to_owned()),
    };
    uc_live::or_skip(found).is_some()
}

fn assert_succeeds(arguments: &[&str]) {
    if !has_cbmc() {
        return;
    }
    let done = run("prove", arguments);
    let table = String::from_utf8_lossy(&done.stdout);
    println!("{table}");
    assert!(
        done.status.success(),
        "{table}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn live_quick_proofs_of_the_core_hold() {
    assert_succeeds(&["--quick"]);
}

#[test]
fn live_quick_proofs_refute_the_faults_planted_for_them() {
    assert_succeeds(&["--quick", "--faults"]);
}
