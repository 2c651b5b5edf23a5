//! The documents show what the program prints.

use std::fs;
use std::path::Path;

#[test]
fn the_documented_table_of_relaxed_assumptions_equals_the_commands_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/theorems.md");
    let docs = fs::read_to_string(&path).expect("docs/theorems.md is there");
    let table = uc_verify::lift::table(1, 100);
    assert!(
        docs.contains(table.trim_end()),
        "docs/theorems.md has another table than: uc verify --lift\n{table}"
    );
    let exact = table.lines().find(|line| line.starts_with("| none |"));
    assert_eq!(
        exact,
        Some("| none | 100 of 100 | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) |"),
        "nothing lifted, nothing different"
    );
}
