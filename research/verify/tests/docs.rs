//! The documents show what the program prints.

use std::fs;
use std::path::Path;

use uc_core::Compiled;
use uc_verify::smallest::{Reason, smallest};
use uc_verify::{Guest, Law, Limit, Outcome, Plan, Workspace, compare, rounds};

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

#[test]
fn the_documented_smallest_cases_equal_the_commands_output_and_need_each_of_their_parts() {
    for (reason, option) in [(Reason::Any, ""), (Reason::Threshold, " threshold")] {
        let plan = smallest(Law::Ecn, reason).expect("a small case refutes the claim");
        let table = rounds::table(&plan, Law::Ecn, &Compiled);
        assert_documented(&table, &format!("uc verify --smallest{option}"));
        assert_eq!(outcome(&plan), Outcome::Outside(Limit::BeyondGuest));
        let without = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            outcome(&plan)
        };
        let parts = [
            without(&|plan| plan.data.lost.clear()),
            without(&|plan| plan.data.marked.clear()),
            without(&|plan| plan.bursts[1].pause_rto_permille = 0),
            without(&|plan| plan.packets -= 1),
        ];
        assert_eq!(parts, [Outcome::Same; 4], "{}", plan.to_toml());
    }
}

fn outcome(plan: &Plan) -> Outcome {
    let mut workspace = Workspace::default();
    compare(plan, Law::Ecn, Guest::NewReno, &Compiled, &mut workspace).outcome
}
