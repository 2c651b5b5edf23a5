//! What the docs say is what the program prints.

use std::fs;
use std::path::Path;

#[test]
fn the_table_of_lifted_assumptions_is_what_the_command_prints() {
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
