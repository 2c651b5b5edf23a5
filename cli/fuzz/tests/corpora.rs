//! Replays the inputs that reached new code in the parsers.

use std::path::Path;

use uc_fuzz::TARGETS;

fn bytes(line: &str) -> Vec<u8> {
    let pairs = line.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let digits = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(digits, 16).expect("hexadecimal digits")
        })
        .collect()
}

#[test]
fn corpora_of_the_parsers_break_no_promise() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let corpus = std::fs::read_to_string(corpora.join(target.name)).expect(target.name);
        let inputs = corpus.lines().map(|line| (target.parse)(&bytes(line)));
        let count = inputs.count();
        println!("{}: {count} inputs", target.name);
        assert!(count >= 10, "{}: {count} inputs", target.name);
    }
}

#[test]
fn each_corpus_has_a_target() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in std::fs::read_dir(corpora).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let known = TARGETS.iter().any(|target| name == target.name);
        assert!(known, "{name:?}");
    }
}
