//! `uc-bench run --shard`, `--resume` and `uc-bench merge`: however the runs of a sweep are cut, interrupted and
//! joined, the result has the same bytes.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uc_batch::RUNS;
use uc_batch::outputs::FILES;
use uc_live::command::{Outcome, assert_refusal, folder_with, names_in, outcome};

use crate::common::{TINY, UC_BENCH};

/// 2 × 5 × 20 points, of which each takes milliseconds. Expectations on the edge lead to more runs.
fn sweep() -> String {
    let delays: Vec<String> = (1..=20).map(|ms| format!("\"{ms}ms\"")).collect();
    let axes = format!(
        "[[sweep]]\nname = \"rate\"\nset = {{ \"network.rate\" = [\"5Mbit\", \"10Mbit\"] }}\n\
         [[sweep]]\nname = \"guests\"\n\
         set = {{ \"case.only.guests.virtual.count\" = [1, 2, 3, 4, 5] }}\n\
         [[sweep]]\nname = \"delay\"\nset = {{ \"network.delay\" = [{}] }}\n",
        delays.join(", ")
    );
    let short = TINY
        .replace(
            "duration = \"2s\"",
            "repeat = 2\nrepeat_max = 4\nduration = \"400ms\"",
        )
        .replace("settle = \"500ms\"", "settle = \"100ms\"")
        .replace("at_least = 0.5", "at_least = 0.9");
    format!("{short}{axes}")
}

fn uc(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(UC_BENCH);
    command.current_dir(folder.path()).args(arguments);
    command
}

/// Returns the command that makes `t.toml`, or a part of it, in the folder `out`.
fn run(folder: &TempDir, out: &str, more: &[&str]) -> Command {
    let arguments = ["run", "t.toml", "--on", "sim", "--seed", "3", "--out", out];
    uc(folder, &[&arguments, more].concat())
}

/// Returns every file of a result. Its verdicts may be negative: these tests compare bytes.
fn bytes(folder: &TempDir, out: &str) -> Vec<(&'static str, Vec<u8>)> {
    let read = |name| fs::read(folder.path().join(out).join(name)).unwrap();
    FILES.map(|name| (name, read(name))).into()
}

fn assert_made(outcome: &Outcome) {
    assert!(matches!(outcome.status, Some(0 | 1)), "{outcome:?}");
}

fn assert_same(folder: &TempDir, whole: &[(&str, Vec<u8>)], out: &str) {
    for ((name, whole), (_, other)) in whole.iter().zip(bytes(folder, out)) {
        assert!(*whole == other, "{name} of {out} differs");
    }
}

#[test]
fn sweep_of_200_points_has_the_same_bytes_from_1_2_and_7_shards() {
    let folder = folder_with(&sweep());
    let made = outcome(run(&folder, "whole", &[]));
    assert_made(&made);
    assert!(
        made.stderr.contains("uc-bench: undecided so far: "),
        "{made:?}"
    );
    let whole = bytes(&folder, "whole");
    for count in [1, 2, 7] {
        let out = format!("merged-{count}");
        let mut merge = vec!["merge".to_owned(), "--out".to_owned(), out.clone()];
        // From the last to the first: their order is all the same.
        for index in (0..count).rev() {
            let (part, shard) = (format!("of-{count}-{index}"), format!("{index}/{count}"));
            let done = outcome(run(&folder, &part, &["--shard", &shard]));
            assert_eq!(
                (done.status, done.stderr.as_str()),
                (Some(0), ""),
                "{done:?}"
            );
            assert!(
                done.stdout.starts_with(&format!("shard {shard}: ")),
                "{done:?}"
            );
            assert_eq!(names_in(&folder.path().join(&part)), [RUNS]);
            merge.push(part);
        }
        let merge: Vec<&str> = merge.iter().map(String::as_str).collect();
        let merged = outcome(uc(&folder, &merge));
        assert_eq!(merged.status, made.status, "{merged:?}");
        assert_same(&folder, &whole, &out);
        // The further runs that the merging made are used when it is repeated.
        let again = outcome(uc(&folder, &merge));
        assert_eq!((again.status, again.stderr.as_str()), (made.status, ""));
        assert_same(&folder, &whole, &out);
    }
}

/// Waits until the file has this many bytes or the child has ended. Returns false if it has ended.
fn grows(file: &Path, bytes: u64, child: &mut std::process::Child) -> bool {
    let start = Instant::now();
    while fs::metadata(file).map_or(0, |meta| meta.len()) <= bytes {
        assert!(start.elapsed() < Duration::from_secs(60), "it makes runs");
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn run_killed_at_random_moments_and_resumed_has_the_same_bytes() {
    let seed = std::env::var("UC_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("UC_SEED={seed}");
    let folder = folder_with(&sweep());
    let start = Instant::now();
    assert_made(&outcome(run(&folder, "whole", &[])));
    let took = start.elapsed();
    let whole = bytes(&folder, "whole");
    let file = folder.path().join("cut").join(RUNS);
    let (mut kills, mut random) = (0, seed);
    for _ in 0..4 {
        let had = fs::metadata(&file).map_or(0, |meta| meta.len());
        let mut command = run(&folder, "cut", &["--resume"]);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap();
        if grows(&file, had, &mut child) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            std::thread::sleep(took.mul_f64((random >> 40) as f64 / f64::from(1 << 24) / 6.0));
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        kills += u32::from(status.code().is_none());
    }
    assert!(kills > 0, "a run was killed before its end");
    let again = outcome(run(&folder, "cut", &["--resume"]));
    assert_made(&again);
    assert_same(&folder, &whole, "cut");
    // Nothing is lacking now, so the file of runs stays as it is.
    let complete = fs::read(&file).unwrap();
    assert_made(&outcome(run(&folder, "cut", &["--resume"])));
    assert!(fs::read(&file).unwrap() == complete, "runs were made again");
}

#[test]
fn torn_last_line_is_made_again_and_a_broken_line_before_it_is_refused() {
    let folder = folder_with(TINY);
    let three = ["--repeat", "3", "--resume"];
    assert_made(&outcome(run(&folder, "o", &three)));
    let whole = bytes(&folder, "o");
    let file = folder.path().join("o").join(RUNS);
    let complete = fs::read(&file).unwrap();
    let last = complete[..complete.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n');
    let last = last.unwrap() + 1;
    // Behind the line before, in the middle, and without its end; also inside the first line.
    for cut in [last, (last + complete.len()) / 2, complete.len() - 1, 10, 0] {
        fs::write(&file, &complete[..cut]).unwrap();
        assert_made(&outcome(run(&folder, "o", &three)));
        assert_same(&folder, &whole, "o");
        let runs = fs::read_to_string(&file).unwrap();
        assert_eq!(runs.matches("{\"run\":").count(), 3, "cut at {cut}");
    }
    let mut broken = complete.clone();
    broken[last - 2] = b'?';
    fs::write(&file, &broken).unwrap();
    let refused = outcome(run(&folder, "o", &three));
    assert_refusal(&refused, &["o/runs.jsonl:", "remove the file"], "broken");
    // Without --resume its runs are replaced.
    assert_made(&outcome(run(&folder, "o", &["--repeat", "3"])));
    assert_same(&folder, &whole, "o");
}

#[test]
fn more_or_fewer_repetitions_use_the_runs_that_are_there() {
    let folder = folder_with(TINY);
    assert_made(&outcome(run(&folder, "more", &["--repeat", "4"])));
    assert_made(&outcome(run(&folder, "o", &["--repeat", "2"])));
    let two = bytes(&folder, "o");
    assert_made(&outcome(run(&folder, "o", &["--repeat", "4", "--resume"])));
    assert_same(&folder, &bytes(&folder, "more"), "o");
    let file = folder.path().join("o").join(RUNS);
    let runs = fs::read_to_string(&file).unwrap();
    assert_eq!(runs.matches("{\"run\":").count(), 4);
    assert_made(&outcome(run(&folder, "o", &["--repeat", "2", "--resume"])));
    assert_same(&folder, &two, "o");
    assert_eq!(fs::read_to_string(&file).unwrap(), runs);
}

#[test]
fn records_of_another_file_seed_or_program_are_refused_by_name() {
    let folder = folder_with(TINY);
    let (zero, one) = (["--shard", "0/2"], ["--shard", "1/2"]);
    let repeat = ["--repeat", "2"];
    let part = |out: &str, more: &[&str]| {
        assert_made(&outcome(run(&folder, out, &[more, &repeat].concat())));
    };
    part("a", &zero);
    part("b", &one);
    let resume = |more: &[&str], parts: &[&str]| {
        let more = [&["--resume"], more, &zero, &repeat].concat();
        let text = format!("{more:?}");
        assert_refusal(&outcome(run(&folder, "a", &more)), parts, &text);
    };
    let set = ["--set", "network.rate=5Mbit"];
    resume(
        &set,
        &["a/runs.jsonl", "--set all", "network.rate=5Mbit", "--out"],
    );
    let case = ["--case", "only"];
    resume(&case, &["a/runs.jsonl", "--case all, not only"]);
    let merge = |parts: &[&str]| {
        let refused = outcome(uc(&folder, &["merge", "a", "b", "--out", "m"]));
        assert_refusal(&refused, parts, "merge");
        assert!(!folder.path().join("m").exists(), "nothing is left behind");
    };
    let file = folder.path().join("b").join(RUNS);
    let good = fs::read_to_string(&file).unwrap();
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
    };
    replaced("\"commit\":\"", "\"commit\":\"other-");
    merge(&["b/runs.jsonl", "of program other-", "merge folders of one"]);
    replaced("\"seed\":3,", "\"seed\":4,");
    merge(&["b/runs.jsonl", "of seed 4, not 3"]);
    replaced("\"setup\":\"", "\"setup\":\"0");
    merge(&["b/runs.jsonl", "another experiment file"]);
    replaced("\"repeat\":2", "\"repeat\":5");
    merge(&["b/runs.jsonl", "--repeat is 5, not 2"]);
    // A run that no command of this seed makes, and one whose numbers were changed.
    replaced("\"run\":1,", "\"run\":9,");
    merge(&[
        "b/runs.jsonl",
        "run 9, seed 4",
        "has no run with this point",
    ]);
    fs::write(&file, &good).unwrap();
    fs::create_dir(folder.path().join("c")).unwrap();
    let changed = good.replacen("\"delivered_bytes\":[", "\"delivered_bytes\":[1", 9);
    fs::write(folder.path().join("c").join(RUNS), changed).unwrap();
    let refused = outcome(uc(&folder, &["merge", "a", "b", "c", "--out", "m"]));
    assert_refusal(
        &refused,
        &["c/runs.jsonl", "two records of this simulated run differ"],
        "c",
    );
    let merged = outcome(uc(&folder, &["merge", "a", "b", "--out", "m"]));
    assert_made(&merged);
}

#[test]
fn missing_shard_is_named_with_the_command_that_makes_it() {
    let folder = folder_with(TINY);
    let part = |index: u32| {
        let (out, shard) = (format!("s{index}"), format!("{index}/3"));
        run(&folder, &out, &["--repeat", "3", "--shard", &shard])
    };
    for index in [0, 2] {
        assert_made(&outcome(part(index)));
    }
    let merge = ["merge", "s0", "s1", "s2", "--out", "m"];
    let command = "uc-bench run t.toml --on sim --seed 3 --repeat 3 --shard 1/3 --resume --out s1";
    let missing = ["shard 1/3 is missing: 1 of its 1 runs", command];
    assert_refusal(&outcome(uc(&folder, &merge)), &missing, "absent folder");
    let two = ["merge", "s0", "s2", "--out", "m"];
    assert_refusal(&outcome(uc(&folder, &two)), &missing, "left out");
    assert!(!folder.path().join("m").exists());
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_made(&outcome(uc(&folder, &words)));
    assert_made(&outcome(uc(&folder, &merge)));
    let none = outcome(uc(&folder, &["merge", "nowhere", "--out", "m"]));
    assert_refusal(&none, &["nowhere/runs.jsonl: no runs"], "no folder");
    // More shards than runs: those without runs are there as well.
    let five = run(&folder, "empty", &["--shard", "4/5"]);
    let done = outcome(five);
    assert!(done.stdout.contains("shard 4/5: 0 runs"), "{done:?}");
    let refused = outcome(run(&folder, "x", &["--shard", "5/5"]));
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("0/5 to 4/5"), "{refused:?}");
}

#[test]
fn second_command_in_the_same_folder_is_refused_while_the_first_runs() {
    let long = TINY.replace("duration = \"2s\"", "duration = \"1000000s\"");
    let folder = folder_with(&long);
    let mut first = run(&folder, "o", &["--shard", "0/1"]);
    let mut child = first.stdout(Stdio::null()).spawn().unwrap();
    let file = folder.path().join("o").join(RUNS);
    let begun = grows(&file, 0, &mut child);
    let second = outcome(run(&folder, "o", &["--shard", "0/1", "--resume"]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(begun);
    let parts = [
        "o/runs.jsonl",
        "another command is appending runs to it",
        "--out",
    ];
    assert_refusal(&second, &parts, "second");
}
