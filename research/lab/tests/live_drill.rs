//! The tree's own scripts against the kernel, without a port's programs and with them: all pass. So do
//! those that only a kernel plays, in `tests/scripts`.

mod support;

use std::fs;
use std::path::Path;

use uc_core::Law;
use uc_drill::{Tally, Verdict, parse, run};
use uc_lab::drill::Kernel;

/// Number of times a script is played before its failure counts: a machine that holds this process
/// up makes it late.
const TRIES: usize = 3;

fn judge_on(mut kernel: Kernel, text: &str) -> Verdict {
    let script = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&script, &mut kernel)
}

fn judge(text: &str, law: Option<Law>) -> Verdict {
    judge_on(kernel(law), text)
}

fn kernel(law: Option<Law>) -> Kernel {
    Kernel::new(law).expect("the lab can be wired")
}

/// Plays every script in a folder of the tree and counts the outcomes.
fn play_all(folder: &str, judge: impl Fn(&str) -> Verdict) -> Tally {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut tally = Tally::default();
    for entry in fs::read_dir(folder).expect("the scripts are part of the tree") {
        let path = entry.expect("a readable entry").path();
        let text = fs::read_to_string(&path).expect("a readable script");
        let mut verdict = judge(&text);
        for _ in 1..TRIES {
            if matches!(verdict, Verdict::Failed { .. }) {
                verdict = judge(&text);
            }
        }
        tally.count(&path.display().to_string(), &verdict);
    }
    tally
}

#[test]
fn live_every_script_passes_on_the_kernel_with_and_without_a_port() {
    if !support::live() {
        return;
    }
    for law in [None, Some(Law::DELAY), Some(Law::ECN)] {
        let tally = play_all("../drill/tests/scripts", |text| judge(text, law));
        let (passed, failed, skipped) = tally.totals();
        println!("{}: {tally}", law.map_or("no port", Law::name));
        assert!(
            passed > 0 && (failed, skipped) == (0, 0),
            "{law:?}: {tally}"
        );
    }
}

#[test]
fn live_scripts_for_a_kernel_pass_and_their_commands_need_a_shell() {
    if !support::live() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let tally = play_all("tests/scripts", |text| {
        judge_on(kernel(None).with_shell(&folder), text)
    });
    let (passed, failed, skipped) = tally.totals();
    assert!(passed > 0 && (failed, skipped) == (0, 0), "{tally}");
    let tally = play_all("tests/scripts", |text| judge(text, None));
    assert_eq!(tally.totals(), (passed - 1, 0, 1), "{tally}");
    assert!(
        tally
            .to_string()
            .contains("the command ip is not supported"),
        "{tally}"
    );
    for (command, stops) in [
        ("false\n true", None),
        ("echo why >&2; exit 3", Some("why")),
        ("no-such-program", Some("the command no-such-program")),
    ] {
        let text = format!("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n`{command}`");
        match (judge_on(kernel(None).with_shell(&folder), &text), stops) {
            (Verdict::Passed, None) => {}
            (Verdict::Failed { why, .. } | Verdict::Skipped { reason: why }, Some(part))
                if why.contains(part) => {}
            (other, _) => panic!("{command}: {other:?}"),
        }
    }
}

#[test]
fn live_a_script_that_the_kernel_does_not_follow_fails() {
    if !support::live() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drill/tests/scripts");
    let text = fs::read_to_string(folder.join("passive_open.pkt")).expect("a readable script");
    for (from, to, why) in [
        ("1001:1001(0) ack 1", "1001:1001(0) ack 2", "ack 2"),
        ("mss 1460", "mss 1461", "mss 1461"),
        ("+0 > F.", "+2 > F.", "expected at"),
    ] {
        assert!(text.contains(from), "{from}");
        match judge(&text.replacen(from, to, 1), Some(Law::DELAY)) {
            Verdict::Failed { why: seen, .. } => assert!(seen.contains(why), "{to}: {seen}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}
