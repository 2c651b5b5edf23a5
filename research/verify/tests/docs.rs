//! The documents show what the program prints.

use std::fs;
use std::path::Path;

fn theorems() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/theorems.md");
    fs::read_to_string(&path).expect("docs/theorems.md is there")
}

fn assert_documented(table: &str, command: &str) {
    assert!(
        theorems().contains(table.trim_end()),
        "docs/theorems.md has another table than: {command}\n{table}"
    );
}

#[test]
fn the_documented_table_of_relaxed_assumptions_equals_the_commands_output() {
    let table = uc_verify::lift::table(1, 100);
    assert_documented(&table, "uc verify --lift");
    let exact = table.lines().find(|line| line.starts_with("| none |"));
    assert_eq!(
        exact,
        Some("| none | 100 of 100 | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) |"),
        "nothing lifted, nothing different"
    );
}

#[test]
fn the_documented_table_of_laws_and_guests_equals_the_commands_output() {
    let table = uc_verify::matrix::table(1, 40);
    assert_documented(&table, "uc verify --table");
    for law in ["ecn", "dctcp"] {
        let exact = format!("| `{law}`, NewReno | 40 (",);
        let row = table.lines().find(|line| line.starts_with(&exact));
        let identical = "| 40; 1.000 (1.000 to 1.000) | 40; 1.000 (1.000 to 1.000) |";
        assert!(row.is_some_and(|row| row.ends_with(identical)), "{table}");
    }
}
